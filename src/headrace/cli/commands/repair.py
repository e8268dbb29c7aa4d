"""headrace repair"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli import differences, display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace repair --sink warehouse            # every view of the sink
headrace repair --sink warehouse revenue    # one of them
headrace repair --sink warehouse --dry-run  # only say what would be written
"""
ASK_ROWS = 1000  # more rows than that are written only when somebody has said yes


def run(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW", help="Views; all by default.")] = None,
    *,
    sink: Annotated[str, typer.Option("--sink", metavar="NAME", help="The sink.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help=f"Do not ask, also when more than {ASK_ROWS:,} rows differ.")
    ] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Put right the rows in a sink's store that differ from the views.

    Somebody may have changed, deleted or added rows there, or dropped a table. Only rows that differ are
    written, of all views in one transaction; a table that is gone or has another form is made anew. Beside
    a running `up` it is done between two deliveries; without one no Spark is started.
    """
    from headrace.control.verbs import call

    path = folder(project)
    arguments = {"sink": sink, "views": views or []}
    if dry_run or not yes:
        with display.working("comparing") as progress:
            answer = call(path, "repair", {**arguments, "dry_run": True}, progress)
        if not (dry_run or differences.same(answer)) and answer["differences"] > ASK_ROWS:
            _confirm(f"{differences.found(answer)}: write them?")
    if not dry_run and (yes or not differences.same(answer)):
        with display.working("repairing") as progress:
            answer = call(path, "repair", arguments, progress)
    if json:
        display.emit({**answer, "repaired": not dry_run})
        return
    differences.table(answer)
    verdict = differences.found(answer)
    if not differences.same(answer):
        verdict += "; nothing is written" if dry_run else ": repaired"
    display.say("\n" + display.paint(verdict, "green"))


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} This is not a terminal to ask at: say --yes")
    typer.confirm(question, abort=True, err=True)
