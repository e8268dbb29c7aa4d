"""headrace migrate"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace backup /backups/before && headrace stop
headrace migrate --to 8    # then go on with the version that wrote layout 8
"""


def run(
    to: Annotated[int, typer.Option("--to", metavar="LAYOUT", help="The earlier layout.")],
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Write the catalogue in the layout of an earlier version, to go back to it.

    All of it or nothing: what the earlier layout has no place for is named, and nothing is changed. The way forward
    needs no command: a later version takes over an earlier layout when it opens it, this one too.

    State and the files of views have a layout of their own. They are not migrated: a version that does not know theirs
    says so, and makes them anew from the log, with `headrace rebuild --all` where they are of a later one.
    """
    from headrace.control.verbs import call

    with display.working("migrating") as progress:
        answer = call(folder(project), "migrate", {"to": to}, progress)
    if json:
        display.emit(answer)
        return
    display.say(f"the catalogue has layout {answer['layout']}; go on with the version of Headrace that wrote it")
