"""headrace resume"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace resume warehouse
"""


def run(
    sink: Annotated[str, typer.Argument(metavar="SINK", help="The sink.")],
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Let a paused sink go on, from its frontier."""
    from headrace.control.verbs import call

    with display.working("resuming") as progress:
        answer = call(folder(project), "sink_resume", {"sink": sink}, progress)
    if json:
        display.emit(answer)
    else:
        display.say(f"sink {answer['sink']} is {answer['state']} at commit {answer['commit']:,}")
