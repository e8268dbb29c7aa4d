"""headrace groups nack"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.groups import GroupArgument, opened
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups nack billing 1042.1 --reason "the bank is closed" --delay 600
"""


def run(
    group: GroupArgument,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Deliveries, as they came: 1042.1.")],
    *,
    delay: Annotated[
        float, typer.Option("--delay", metavar="SECONDS", min=0, help="When they come again. Default: at once.")
    ] = 0.0,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; kept where it becomes a dead letter.")
    ] = "",
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Give deliveries back: they come again, to this reader or another.

    One that was delivered as often as the group allows becomes a dead letter.
    """
    with opened(folder(project)) as groups:
        done = groups.nack(group, *ids, delay_s=delay, reason=reason)
    if json:
        display.emit({"given_back": done})
        return
    display.say(f"given back {done:,}")
