"""headrace lineage"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace lineage revenue                 # where its columns come from
headrace lineage revenue --all           # up to tables, down to all that read it
headrace lineage orders --all            # what comes from a table's columns
headrace lineage revenue --json | jq '.columns[].value'
"""


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view, or a table that views read.")],
    *,
    all: Annotated[bool, typer.Option("--all", help="Through other views, up to tables and down to sinks.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show which columns the columns of a view come from, and what comes from them.

    value: what a column is computed from. rows: what only decides which rows go into it: filters, keys of joins and
    groups, the partition and order of a window. into: columns that come from it. A column that is named nowhere
    changes nothing.
    """
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("tracing columns") as progress:
        answer = call(path, "lineage", {"relation": view, "reach": "all" if all else "direct"}, progress)
    if json:
        display.emit(answer)
        return
    for column in answer["columns"]:
        display.say(f"{display.paint(display.plain(column['column']), 'bold')}  {display.plain(column['type'])}")
        for way in ("value", "rows", "into"):
            if column[way]:
                display.say(f"  {way:<5}  {display.plain(', '.join(map(_named, column[way])))}")
    if answer["sinks"]:
        display.say(f"\nsinks: {display.plain(', '.join(answer['sinks']))}")


def _named(place: dict[str, Any]) -> str:
    return f"{place['relation']}.{place['column']}" + (" (rows)" if place.get("by") == "rows" else "")
