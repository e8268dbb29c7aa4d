"""headrace quarantine replay"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display, set_aside
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace quarantine replay orders:1042:3 --as replace
headrace quarantine replay --table orders
headrace wait --token "$(headrace quarantine replay --all --yes --json | jq .commit)"
"""


def run(
    ids: set_aside.IdsArgument = None,
    *,
    table: set_aside.TableOption = None,
    everything: set_aside.AllOption = False,
    as_: set_aside.AsOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, also with --table or --all.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Send changes of the quarantine again, all in one new transaction.

    Prints its commit, for `headrace wait --token`. What was sent leaves the quarantine; what still does not fit is
    set aside again, with the new commit, and named. With --as replace a row takes the place of the one with its key,
    which always fits. Needs a running `headrace up`.
    """
    from headrace.control.verbs import call

    path = folder(project)
    arguments, changes = set_aside.chosen(path, ids, table, everything)
    if not ids and changes and not yes:
        set_aside.confirm(changes, "Send again")
    with display.working("sending") as progress:
        answer = call(path, "quarantine_replay", {**arguments, "as": as_}, progress)
    set_aside.sent(answer, json)
