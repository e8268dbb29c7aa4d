"""headrace views"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace views
headrace views --json | jq -r '.views[].name'
headrace views revenue                      # its versions: what it was before
headrace views revenue --json | jq -r '.versions[1].sql'
"""
FIELDS = ("name", "version", "state", "commit", "rows", "reason")
TIMES = ("version", "state", "came_commit", "came_at", "gone_commit", "gone_at")


def run(
    view: Annotated[
        str | None, typer.Argument(metavar="VIEW", help="Its versions instead, newest first, with their SQL.")
    ] = None,
    *,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """List the views: version, state, the commit each has reached, rows. Or the versions of one.

    Reads what is published; works beside a running `headrace up` and without one.

    A version comes with an edit of the view's SQL that means something else, and goes with the next one or with the
    view. Those of a dropped view are told by its name too. Times are not known of versions that Headrace made before
    it kept them.
    """
    path = folder(project)
    if view is not None:
        _versions(path, view, json=json)
        return
    views = look(path)
    if json:
        display.emit({"views": views})
    elif views:
        display.records(FIELDS, [{**view, "reason": display.one_line(view.get("reason", ""))} for view in views])
    else:
        display.say("There are no views yet: a view is a file views/NAME.sql with one SELECT.")


def _versions(path: Path, view: str, *, json: bool) -> None:
    from headrace.serve import described

    found = described.versions(path, view)
    if json:
        display.emit(found)
        return
    for each in found["versions"]:
        display.records(TIMES, [each])
        display.say(display.plain(each["sql"].strip()))
        display.say()


def look(path: Path) -> list[dict[str, Any]]:
    """The published views, then those that are only defined so far (state ``new``)."""
    from headrace.cli import published

    found = published.views(path)
    names = {str(view["name"]).lower() for view in found}
    return [*found, *({"name": name, "state": "new"} for name in published.defined(path) if name.lower() not in names)]
