"""Law 1 for queries that compare rows of many cases with values which all cases share: the clock, a table's aggregates.

The cases lie side by side in one log, step after step, so that what is kept from step to step is what is asked about.
The shared table belongs to the first case; for batch its first column, always 0, is the number of the commit times
that of the cases, as in every row of the commit: ``told(alias)`` in a query is an equality with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import HISTORIES, SEED, Circuits, Operator, drawn
from histories import History, Schedule, StepPlan, Table, history

STEPS = 16
Shared = Callable[[random.Random, Schedule], History]


def told(alias: str) -> str:
    """What the shared table's first column is for batch, beside a row of this alias."""
    return f"{alias}.case_id - {alias}.case_id % {HISTORIES}"


def hold_side_by_side(
    spark: Any, folder: Path, name: str, tables: tuple[Table, ...], shared: Table, draw: Shared,
    templates: Mapping[str, Callable[[bool], str]],
) -> None:  # fmt: skip
    """Fails unless every query equals batch after every commit that is an instant of its own or ends a step.

    ``templates``: each query as circuits (False) and as batch (True) are asked. ``draw``: the shared table's history.
    """
    rng = random.Random(f"{SEED}/{name}")
    plan = tuple(
        StepPlan(rng.random() < 0.3, rng.choice(("one", "each")), (((), ()),) * rng.randint(1, 3)) for _ in range(STEPS)
    )
    cases = [history(random.Random(f"{SEED}/{name}/{n}"), tables, plan) for n in range(HISTORIES)]
    own = draw(rng, plan)
    cases[0] = tuple(
        tuple((*changes, *more) for changes, more in zip(step, mine, strict=True))
        for step, mine in zip(cases[0], own, strict=True)
    )
    queries, judges = ({n: template(judged) for n, template in templates.items()} for judged in (False, True))
    operator = drawn(Operator(name, (*tables, shared), queries, judges=judges))
    print(f"{name}: {HISTORIES} histories, {len(operator.queries)} queries, HEADRACE_LAWS_SEED={SEED}")
    outcome = Circuits(spark, operator, folder).run(plan, cases)
    assert not outcome.differing, "\n".join(f"{q}: {' | '.join(rows)[:2000]}" for q, rows in outcome.rows.items())
