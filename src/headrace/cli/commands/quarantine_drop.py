"""headrace quarantine drop"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display, set_aside
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace quarantine drop orders:1042:3 orders:1042:7
headrace quarantine drop --table orders
headrace quarantine drop --all --yes
"""


def run(
    ids: set_aside.IdsArgument = None,
    *,
    table: set_aside.TableOption = None,
    everything: set_aside.AllOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Drop changes from the quarantine, for good.

    Shows what goes and asks. The log keeps the transaction that the change came with (`headrace log cat`); no view
    has seen the change, and none changes. Beside a running `headrace up` or without one.
    """
    from headrace.control.verbs import call

    path = folder(project)
    arguments, changes = set_aside.chosen(path, ids, table, everything)
    if changes and not yes:
        set_aside.confirm(changes, "Drop")
    with display.working("dropping") as progress:
        answer = call(path, "quarantine_drop", arguments, progress) if changes else {"dropped": 0}
    if json:
        display.emit(answer)
        return
    display.say(f"dropped {display.counted(answer['dropped'], 'change')}")
