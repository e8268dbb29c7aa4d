"""headrace drop"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace drop revenue           # the view, its contents and its tables in the sinks
headrace drop --source shop     # what was made at the source: replication slot, publication
headrace drop --all             # all that was made anywhere; the definitions stay
"""


def run(
    view: Annotated[str | None, typer.Argument(metavar="VIEW", help="The view.")] = None,
    *,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="Remove what was made at this source.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Remove all that was made: at sources, in sinks, in .headrace.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a view, or what was made at a source, or everything.

    A view goes from the running `headrace up` and from the sinks; its file is kept as views/NAME.sql.dropped.
    A view that others read is refused, with their names. --source and --all need `up` to be stopped.
    """
    if sum((view is not None, source is not None, everything)) != 1:
        raise typer.BadParameter("name one VIEW, or give --source NAME, or --all")
    path = folder(project)
    if view is not None:
        _confirm(f"Drop the view {view} and its tables in the sinks?", yes)
        from headrace.control.verbs import call

        with display.working("dropping") as progress:
            answer = call(path, "drop", {"view": view}, progress)
        _print(answer, json, f"dropped {answer['view']}", answer.get("kept"))
        return
    from headrace.control import teardown
    from headrace.control.audited import audited
    from headrace.governance.roles import Action

    if source is not None:
        _confirm(f"Remove what was made at the source {source}? It then begins anew, with a copy.", yes)
        with audited(path, Action.DROP, source=source):
            answer = teardown.drop_source(path, source)
        _print(answer, json, f"removed what was made at {source}", None)
    else:
        _confirm(f"Remove everything that was made for {path}: at sources, in sinks, log and state?", yes)
        answer = teardown.drop_all(path)
        _print(answer, json, "removed everything that was made", None)


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("this is not a terminal to ask at: say --yes")
    typer.confirm(question, abort=True, err=True)


def _print(answer: dict[str, Any], json: bool, text: str, kept: str | None) -> None:
    if json:
        display.emit(answer)
        return
    display.say(text)
    if kept:
        display.say(f"its file is kept as {kept}; to have it back, rename it and run `headrace apply`")
