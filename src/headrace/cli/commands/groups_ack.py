"""headrace groups ack"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.groups import ConsumerOption, GroupArgument, opened
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups ack billing 1042.1 1043.1
headrace groups ack billing --upto 1043.1 --consumer worker-1
"""


def run(
    group: GroupArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Deliveries, as they came: 1042.1.")] = None,
    *,
    upto: Annotated[
        str | None,
        typer.Option("--upto", metavar="ID", help="This delivery and all before it that --consumer has."),
    ] = None,
    consumer: ConsumerOption = "",
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Acknowledge deliveries: they are done with, and never come again.

    One whose lease is over is refused, and comes again; the others that were named are acknowledged all the same.
    """
    if bool(ids) == (upto is not None):
        raise typer.BadParameter("name deliveries, or give --upto ID")
    with opened(folder(project)) as groups:
        done = groups.ack_upto(group, upto, consumer) if upto is not None else groups.ack(group, *(ids or ()))
    if json:
        display.emit({"acknowledged": done})
        return
    display.say(f"acknowledged {done:,}")
