"""headrace alerts show"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.alerts import SinkArgument
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace alerts show hook 3
headrace alerts show hook 3 --json | jq .messages
"""


def run(
    sink: SinkArgument,
    number: Annotated[int, typer.Argument(metavar="N", help="As `headrace alerts ls` numbers it.")],
    *,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show a dead letter: why it was given up, and all that it tells."""
    from json import loads

    from headrace.sinks.alerts.dead import DeadLetters

    letter, messages = DeadLetters(folder(project)).show(sink, number)
    known = letter.as_dict()
    if json:
        display.emit({**known, "messages": [loads(message) for message in messages]})
        return
    title = f"{sink} {number}: {letter.view} at commit {letter.commit:,}, {display.counted(letter.rows, 'row')}"
    display.say(display.paint(display.plain(title), "bold"))
    display.say(f"  given up at {known['given_up_at']}: {display.plain(letter.reason)}")
    if letter.recipients:
        display.say(f"  who lacks it: {display.plain(', '.join(letter.recipients))}")
    for message in messages:
        display.say(f"  {display.plain(message)}")
    display.say(f"next:\n  headrace alerts replay {sink} {number}\n  headrace alerts drop {sink} {number}")
