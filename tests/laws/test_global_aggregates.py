"""Goal: aggregates over all rows equal batch after every commit, and have their row over nothing. See harness.py.

An aggregate without a key does not know the case of a row, so every history runs alone here, through the same plans
and each time from nothing. Batch answers for all of its commits at once, grouped by commit, and by itself over no
rows for the commits after which there are none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from harness import HISTORIES, SEED, Circuits, Operator, Outcome, points, report
from histories import Change, History, Schedule, history, schedule
from shop import BAG, ITEMS

from headrace.model.transaction import INSERT

ALONE = 10  # one history that runs alone for so many that run together elsewhere


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
OPERATOR = Operator("everything", (ITEMS, BAG), {n: q.circuit for n, q in QUERIES.items()}, truncated=("items", "bag"))


class Alone(Circuits):
    """Circuits that see one history, judged by what batch says of it."""

    def run(self, plan: Schedule, cases: Sequence[History]) -> Outcome:
        outcome = Outcome()
        for case, steps in enumerate(cases):
            commits = [p.commit for p in points(plan)]
            texts = {n: QUERIES[n].batch(commits) for n in self.operator.queries}
            self.operator = replace(self.operator, queries=texts)
            one = super().run(plan, [steps])
            for query in one.differing:
                outcome.differ(query, [case], one.rows[query])
        return outcome


def begun(steps: History) -> History:
    """The history with a row of each table at its very beginning: a circuit's step over no commit is not run here."""
    rows = (Change("items", INSERT, (0, 1, "a", 7, 0.1, None)), Change("bag", INSERT, (1, "a")))
    first, *others = steps[0]
    return ((rows + first, *others), *steps[1:])


@pytest.mark.spark
def test_aggregates_over_everything_equal_batch(spark: Any, tmp_path: Path) -> None:
    circuits = Alone(spark, OPERATOR, tmp_path / "all")
    for number in range(max(2, HISTORIES // ALONE)):
        rng = random.Random(f"{SEED}/{OPERATOR.name}/{number}")
        plan = schedule(rng, OPERATOR.truncated)
        steps = begun(history(rng, OPERATOR.tables, plan))
        outcome = circuits.run(plan, [steps])
        if outcome.differing:
            raise AssertionError(f"history {number}\n{report(spark, tmp_path, OPERATOR, plan, [steps], outcome)}")
