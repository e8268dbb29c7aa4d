"""headrace watch"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import afar, display, filters
from headrace.cli.afar import CaOption, UrlOption
from headrace.cli.filters import WhereOption
from headrace.cli.following import until_interrupted
from headrace.cli.options import JsonOption, ProjectOption, folder

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from headrace.model.view_step import ViewStep

EPILOG = """
headrace watch revenue                       # what it holds, then each change
headrace watch revenue --no-snapshot         # the changes only
headrace watch revenue --after 1042          # what has come since that commit
headrace watch revenue --json | jq -c '.changes[] | select(.weight > 0) | .row'
HEADRACE_TOKEN=... headrace watch revenue --url https://shop.example:7080 --where region=eq.north
"""


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.")],
    snapshot: Annotated[
        bool,
        typer.Option(
            "--snapshot/--no-snapshot", help="Whether to begin with the rows that it holds now. Default: yes."
        ),
    ] = True,
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="COMMIT", min=0, help="Begin with what came after that commit."),
    ] = None,
    where: WhereOption = None,
    url: UrlOption = "",
    ca: CaOption = "",
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Follow the changes of a view, until Ctrl-C.

    First the rows it holds, then, commit by commit, a line for each row that comes (+) or goes (-).

    With --json each line is one step, whole: {"commit", "snapshot", "changes": [{"weight", "row"}]}. Works
    without a running `headrace up` too, and goes on when one starts. With --url it is read from the server's events;
    where a connection ends it is made again, and goes on without gap or repeat. With --where the server
    tells of the rows alone that pass: one that begins to pass comes, one that ceases to goes.
    """
    wanted = filters.pairs(where)
    if wanted and not url:
        raise typer.BadParameter("a server filters: give its --url too", param_hint="--where")
    with until_interrupted() as stop:
        afar_steps = _from_afar(url, view, after, wanted, ca, snapshot, stop) if url else None
        for step in afar_steps or _here(project, view, after, stop):
            if step.kind == "behind":
                afar.forgotten(step, json)
            elif snapshot or step.kind == "change":
                _tell(step, json)


def _here(project: Any, view: str, after: int | None, stop: threading.Event) -> Iterator[ViewStep]:
    from headrace.cli import contents, published
    from headrace.model.view_step import ViewStep
    from headrace.serve import snapshot
    from headrace.serve.watched import changes, steps

    path = folder(project)
    name = published.find(path, view)
    if after is None:
        after, schema, table = snapshot.contents(path, name)
        failed = snapshot.failure(path, name)
        held = after if failed is None else failed["commit"]
        rows, total = contents.ordered(table, schema, [], None, copies=False)
        _say_held(name, held, total)
        if failed is not None and not display.OUTPUT.json:
            display.say(f"view {display.plain(name)} has failed: {display.one_line(failed['reason'])}", error=True)
        yield ViewStep("snapshot", held, changes(rows))
    yield from steps(path, name, after, stop)


def _from_afar(
    url: str, view: str, after: int | None, where: list[tuple[str, str]], ca: str, snapshot: bool,
    stop: threading.Event,
) -> Iterator[ViewStep]:  # fmt: skip
    held = 0
    for step in afar.steps(url, view, ca, stop, after, where, snapshot=snapshot):
        if step.kind == "snapshot":
            held += sum(change["weight"] for change in step.changes)
            if step.last:
                _say_held(view, step.commit, held)
                held = 0
        yield step


def _say_held(view: str, commit: int, rows: int) -> None:
    if not display.OUTPUT.json:
        display.say(f"{view} at commit {commit:,}: {display.counted(rows, 'row')}; Ctrl-C ends", error=True)


def _tell(step: ViewStep, json: bool) -> None:
    """One step: its rows that go, then its rows that come."""
    if json:
        told = {"commit": step.commit, "snapshot": step.kind == "snapshot", "changes": step.changes}
        display.emit(told, line=True)
        return
    for change in step.changes:
        display.say(_line(step.commit, change["weight"], change["row"], step.kind == "snapshot"))


def _line(commit: int, weight: int, row: dict[str, Any], first: bool) -> str:
    sign, style = ("+", "" if first else "green") if weight > 0 else ("-", "red")
    text = "  ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in row.items())
    times = f"  (x{abs(weight)})" if abs(weight) != 1 else ""
    return f"{commit:>8} {display.paint(f'{sign} {text}{times}', style)}"
