"""headrace verify"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace verify              # every view
headrace verify revenue      # one of them
headrace verify --json       # for a scheduled check; exit status 1 when something differs
"""


def run(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW", help="Views; all by default.")] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Compare views with Spark batch over the same log.

    The same SQL is run over the whole log up to the commit that the views have reached. Works on a live
    pipeline and names the first rows that differ. Exit status 0 means: 0 differences.
    """
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("verifying") as progress:
        answer = call(path, "verify", {"views": views or []}, progress)
    if json:
        display.emit(answer)
    else:
        show(answer)
    if answer["differences"]:
        raise typer.Exit(1)


def show(answer: Mapping[str, Any]) -> None:
    """The verdict as text: a line a view, and the first rows that differ."""
    names = ("view", "rows", "differences", "seconds")
    items = [{**view, "seconds": f"{view['seconds']:.1f}"} for view in answer["views"]]
    display.records(names, items)
    for view in answer["views"]:
        for row in view.get("first", []):
            text = ", ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in row["row"].items())
            wrong = f"{view['view']}: expected {row['expected']} of this row, found {row['found']}"
            display.say(f"  {display.paint('differs', 'bold red')} {display.plain(wrong)}: {text}")
    rows = sum(view["rows"] for view in answer["views"])
    found = f"{display.counted(answer['differences'], 'difference')} in {display.counted(rows, 'row')}"
    verdict = f"{found} of {display.counted(len(items), 'view')} at commit {answer['commit']:,}"
    display.say("\n" + display.paint(verdict, "bold red" if answer["differences"] else "green"))
