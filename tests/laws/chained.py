"""Law 1 for queries that see all rows of a table at once, so that cases cannot lie side by side in the circuits.

Histories follow one another in one log, each beginning with a TRUNCATE of every table; steps begin and end anywhere
in them. For batch, which sees the tables as of all commits side by side, the commit's number keeps these apart: each
query is a template, and ``same("p")`` in it is an equality of case numbers for batch and nothing for the circuit.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import HISTORIES, SEED, Circuits, Operator, Point, drawn, points
from histories import Change, History, Schedule, StepPlan, Table, history
from taken import WHOLE

COMMITS = 4  # a history, unless its law wants longer ones
# In a step, which costs more than its commits.
STEP_COMMITS = (80, 240) if not WHOLE else (40, 120) if HISTORIES <= 200 else (10, 600)
# (how rows of an alias are told to be of this case, how the table is called that has one row a case) -> SQL
Template = Callable[[Callable[[str], str]], str]


def hold_chained(
    spark: Any, folder: Path, name: str, tables: tuple[Table, ...], templates: Mapping[str, Template]
) -> None:
    """Fails unless every query equals batch after every commit that is an instant of its own or ends a step."""
    queries = {query: template(lambda _: "true") for query, template in templates.items()}
    judges = {query: template(lambda alias: f"{alias}.case_id = i.case_id") for query, template in templates.items()}
    rng = random.Random(f"{SEED}/{name}")
    plan = chain(rng, tuple(t.name for t in tables), HISTORIES)
    hold_history(spark, folder, Operator(name, tables, queries, judges=judges), plan, history(rng, tables, plan))


def hold_history(
    spark: Any, folder: Path, operator: Operator, plan: Schedule, steps: History, commits: int = COMMITS
) -> None:
    """Fails unless every query equals batch, which is asked as ``judges`` say, over this chain of histories."""
    operator = drawn(operator)
    print(f"{operator.name}: {HISTORIES} histories, {len(operator.queries)} queries, HEADRACE_LAWS_SEED={SEED}")
    outcome = Circuits(spark, operator, folder).run(plan, [steps])
    if not outcome.differing:
        return
    query, rows = next((q, r) for q, r in outcome.rows.items())
    raise AssertionError(
        f"{operator.name}: {list(outcome.differing)} differ from batch; {query}: {rows}\n"
        f"{told(plan, steps, rows, commits)}"
    )


def chain(rng: random.Random, tables: tuple[str, ...], histories: int, commits: int = COMMITS) -> Schedule:
    """Steps of both shapes over all histories' commits; mostly every commit is an instant of its own."""
    left, number = histories * commits, 0
    plans = []
    while left:
        count = min(left, rng.randint(*STEP_COMMITS))
        emptied = [((tables, ()) if (number + k) % commits == 0 else ((), ())) for k in range(count)]
        instants = "one" if rng.random() < 0.2 else "each"
        plans.append(StepPlan(len(plans) % 3 == 1, instants, tuple(emptied)))
        left, number = left - count, number + count
    return tuple(plans)


def told(plan: Schedule, steps: History, rows: list[str], commits: int = COMMITS) -> str:
    """The history in which the first difference lies: its changes, commit by commit."""
    commit = int(re.findall(r"\d+", rows[0])[0])
    flat: list[tuple[int, Point | None, tuple[Change, ...]]] = []
    ends = {p.commit: p for p in points(plan)}
    for number, step in enumerate(steps):
        for changes in step:
            flat.append((number, ends.get(len(flat) + 1), changes))
    first = (commit - 1) // commits * commits
    lines = []
    for at in range(first, min(first + commits, len(flat))):
        number, point, changes = flat[at]
        shape = "wide" if plan[number].wide else "narrow"
        lines.append(f"commit {at + 1}: step {number}, {shape}, instants {plan[number].instants}, {point}")
        lines += [f"    {c.table} {c.operation} {c.row} {sorted(c.left_out) or ''}" for c in changes]
    return "\n".join(lines)
