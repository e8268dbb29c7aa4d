"""Goal: aggregates over all rows equal batch after every commit, and have their row over nothing. See harness.py.

An aggregate without a key does not know the case of a row, so histories follow one another here (chained.py). Batch
answers for all commits at once, grouped by commit, and by itself over no rows for those after which there are none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from chained import chain, told
from harness import HISTORIES, SEED, Circuits, Operator, points
from histories import history
from shop import BAG, ITEMS


@dataclass(frozen=True)
class Everything:
    """``select RESULTS from ROWS``, the rows being those of one history."""

    results: str
    rows: str

    @property
    def circuit(self) -> str:
        return f"select 0 case_id, {self.results} from {self.rows}"

    def batch(self, commits: Sequence[int]) -> str:
        return f"""
            select case_id, {self.results} from {self.rows} group by case_id
            union all
            select c.case_id, n.* from (select explode(array({", ".join(map(str, commits))})) case_id) c
            left anti join (select case_id from {self.rows}) some on c.case_id = some.case_id
            cross join (select {self.results} from {self.rows} where false) n"""


QUERIES = {
    "accumulated": Everything("count(*) n, sum(n) s, avg(d) a, sum(f) f", "items"),
    "extremes": Everything("min(f) a, max(f) b, min(s) c, max(d) d, bool_and(k > 0) e", "items"),
    "collected": Everything("collect_list(s) l, collect_set(k) k, sum(f) s, array_agg(f) f", "items"),
    "distinct": Everything("count(distinct s) s, sum(distinct n) n, count(*) c", "items"),
    "several_distinct": Everything("count(distinct s) s, count(distinct k) k, sum(d) d", "items"),
    "percentiles": Everything("percentile(id, 0.3) p, median(d) m, mode(k) o", "items"),
    "filtered": Everything(
        "collect_list(s) filter (where k > 0) l, max(f) filter (where k = 1) m, count(*) n", "items"
    ),
    "by_another": Everything("max_by(s, d) a, min_by(id, f) b, first(s) f, last(d) l", "items"),
    "of_few": Everything("listagg(s, ',') l, count(k) n", "(select * from items where k = 1)"),
    "of_a_multiset": Everything("collect_list(s) l, max(k) m, bit_xor(k) x", "bag"),
}
TABLES = (ITEMS, BAG)


@pytest.mark.spark
def test_aggregates_over_everything_equal_batch(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED}/everything")
    plan = chain(rng, tuple(t.name for t in TABLES), HISTORIES)
    commits = [p.commit for p in points(plan)]
    judges = {n: q.batch(commits) for n, q in QUERIES.items()}
    queries = {n: q.circuit for n, q in QUERIES.items()}
    circuits = Circuits(spark, Operator("everything", TABLES, queries, judges=judges), tmp_path)
    steps = history(rng, TABLES, plan)
    print(f"everything: {HISTORIES} histories, {len(QUERIES)} queries, HEADRACE_LAWS_SEED={SEED}")
    outcome = circuits.run(plan, [steps])
    if outcome.differing:
        query, rows = next(iter(outcome.rows.items()))
        raise AssertionError(f"{list(outcome.differing)} differ from batch; {query}: {rows}\n{told(plan, steps, rows)}")
