"""headrace stop"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder
from headrace.model.errors import HeadraceError

EPILOG = """
headrace stop
"""


def run(
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait until it has ended. Default: 60."),
    ] = 60.0,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Ask the running `up` to end, and wait until it has.

    It ends after the step it is in. Nothing is lost.
    """
    from headrace.control import lock, verbs

    path = folder(project)
    with display.working("stopping"):
        pid = verbs.call(path, "stop", {}, lambda event: None)["pid"]
        ended = lock.wait_free(path, timeout)
    if not ended:
        raise HeadraceError(
            "project.locked",
            f"process {pid} has not ended within {timeout:g} s",
            where=str(path),
            next=f"wait, or `kill -9 {pid}`: what is acknowledged is on disk",
        )
    if json:
        display.emit({"pid": pid, "state": "stopped"})
    else:
        display.say(f"stopped (process {pid})")
