"""headrace groups dead drop"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.groups import AllOption, GroupArgument, LettersArgument, changing, chosen
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace groups dead drop billing 3
headrace groups dead drop billing --all --yes
"""


def run(
    group: GroupArgument,
    numbers: LettersArgument = None,
    *,
    everything: AllOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Drop dead letters, for good."""
    letters = chosen(numbers, everything)
    question = f"Drop {display.counted(len(letters), 'dead letter') if letters else 'all dead letters'} of {group}?"
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"{question} This is not a terminal to ask at: say --yes")
        typer.confirm(question, abort=True, err=True)
    with changing(folder(project), "group_dead_drop", group, numbers=letters or "all") as groups:
        done = groups.drop_dead(group, *letters)
    if json:
        display.emit({"dropped": done})
        return
    display.say(f"dropped {display.counted(done, 'dead letter')}")
