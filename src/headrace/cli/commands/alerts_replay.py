"""headrace alerts replay"""

from __future__ import annotations

from headrace.cli import display
from headrace.cli.alerts import AllOption, NumbersArgument, SinkArgument, chosen
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace alerts replay hook 3
headrace alerts replay hook --all
"""


def run(
    sink: SinkArgument,
    numbers: NumbersArgument = None,
    *,
    everything: AllOption = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Send dead letters again, by the ids that they had; a mail, to those alone who lack it.

    A running `headrace up` sends them within a second, before what waits; else the next one does.
    """
    from headrace.sinks.alerts.dead import DeadLetters

    done = DeadLetters(folder(project)).replay(sink, *chosen(numbers, everything))
    if json:
        display.emit({"replayed": done})
        return
    display.say(f"to be sent again: {display.counted(done, 'dead letter')}")
