"""headrace groups extend"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.groups import GroupArgument, opened
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups extend billing 1042.1 --lease 600
"""


def run(
    group: GroupArgument,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Deliveries, as they came: 1042.1.")],
    *,
    lease: Annotated[
        float | None,
        typer.Option("--lease", metavar="SECONDS", help="When they end, from now. Default: the lease of the group."),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Keep deliveries for longer, because work on them goes on: their leases end so many seconds from now.

    As often as is needed. One whose lease is over is refused, and comes again; the others that were named are extended
    all the same.
    """
    with opened(folder(project)) as groups:
        done = groups.extend(group, *ids, lease_s=lease)
    if json:
        display.emit({"extended": done})
        return
    display.say(f"extended {done:,}")
