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
    from headrace.control.audited import audited
    from headrace.governance.roles import Action
    from headrace.sinks.alerts.dead import DeadLetters

    path, letters = folder(project), chosen(numbers, everything)
    with audited(path, Action.ALERT_REPLAY, sink=sink, numbers=letters or "all"):
        done = DeadLetters(path).replay(sink, *letters)
    if json:
        display.emit({"replayed": done})
        return
    display.say(f"to be sent again: {display.counted(done, 'dead letter')}")
