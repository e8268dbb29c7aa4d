"""headrace profile"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace profile revenue
headrace profile revenue --steps 100 --seconds 60 --json | jq '.phases[] | {phase, share}'
headrace profile revenue --flame revenue.svg
"""
NAMES = {"jvm": "JVM", "python_start": "Python start", "python_end": "Python end", "arrow": "Arrow transfer"}
COLUMNS = (
    ("phase", "string"),
    ("median ms", "double"),
    ("largest ms", "double"),
    ("share", "double"),
    ("rows", "double"),
)


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.")],
    *,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=1, max=1000, help="How many steps to profile. Default: 10.")
    ] = 10,
    seconds: Annotated[
        float,
        typer.Option("--seconds", metavar="S", min=0.1, max=3600, help="How long to wait for them. Default: 10."),
    ] = 10.0,
    flame: Annotated[
        Path | None,
        typer.Option(
            "--flame", metavar="FILE.svg", help="Also draw a flame graph of Python; needs 'headrace[profile]'."
        ),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show where the time goes in the steps that change a view.

    Profiles the next of them as they come. Each phase: milliseconds a step, its share of all their time, rows a step.
    The phases of a step add up to its wall time. All views move in one step, so the time is that of all.

    Needs a running `headrace up`, which is not slowed down while nobody asks.
    """
    from headrace.control import profile

    path = folder(project)
    with display.working(f"profiling {view}") as progress:
        answer = profile.ask(path, {"view": view, "steps": steps, "seconds": seconds}, progress, flame)
    if json:
        display.emit(answer)
    else:
        show(answer)


def show(answer: Mapping[str, Any]) -> None:
    """The profile as text; phases that took no time are left out."""
    view, others = display.plain(answer["view"]), answer["others"]
    beside = f"; {display.counted(others, 'step')} did not change it" if others else ""
    if answer["steps"]:
        wall, rows = answer["wall"], sum(step["rows"] for step in answer["each"])
        took = f"{wall['median_ms']:,.1f} ms in the middle, {wall['largest_ms']:,.1f} ms the longest"
        changed = f"{display.counted(answer['steps'], 'step')} changed {display.counted(rows, 'row')} of {view}"
        display.say(f"{changed} in {answer['seconds']:.1f} s: {took}{beside}\n")
        columns = [{"name": name, "type": type_name} for name, type_name in COLUMNS]
        display.table(columns, [_row(phase) for phase in answer["phases"] if phase["largest_ms"]])
    else:
        display.say(f"no step changed {view} within {answer['seconds']:.1f} s{beside}")
    if "flame" in answer:
        display.say(f"\nflame graph: {display.plain(answer['flame'])}")


def _row(phase: Mapping[str, Any]) -> list[str]:
    rows = "" if phase["rows"] is None else f"{phase['rows']:,}"
    times = [f"{phase[name]:,.2f}" for name in ("median_ms", "largest_ms")]
    return [NAMES.get(phase["phase"], phase["phase"]), *times, f"{100 * phase['share']:.1f} %", rows]
