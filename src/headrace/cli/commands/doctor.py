"""headrace doctor"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace doctor
headrace doctor --quick      # without the views, and so without Spark
headrace doctor --json | jq -r '.examined[].findings[] | select(.state == "missing").next'
"""
_SIGNS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "missing": ("missing", "bold red")}
_INDENT = " " * 11


def run(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave the views out: where no `up` runs, Spark must start for them.")
    ] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Examine files, sources, sinks, views and this machine: what is missing.

    With the exact SQL or command that gives it: connections, rights, the settings of a server, publication and slot,
    ports, libraries, Java and Python, memory, space on the disks, the SQL of views. Changes nothing at sources and
    sinks; works beside a running `headrace up` and without one. Exit status 1 when something is missing.
    """
    from headrace.control import doctor

    path = folder(project)
    with display.working("examining") as progress:
        answer = doctor.run(path, quick=quick, progress=progress)
    if json:
        display.emit(answer)
    else:
        _show(answer)
    if answer["missing"]:
        raise typer.Exit(1)


def _show(answer: Mapping[str, Any]) -> None:
    for part in answer["examined"]:
        display.say(display.paint(display.plain(f"{part['kind']} {part['name']}".strip()), "bold"))
        for finding in part["findings"]:
            word, style = _SIGNS[finding["state"]]
            code = f"[{finding['code']}] " if finding["code"] else ""
            display.say(f"  {display.paint(word.ljust(7), style)}  {code}{display.lines(finding['what'], 11)}")
            for label in ("where", "why", "next"):
                if finding[label]:
                    display.say(f"{_INDENT}{label + ':':<6} {display.lines(finding[label], 18)}")
    warnings = display.counted(answer["warnings"], "warning")
    verdict = f"{answer['missing']} missing" if answer["missing"] else "nothing is missing"
    display.say("\n" + display.paint(f"{verdict}, {warnings}", "bold red" if answer["missing"] else "green"))
