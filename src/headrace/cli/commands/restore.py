"""headrace restore"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption

EPILOG = """
headrace restore /backups/shop-monday /srv/shop && cd /srv/shop && headrace up
"""


def run(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `headrace backup` has made.")],
    to: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is empty or not there.")],
    json: JsonOption = False,
) -> None:
    """Make a project again from a backup.

    Every byte is checked. Stop the project that was backed up first, if it still runs: both would write to the
    same sinks, and the one that starts later takes them over. Sources that can copy their tables do so at the
    next start, and sinks that are beyond the backup are brought to what the views hold.
    """
    from headrace.engine import backup as backups
    from headrace.engine.disk import telling

    with telling(to, backups.AGAIN), display.working("copying") as progress:
        answer = backups.restore(backup, to, progress)
    if json:
        display.emit(answer)
        return
    display.say(f"{display.plain(answer['folder'])} is a project at commit {answer['commit']:,}; `headrace up` there")
    if answer["copied_anew"]:
        display.say(f"copied anew at the start: {display.plain(', '.join(answer['copied_anew']))}")
    if answer["functions"]:
        names = display.plain(", ".join(f"functions/{name}.py" for name in answer["functions"]))
        when = "as soon as it starts: read it before" if answer["code"] else "once headrace.yaml says `code: true`"
        display.say(f"{names} is code that runs with your rights {when}")
