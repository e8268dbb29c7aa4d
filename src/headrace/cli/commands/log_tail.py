"""headrace log tail"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.following import until_interrupted
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace log tail
headrace log tail orders -n 0                  # only what comes from now on
headrace log tail --json | jq -c '{commit, source}'
"""
SHOWN = 10  # transactions before those that come


def run(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Only what changes one of these tables.")
    ] = None,
    *,
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=0, help=f"Begin with the last N. Default: {SHOWN}.")
    ] = SHOWN,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Follow the transactions of the log as they come, until Ctrl-C.

    First the last ones, then each as soon as it is durable; printed as by `headrace log cat`. Works without a running
    `headrace up` too, and goes on when one starts.
    """
    from headrace.cli import transactions
    from headrace.serve import history

    path = folder(project)
    with until_interrupted() as stop:
        names = history.named(path, tables or [])
        reader = history.reader_of(path)
        after = history.last(reader, last, names)
        if not json:
            display.say(f"the log is at commit {reader.end:,}; Ctrl-C ends", error=True)
        transactions.tell(history.follow(reader, after, names, stop), json)
