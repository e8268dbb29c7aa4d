"""headrace queries change"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder
from headrace.cli.queries import NameArgument

EPILOG = """
headrace queries change late '"late parcel" OR lost'
headrace queries change late --view returns          # the same words in another view
"""


def run(
    name: NameArgument,
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="As `headrace search` takes it.")] = None,
    *,
    view: Annotated[
        str | None, typer.Option("--view", metavar="VIEW", help="Another view whose rows it is matched against.")
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Change a stored query: its words, its view, or both; what is not given stays.

    Its file searches/NAME.yaml is written anew, comments in it go. For those who watch it what it does not match any
    more goes, and what it matches besides comes.
    """
    from headrace.catalog import searches
    from headrace.control.audited import audited
    from headrace.governance.roles import Action
    from headrace.model.definition import StoredQuery
    from headrace.serve.search.stored import checked

    if query is None and view is None:
        raise typer.BadParameter("give another query, another --view, or both")
    path = folder(project)
    if query is None or view is None:
        before = searches.find(path, name)
        query, view = query if query is not None else before.query, view or before.view
    stored = checked(path, StoredQuery(name, view, query))
    with audited(path, Action.QUERY_CHANGE, stored.view, query=name):
        file = searches.change(path, stored)
    told = {"name": file.stem, "view": stored.view, "query": stored.query, "file": file.relative_to(path).as_posix()}
    if json:
        display.emit(told)
        return
    display.say(f"wrote {told['file']}; `headrace queries watch {file.stem}` follows what it matches")
