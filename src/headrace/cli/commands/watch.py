"""headrace watch"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.following import until_interrupted
from headrace.cli.options import JsonOption, ProjectOption, folder

if TYPE_CHECKING:
    import pyarrow as pa

EPILOG = """
headrace watch revenue                       # what it holds, then each change
headrace watch revenue --no-snapshot         # the changes only
headrace watch revenue --json | jq -c '.changes[] | select(.weight > 0) | .row'
"""


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.")],
    snapshot: Annotated[
        bool,
        typer.Option(
            "--snapshot/--no-snapshot", help="Whether to begin with the rows that it holds now. Default: yes."
        ),
    ] = True,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Follow the changes of a view, until Ctrl-C.

    First the rows it holds, then, commit by commit, a line for each row that comes (+) or goes (-).

    With --json each line is one step, whole: {"commit", "snapshot", "changes": [{"weight", "row"}]}. Works
    without a running `headrace up` too, and goes on when one starts.
    """
    from headrace.cli import contents, published
    from headrace.serve.snapshot import contents as now
    from headrace.serve.snapshot import follow

    path = folder(project)
    name = published.find(path, view)
    with until_interrupted() as stop:
        commit, schema, table = now(path, name)
        if not json:
            rows = display.counted(contents.copies(table), "row")
            display.say(f"{name} at commit {commit:,}: {rows}; Ctrl-C ends", error=True)
        if snapshot:
            rows, _ = contents.ordered(table, schema, [], None, copies=False)
            _tell(commit, rows, json, first=True)
        for later, delta in follow(path, name, commit, stop):
            _tell(later, delta, json, first=False)


def _tell(commit: int, delta: pa.Table, json: bool, *, first: bool) -> None:
    """One step: its rows that go, then its rows that come."""
    from headrace.formats.json_tables import rows

    weights = delta["_w"].to_pylist()
    names = [name for name in delta.column_names if name not in ("_w", "_i")]
    cells = rows(delta.select(names))
    pairs = sorted(zip(weights, cells, strict=True), key=lambda pair: pair[0] > 0)
    if json:
        changes = [{"weight": weight, "row": dict(zip(names, row, strict=True))} for weight, row in pairs]
        display.emit({"commit": commit, "snapshot": first, "changes": changes}, line=True)
        return
    for weight, row in pairs:
        display.say(_line(commit, weight, names, row, first))


def _line(commit: int, weight: int, names: list[str], row: list[Any], first: bool) -> str:
    sign, style = ("+", "" if first else "green") if weight > 0 else ("-", "red")
    text = "  ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in zip(names, row, strict=True))
    times = f"  (x{abs(weight)})" if abs(weight) != 1 else ""
    return f"{commit:>8} {display.paint(f'{sign} {text}{times}', style)}"
