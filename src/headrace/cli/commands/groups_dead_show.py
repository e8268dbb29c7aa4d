"""headrace groups dead show"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.groups import GroupArgument, opened
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups dead show billing 3
headrace groups dead show billing 3 --json | jq .changes
"""


def run(
    group: GroupArgument,
    number: Annotated[int, typer.Argument(metavar="N", help="As `headrace groups dead ls` numbers it.")],
    *,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show a dead letter: why it was given up, and all that it holds."""
    from headrace.serve.history import time_text

    with opened(folder(project)) as groups:
        letter, held = groups.letter(group, number)
    at = time_text(letter.at_us)
    if json:
        known = {"number": number, "commit": letter.commit, "deliveries": letter.attempt, "reason": letter.reason}
        display.emit({**known, "given_up_at": at, "changes": held["changes"]})
        return
    title = f"{group} {number}: commit {letter.commit:,}, delivered {display.counted(letter.attempt, 'time')}"
    display.say(display.paint(display.plain(title), "bold"))
    display.say(f"  given up at {at}: {display.plain(letter.reason)}")
    for change in held["changes"] or ():
        what = change["op"] if "op" in change else f"{change['weight']:+d}"
        values = "  ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in change["row"].items())
        display.say(f"  {what:<8} {values}".rstrip())
    if held["changes"] is None:
        display.say("  what it held was not kept any more")
    display.say(f"next:\n  headrace groups dead replay {group} {number}\n  headrace groups dead drop {group} {number}")
