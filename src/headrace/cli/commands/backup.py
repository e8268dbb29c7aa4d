"""headrace backup"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace backup /backups/shop-monday
headrace restore /backups/shop-monday /srv/shop   # a project again, there
"""


def run(
    to: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is empty or not there.")],
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Copy the project, consistent at one commit, while it runs.

    Log, state, catalogue and definitions, each file with its checksum; steps go on meanwhile. It holds the
    tokens of sources and is for your eyes only. What sinks hold is not in it: they get it from the views.
    """
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("copying") as progress:
        answer = call(path, "backup", {"to": str(to.absolute())}, progress)
    if json:
        display.emit(answer)
        return
    size = f"{answer['bytes'] / 1e6:,.1f} MB"
    display.say(f"commit {answer['commit']:,} in {display.plain(answer['folder'])} ({answer['files']:,} files, {size})")
