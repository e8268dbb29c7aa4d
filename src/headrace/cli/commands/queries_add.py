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
    from headrace.control.audited import audited
    from headrace.governance.roles import Action
    from headrace.model.definition import StoredQuery
    from headrace.serve.search.stored import checked

    path = folder(project)
    stored = checked(path, StoredQuery(name, view, query))
    with audited(path, Action.QUERY_ADD, stored.view, query=name):
        file = searches.add(path, stored).relative_to(path).as_posix()
    if json:
        display.emit({"name": name, "view": stored.view, "query": query, "file": file})
        return
    display.say(f"wrote {file}; `headrace queries watch {name}` follows what it matches")
