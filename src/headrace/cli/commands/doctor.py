"""headrace doctor"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace doctor
headrace doctor --json | jq -r '.examined[].findings[] | select(.state == "missing").next'
"""
_SIGNS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "missing": ("missing", "bold red")}


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Examine every source, every sink and this machine, and tell what is missing.

    With the exact SQL or command that gives it: connections, rights, the settings of a server, publication and slot,
    Java and Python, space on the disk. Changes nothing at sources and sinks; needs no Spark; works beside a running
    `headrace up` and without one. Exit status 1 when something is missing.
    """
    from headrace.control import doctor

    path = folder(project)
    with display.working("examining"):
        answer = doctor.run(path)
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
            display.say(f"  {display.paint(word.ljust(7), style)}  {display.plain(finding['what'])}")
            if finding["next"]:
                display.say(f"           next: {display.plain(finding['next'])}")
    warnings = display.counted(answer["warnings"], "warning")
    verdict = f"{answer['missing']} missing" if answer["missing"] else "nothing is missing"
    display.say("\n" + display.paint(f"{verdict}, {warnings}", "bold red" if answer["missing"] else "green"))
