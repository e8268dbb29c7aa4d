"""headrace pause"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace pause warehouse      # its store is to be worked on
headrace resume warehouse     # it goes on where it was
"""


def run(
    sink: Annotated[str, typer.Argument(metavar="SINK", help="The sink.")],
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Give a sink nothing until it is resumed.

    It stays so when `headrace up` starts again. What it is being given now is written to the end. Views and other
    sinks go on; the log keeps what this one lacks, and retention waits for it.
    """
    from headrace.control.verbs import call

    with display.working("pausing") as progress:
        answer = call(folder(project), "sink_pause", {"sink": sink}, progress)
    if json:
        display.emit(answer)
    else:
        display.say(f"sink {answer['sink']} is {answer['state']} at commit {answer['commit']:,}")
