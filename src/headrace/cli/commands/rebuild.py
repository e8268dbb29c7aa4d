"""headrace rebuild"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace rebuild revenue                                # a file of the view is damaged
headrace stop; headrace rebuild --all && headrace up    # state or the catalogue is
"""


def run(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW", help="Views to build anew.")] = None,
    *,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All views and all state, and the catalogue where it is damaged, or names files of another layout.",
        ),
    ] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Make anew from the log what a disk has damaged.

    Views go on as their next version, in the sinks too: all of it in one step. Beside a running `up` they are built
    at once, otherwise by the next `headrace up`. A damaged catalogue is set aside, and what can be
    read of the quarantine and the definitions is taken over; sinks then get all views anew. The same is done with a
    catalogue that names files of another layout: an earlier version goes on so after `headrace migrate`.
    """
    from headrace.control.verbs import call

    if bool(views) == everything:
        raise typer.BadParameter("name views, or say --all")
    with display.working("rebuilding") as progress:
        answer = call(folder(project), "rebuild", {"views": views or [], "all": everything}, progress)
    if json:
        display.emit(answer)
        return
    if answer["catalogue"]:
        display.say("the catalogue is made anew; the one there was is kept beside it")
    if answer["lost"]:
        display.say(f"could not be taken over: {', '.join(answer['lost'])}")
    done = "built anew" if answer["built"] else "`headrace up` builds anew"
    display.say(f"{done}: {display.plain(', '.join(answer['views']) or 'all')}")
