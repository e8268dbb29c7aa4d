"""headrace views"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace views
headrace views --json | jq -r '.views[].name'
"""
FIELDS = ("name", "version", "state", "commit", "rows", "reason")


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """List the views: version, state, the commit each has reached, rows.

    Reads what is published; works beside a running `headrace up` and without one.
    """
    path = folder(project)
    views = look(path)
    if json:
        display.emit({"views": views})
    elif views:
        display.records(FIELDS, [{**view, "reason": display.one_line(view.get("reason", ""))} for view in views])
    else:
        display.say("There are no views yet: a view is a file views/NAME.sql with one SELECT.")


def look(path: Path) -> list[dict[str, Any]]:
    """The published views, then those that are only defined so far (state ``new``)."""
    from headrace.cli import published

    found = published.views(path)
    names = {str(view["name"]).lower() for view in found}
    return [*found, *({"name": name, "state": "new"} for name in published.defined(path) if name.lower() not in names)]
