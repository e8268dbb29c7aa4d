"""headrace groups dead replay"""

from __future__ import annotations

from headrace.cli import display
from headrace.cli.groups import AllOption, GroupArgument, LettersArgument, changing, chosen
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups dead replay billing 3
headrace groups dead replay billing --all
"""


def run(
    group: GroupArgument,
    numbers: LettersArgument = None,
    *,
    everything: AllOption = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Deliver dead letters again, as often as new transactions.

    They come before what is new, also in a group that is ordered.
    """
    letters = chosen(numbers, everything)
    with changing(folder(project), "group_dead_replay", group, numbers=letters or "all") as groups:
        done = groups.replay_dead(group, *letters)
    if json:
        display.emit({"replayed": done})
        return
    display.say(f"to be delivered again: {display.counted(done, 'dead letter')}")
