"""headrace verify"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import differences, display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace verify                  # every view
headrace verify revenue          # one of them
headrace verify --sink warehouse # what the sink's store holds; `headrace repair` puts it right
headrace verify --json           # for a scheduled check; exit status 1 when something differs
"""


def run(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW", help="Views; all by default.")] = None,
    sink: Annotated[
        str | None, typer.Option("--sink", metavar="NAME", help="Compare this sink's rows with the views.")
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Compare views with Spark batch over the same log.

    The same SQL is run over the whole log up to the commit that the views have reached. Works on a live
    pipeline and names the first rows that differ. Exit status 0 means: 0 differences.

    With --sink the rows in a sink's store are compared instead, with the views at the commit that the store
    has reached, whole rows to the bit; this needs neither Spark nor a running `up`. Rows that the store
    cannot hold are counted apart, as quarantined.
    """
    from headrace.control.verbs import call

    path = folder(project)
    arguments = {"views": views or [], **({"sink": sink} if sink else {})}
    with display.working("verifying") as progress:
        answer = call(path, "verify", arguments, progress)
    same = differences.same(answer)
    if json:
        display.emit(answer)
    else:
        differences.table(answer)
        display.say("\n" + display.paint(differences.found(answer), "green" if same else "bold red"))
    if not same:
        raise typer.Exit(1)
