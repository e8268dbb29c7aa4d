"""Goal: LIMIT and OFFSET equal batch after every commit. See harness.py.

A limit over everything does not know the case of a row, so every history runs alone here, through the same plans and
each time from nothing. Batch numbers the rows of each commit in the whole order, spelled out, and picks by number.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from harness import HISTORIES, SEED, Circuits, Operator, Outcome, points
from histories import History, Schedule, Table, batch, history, schedule
from shop import BAG, ITEMS

ALONE = 10  # one history that runs alone for so many that run together elsewhere
SCHEDULES = 2


@dataclass(frozen=True)
class Limited:
    """``select COLUMNS from TABLE order by GIVEN CLAUSE``: the rows at [start, stop) of the order GIVEN, REST."""

    columns: str
    table: str
    given: str
    rest: str
    clause: str
    start: int
    stop: int

    @property
    def circuit(self) -> str:
        by = f"order by {self.given}" if self.given else ""
        return f"select 0 case_id, {self.columns} from {self.table} {by} {self.clause}"

    @property
    def batch(self) -> str:
        order = ", ".join(part for part in (self.given, self.rest) if part)
        return f"""
            select case_id, {self.columns} from
            (select *, row_number() over (partition by case_id order by {order}) number from {self.table})
            where number > {self.start} and number <= {self.stop}"""


ALL = 10**6
QUERIES = {
    "first": Limited("id, s", "items", "s desc", "id", "limit 2", 0, 2),
    "beyond": Limited("id, d", "items", "d", "id", "limit 2 offset 1", 1, 3),
    "after": Limited("k, s", "items", "k desc nulls first", "s", "offset 2", 2, ALL),
    "unordered": Limited("s, k", "items", "", "s, k", "limit 3", 0, 3),
    "by_what_is_not_shown": Limited("id", "items", "n % 3, f", "id", "limit 3", 0, 3),
    "of_doubles": Limited("f", "items", "", "f, cast(f as string)", "limit 2 offset 1", 1, 3),
    "of_copies": Limited("k, s", "bag", "s", "k", "limit 3", 0, 3),
    "of_copies_beyond": Limited("s", "bag", "s desc", "", "limit 3 offset 2", 2, 5),
    "after_copies": Limited("k", "bag", "", "k", "offset 3", 3, ALL),
    "far": Limited("id", "items", "id", "", "limit 5 offset 100", 100, 105),
}
NESTED = {
    "of_a_limit": (
        "select 0 case_id, id from (select id, s from items order by s, id limit 3) order by id desc limit 1",
        """select case_id, id from (select *, row_number() over (partition by case_id order by id desc) again
        from (select *, row_number() over (partition by case_id order by s, id) number from items) where number <= 3)
        where again = 1""",
    ),
    "inside": (
        "select 0 case_id, id from items where k in (select k from bag order by s desc limit 2)",
        """select case_id, id from items i left semi join
        (select * from (select *, row_number() over (partition by case_id order by s desc, k) r from bag) where r <= 2) b
        on i.k = b.k and i.case_id = b.case_id""",
    ),
    "summed": (
        "select 0 case_id, k, count(*) n from (select k, id from items order by id limit 3) group by k",
        """select case_id, k, count(*) n from (select *, row_number() over (partition by case_id order by id) r from items)
        where r <= 3 group by case_id, k""",
    ),
}
BATCH = {n: q.batch for n, q in QUERIES.items()} | {n: batch for n, (_, batch) in NESTED.items()}
CIRCUITS = {n: q.circuit for n, q in QUERIES.items()} | {n: circuit for n, (circuit, _) in NESTED.items()}
OPERATOR = Operator("limit", (ITEMS, BAG), CIRCUITS, truncated=("items", "bag"))


class Alone(Circuits):
    """Circuits that see one history at a time; batch judges all of them together."""

    def run(self, plan: Schedule, cases: Sequence[History]) -> Outcome:
        outcome, at, views = Outcome(), points(plan), self.compilation.views.values()
        found: dict[str, list[pa.Table]] = {view.feed: [] for view in views}
        for case, steps in enumerate(cases):
            held: dict[str, pa.Table] = {}
            mine: dict[str, list[pa.Table]] = {view.feed: [] for view in views}
            with self.fresh() as (log, kept, _):
                for number, step in enumerate(plan):
                    after = log.end
                    log.append(batch(self.operator.tables, step, number, [steps]))
                    result = self.stepper.run(number + 1, after, log.end, wide=step.wide, instants=step.instants)
                    kept.add(result.runs)
                    kept.wait_for_merges()
                    self.add_up(result, [p for p in at if p.step == number], mine, held, len(cases), outcome)
            for feed, tables in mine.items():
                numbers = [pa.array(t["c0"].to_numpy() + np.int32(case), pa.int32()) for t in tables]
                found[feed] += [t.set_column(0, "c0", n) for t, n in zip(tables, numbers, strict=True)]
        with self.fresh() as (_, _, folder):
            self.operator = replace(self.operator, queries=BATCH)
            self.compare(plan, cases, found, folder, outcome)
        return outcome

    def judge_refused(self, table: Table, rows: list[Any], outcome: Outcome) -> None:
        """Which changes are set aside is held to the law elsewhere."""


@pytest.mark.spark
def test_limits_equal_batch(spark: Any, tmp_path: Path) -> None:
    circuits = Alone(spark, OPERATOR, tmp_path / "all")
    histories = max(SCHEDULES, HISTORIES // ALONE)
    for number in range(SCHEDULES):
        rng = random.Random(f"{SEED}/{OPERATOR.name}/{number}")
        plan = schedule(rng, OPERATOR.truncated)
        cases = [history(rng, OPERATOR.tables, plan) for _ in range(histories // SCHEDULES)]
        outcome = circuits.run(plan, cases)
        assert not outcome.differing, (
            f"HEADRACE_LAWS_SEED={SEED}, schedule {number}: {outcome.differing} {outcome.rows}"
        )
