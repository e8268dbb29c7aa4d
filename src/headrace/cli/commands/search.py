"""headrace search"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

if TYPE_CHECKING:
    from headrace.serve.search.found import Found, Snippet

EPILOG = """
headrace search orders "late parcel"                # both words, in any columns
headrace search orders '"late parcel" OR refund'    # these words in a row, or another
headrace search orders 'note:late total:>=100 due:[2026-03 TO *]'
headrace search orders 'pay* NOT status:paid' --limit 50
headrace search orders refund --field note --json | jq '.hits[].row'
"""


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view, or a table that views read.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=0, help="Rows to show. Default: 10.")] = 10,
    offset: Annotated[
        int, typer.Option("--offset", metavar="N", min=0, help="Rows to pass over before. Default: 0.")
    ] = 0,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", "-f", metavar="COLUMN", help="Look for bare words in it alone; may be repeated."),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Search a view or a table for words and values, best match first.

    A word stands for itself in any column; word* begins a word; "a phrase" is words in a row; column:word,
    column:[1 TO 5], column:>5, column:2026-03 and column:* ask one column; AND, OR, NOT and ( ) join them, words
    beside each other are all asked for.

    The first search of it makes an index (about 8 s for a million rows), each later one adds what was
    published since. Works beside a running `headrace up` and without one.
    """
    from headrace.cli import published
    from headrace.serve.search.found import search

    path = folder(project)
    name = published.relation(path, view)
    with display.working(f"searching {name}") as progress:
        found = search(path, name, query, limit, offset, columns=field or (), progress=progress)
    if json:
        display.emit(found.as_dict())
    else:
        _print(found)


def _print(found: Found) -> None:
    from headrace.formats.json_tables import rows

    shown = f", {found.rows.num_rows} shown" if sum(found.copies) < found.total else ""
    display.say(f"{found.schema.name} at commit {found.commit:,}: {display.counted(found.total, 'row')} found{shown}")
    if found.state != "live":
        display.say(f"  {display.paint('the view has failed', 'bold red')}: {display.one_line(found.reason)}")
    for row, copies, snippets in zip(rows(found.rows), found.copies, found.snippets, strict=True):
        marked = {snippet.column: _marked(snippet) for snippet in snippets}
        cells = (
            f"{display.plain(name)}={marked.get(name) or display.cell(value)}"
            for name, value in zip(found.schema.names, row, strict=True)
        )
        display.say("\n" + "  ".join(cells) + (f"  (x{copies})" if copies != 1 else ""))


def _marked(snippet: Snippet) -> str:
    """The text on one line, with what was found in bold."""
    parts, at = [], 0
    for begin, end in snippet.marks:
        found = display.paint(display.plain(snippet.text[begin:end]), "bold yellow")
        parts += [display.plain(snippet.text[at:begin]), found]
        at = end
    return "".join([*parts, display.plain(snippet.text[at:])])
