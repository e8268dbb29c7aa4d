"""headrace test"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace test              # every tests/NAME.yaml
headrace test revenue      # tests/revenue.yaml alone
headrace test --json       # for continuous integration; exit status 1 when a test fails

A test, tests/revenue.yaml:

  steps:
    - name: an order counts
      given:                             # one transaction; a list: several in one step
        orders: [{id: 1, region: north, amount: 9.50}]
      expect:                            # all rows of these views after it, in any order
        revenue: [{region: north, amount: 9.50}]
    - name: a cancelled one does not
      given: {orders: [{id: 1, _w: -1}]} # -1: the row goes; 1, the default: it comes
      expect: {revenue: []}
"""


def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="TEST", help="Tests; all by default.")] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Test the views with given rows and expected rows.

    Each tests/NAME.yaml steps the project's views over rows of its own, as `headrace up` would keep them, and
    compares. Sources are only asked for the columns of their tables; nothing of the project is changed.

    Further keys: `restart: true` begins a step as after a crash, `failing: [VIEW]` expects that its SQL throws,
    `tables` and `keys` of a test declare what no source can tell: `tables: {orders: "id bigint, region string"}`.
    """
    from headrace.control.test import run as tested

    path = folder(project)
    with display.working("testing") as progress:
        answer = tested(path, names or [], progress)
    if json:
        display.emit(answer)
    else:
        show(answer)
    if answer["failed"]:
        raise typer.Exit(1)


def show(answer: Mapping[str, Any]) -> None:
    """The verdict as text: a line a test and, where it failed, what its steps miss and did not expect."""
    for test in answer["tests"]:
        verdict = display.paint("passed", "green") if test["passed"] else display.paint("failed", "bold red")
        steps = len(test["steps"])
        count = f"{steps} step{'' if steps == 1 else 's'}, {test['seconds']:.1f} s"
        display.say(f"{verdict} {display.plain(test['test'])}  {count if steps else display.plain(test['file'])}")
        if test["error"]:
            display.say(f"  {display.error_text(test['error'])}")
        for step in test["steps"]:
            if not step["passed"]:
                display.say(f"  {display.plain(step['where'])}  {display.plain(step['step'])}")
                for view in step["views"]:
                    _view(view)
    style = "bold red" if answer["failed"] else "green"
    total = f"{answer['passed']} passed, {answer['failed']} failed"
    display.say("\n" + display.paint(total, style))


def _view(view: Mapping[str, Any]) -> None:
    if view["passed"]:
        return
    if view["error"]:
        display.say(f"    {display.plain(view['view'])}: {display.plain(view['error'])}")
    if view["missing"] or view["unexpected"]:
        counts = [f"{sum(r['times'] for r in view[kind])} {kind}" for kind in ("missing", "unexpected") if view[kind]]
        display.say(f"    {display.plain(view['view'])}: {', '.join(counts)}")
    for kind, sign, style in (("missing", "-", "red"), ("unexpected", "+", "green")):
        for row in view[kind]:
            text = ", ".join(f"{display.plain(name)}: {display.cell(value)}" for name, value in row["row"].items())
            times = f"  ({row['times']} times)" if row["times"] > 1 else ""
            display.say(f"      {display.paint(f'{sign} {text}{times}', style)}")
