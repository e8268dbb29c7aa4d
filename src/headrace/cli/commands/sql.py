"""headrace sql"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace sql "SELECT count(*) FROM orders"
headrace sql "SELECT * FROM revenue ORDER BY total DESC" --limit 5
headrace sql --json - < question.sql
"""
SHOWN = 100  # rows on a terminal or as a table, unless asked otherwise


def run(
    query: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT in Spark SQL; '-' reads it from stdin.")],
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=0, help=f"Rows to show. Default: {SHOWN}; all with --json."),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Run one query over tables and views, all at one frontier.

    Beside a running `headrace up` it answers at once; else Spark is started for it, which takes seconds.
    """
    from headrace.control.verbs import call

    text = sys.stdin.read() if query == "-" else query
    path = folder(project)
    bound = limit if limit is not None or json else SHOWN
    with display.working("asking") as progress:
        answer: dict[str, Any] = call(path, "sql", {"sql": text, "limit": bound}, progress)
    if json:
        display.emit(answer)
        return
    display.table(answer["columns"], answer["rows"])
    shown, total = len(answer["rows"]), answer["total"]
    every = shown == total
    display.say(f"\n{display.counted(total, 'row') if every else f'{shown:,} of {total:,} rows (--limit shows more)'}")
