"""headrace queries show"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder
from headrace.cli.queries import NameArgument

EPILOG = """
headrace queries show late
headrace queries show late --at 1042 --json | jq '.matches[].row'
"""


def run(
    name: NameArgument,
    *,
    at: Annotated[int | None, typer.Option("--at", metavar="COMMIT", min=0, help="As of this commit.")] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show the rows that a stored query matches, now or as of a commit.

    As of a commit as far back as what is published of the view goes: the last 256 steps.
    """
    from headrace.catalog import searches
    from headrace.cli import published
    from headrace.serve import snapshot
    from headrace.serve.search.watched import changes, matched

    path = folder(project)
    stored = searches.find(path, name)
    view = published.find(path, stored.view)
    commit, schema, rows = matched(path, view, stored, at)
    found = changes(rows)
    failed = snapshot.failure(path, view) if at is None else None
    stale = {} if failed is None else {view: failed["reason"]}
    if json:
        matches = [{"copies": match["weight"], "row": match["row"]} for match in found]
        head = {"query": stored.name, "view": schema.name, "version": schema.version, "commit": commit}
        display.emit({**head, "matches": matches, "stale": stale})
        return
    total = sum(match["weight"] for match in found)
    display.say(f"{stored.name} in {schema.name} at commit {commit:,}: {display.counted(total, 'row')}\n")
    columns = [{"name": column.name, "type": column.type} for column in schema.columns]
    display.table(columns, [list(match["row"].values()) for match in found for _ in range(match["weight"])])
    display.behind(stale)
