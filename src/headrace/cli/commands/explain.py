"""headrace explain"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace explain revenue
headrace explain revenue --json | jq '.operators[].bound'
"""


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.")],
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show how a view is kept up to date.

    Each operator: its rule, what it keeps, and what bounds that.
    """
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("explaining") as progress:
        answer = call(path, "explain", {"view": view}, progress)
    if json:
        display.emit(answer)
        return
    for line in str(answer["text"]).splitlines():
        display.say(display.plain(line))
