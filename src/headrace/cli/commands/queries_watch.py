"""headrace queries watch"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import afar, display, queries
from headrace.cli.afar import CaOption, UrlOption
from headrace.cli.following import until_interrupted
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace queries watch late                  # what it matches, then each change
headrace queries watch late refunds          # of several queries of one view
headrace queries watch late --url https://shop.example:7080
headrace queries watch --view orders --json | jq -c '.changes[] | select(.weight > 0)'
"""


def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Stored queries of one view.")] = None,
    *,
    view: Annotated[
        str | None, typer.Option("--view", metavar="VIEW", help="All stored queries of a view, in place of names.")
    ] = None,
    snapshot: Annotated[
        bool,
        typer.Option("--snapshot/--no-snapshot", help="Whether to begin with what they match now. Default: yes."),
    ] = True,
    url: UrlOption = "",
    ca: CaOption = "",
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Follow what stored queries match, until Ctrl-C.

    First the rows that they match now, then a line for each match that comes (+) or goes (-): when a row does, and when
    a query does. Queries that are added, changed and removed meanwhile are taken up within a second.

    With --json each line is one step, whole: {"commit", "snapshot", "changes": [{"query", "weight", "row"}]}. Works
    without a running `headrace up` too, and goes on when one starts. With --url it is one query, by its name, of which
    all comes anew once it is changed.
    """
    from headrace.catalog import searches
    from headrace.cli import published
    from headrace.serve.search.watched import Watched, changes

    if bool(names) == (view is not None):
        raise typer.BadParameter("name stored queries, or a view by --view")
    if url:
        _from_afar(url, names, ca, snapshot, json)
        return
    path = folder(project)
    stored = [searches.find(path, name) for name in names or ()]
    views = {published.find(path, of) for of in ([view] if view else [query.view for query in stored])}
    if len(views) > 1:
        raise typer.BadParameter(f"these are queries of several views: {', '.join(sorted(views))}")
    wanted = [query.name for query in stored] or None
    watched, first = Watched(path, views.pop(), wanted, display.error), True
    with until_interrupted() as stop:
        for commit, matches in watched.follow(stop):
            if snapshot or not first:
                _tell(commit, changes(matches), json, first=first)
            first = False


def _from_afar(url: str, names: list[str] | None, ca: str, snapshot: bool, json: bool) -> None:
    if names is None or len(names) != 1:
        raise typer.BadParameter("one stored query by its name is followed over HTTP", param_hint="--url")
    with until_interrupted() as stop:
        for step in afar.steps(url, names[0], ca, stop, kind="queries", snapshot=snapshot):
            if step.kind == "behind":
                afar.forgotten(step, json)
            else:
                told = [{"query": names[0], **change} for change in step.changes]
                _tell(step.commit, told, json, first=step.kind == "snapshot")


def _tell(commit: int, told: list[dict[str, Any]], json: bool, *, first: bool) -> None:
    if json:
        display.emit({"commit": commit, "snapshot": first, "changes": told}, line=True)
        return
    for change in told:
        display.say(queries.line(commit, change, first=first))
