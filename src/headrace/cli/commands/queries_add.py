"""headrace queries add"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace queries add late --view orders '"late parcel" OR (refund status:open)'
headrace queries add large_open --view orders 'total:>=1000 status:open'
headrace queries watch late
"""


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the query is to be called.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="As `headrace search` takes it.")],
    *,
    view: Annotated[str, typer.Option("--view", metavar="VIEW", help="The view whose rows it is matched against.")],
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Store a query: from now on it is matched against every row of a view that comes or goes.

    It is the file searches/NAME.yaml, with view and query, which may as well be written by hand. Whoever watches stored
    queries takes it up at once; nothing has to be applied.
    """
    from headrace.catalog import searches
    from headrace.cli import published
    from headrace.model.definition import StoredQuery
    from headrace.serve.search.stored import problems

    path = folder(project)
    stored = StoredQuery(name, view, query)
    if published.is_view(path, view):
        stored = StoredQuery(name, _spelled(view, published.defined(path)), query)
    for problem in problems(path, [stored]).values():
        raise problem
    file = searches.add(path, stored).relative_to(path).as_posix()
    if json:
        display.emit({"name": name, "view": stored.view, "query": query, "file": file})
        return
    display.say(f"wrote {file}; `headrace queries watch {name}` follows what it matches")


def _spelled(view: str, names: list[str]) -> str:
    """The view's name as its file has it."""
    return next((name for name in names if name.lower() == view.lower()), view)
