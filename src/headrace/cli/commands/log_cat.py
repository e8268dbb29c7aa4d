"""headrace log cat"""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from headrace.cli import display, moment
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace log cat --limit 5                     # how it began
headrace log cat orders --from 1042 --to 1050
headrace log cat --from 2026-03-01T08:00+01:00 --to 2026-03-01T09:00+01:00
headrace log cat orders --json | jq -c '.changes[] | select(.op == "delete") | .row'
"""


def run(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Only what changes one of these tables.")
    ] = None,
    *,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="COMMIT|TIME", help=f"Begin there: {moment.HINT}.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="COMMIT|TIME", help="End there, with this commit or time.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=0, help="At most so many transactions.")
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Print the transactions of the log, in order.

    Of each its commit, the time at which its source committed, the source and its position, then the changes. An
    update shows the columns that it carries, a delete those that are not NULL.

    With --json each transaction is one line: {"commit", "source", "position", "committed_at", "changes": [{"table",
    "op", "row"}]}; its changes are as an HTTP source takes them. Times are those of the sources, which need not rise
    with the commits. Works beside a running `headrace up` and without one.
    """
    first, begin_us = moment.parse(begin, "--from") if begin else (None, None)
    upto, end_us = moment.parse(end, "--to") if end else (None, None)
    from headrace.cli import transactions
    from headrace.serve import history

    path = folder(project)
    names = history.named(path, tables or [])
    reader = history.reader_of(path)
    last = reader.end if upto is None else min(reader.end, upto)
    after = max(0, first - 1) if first is not None else reader.base.commit
    when = history.Between(begin_us, end_us)
    found = history.transactions(reader, after, last, names, when)
    transactions.tell(islice(found, limit), json)
    if not reader.end:
        display.say("the log is empty: no transaction has come in yet", error=True)
