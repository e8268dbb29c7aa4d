"""headrace apply"""

from __future__ import annotations

import typer

from headrace.cli import display
from headrace.cli.commands.plan import show
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace plan       # look first
headrace apply      # then do it
"""


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Have the running `up` take the edited definitions.

    A changed view is built beside the old one and takes its place, in the sinks too, in one transaction. With
    no `up` running there is nothing to do: `headrace up` takes the definitions when it starts. Exit status 1 when
    a view is refused; all others are taken.
    """
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("applying") as progress:
        answer = call(path, "apply", {}, progress)
    if json:
        display.emit(answer)
    else:
        show(answer, done=True)
    if any(view.get("refused") for view in answer.get("views", [])):
        raise typer.Exit(1)
