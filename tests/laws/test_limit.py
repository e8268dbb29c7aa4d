"""Goal: LIMIT and OFFSET equal batch after every commit. See harness.py.

A limit over everything does not know the case of a row, so histories follow one another here (chained.py). Batch
numbers the rows of each commit in the whole order, spelled out, and picks by number.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from chained import chain, hold_history
from harness import HISTORIES, SEED, Operator
from histories import history
from shop import BAG, ITEMS

COMMITS = 8  # a history: long enough for rows beyond every limit


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
OPERATOR = Operator("limit", (ITEMS, BAG), CIRCUITS, judges=BATCH)


@pytest.mark.spark
def test_limits_equal_batch(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED}/{OPERATOR.name}")
    plan = chain(rng, tuple(t.name for t in OPERATOR.tables), HISTORIES, COMMITS)
    hold_history(spark, tmp_path, OPERATOR, plan, history(rng, OPERATOR.tables, plan), COMMITS)
