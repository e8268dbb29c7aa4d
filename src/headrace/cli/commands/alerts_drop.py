"""headrace alerts drop"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.alerts import AllOption, NumbersArgument, SinkArgument, chosen
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace alerts drop hook 3
headrace alerts drop hook --all --yes
"""


def run(
    sink: SinkArgument,
    numbers: NumbersArgument = None,
    *,
    everything: AllOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Drop dead letters, for good: what they tell stays untold."""
    from headrace.control.audited import audited
    from headrace.governance.roles import Action
    from headrace.sinks.alerts.dead import DeadLetters

    letters = chosen(numbers, everything)
    question = f"Drop {display.counted(len(letters), 'dead letter') if letters else 'all dead letters'} of {sink}?"
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"{question} This is not a terminal to ask at: say --yes")
        typer.confirm(question, abort=True, err=True)
    path = folder(project)
    with audited(path, Action.ALERT_DROP, sink=sink, numbers=letters or "all"):
        done = DeadLetters(path).drop(sink, *letters)
    if json:
        display.emit({"dropped": done})
        return
    display.say(f"dropped {display.counted(done, 'dead letter')}")
