"""Goal: recursive queries equal their definition after every transaction of random histories, deletions included.

Recursion is unrolled by the engine, so the histories go through the test kit instead of harness.py: all cases in one
log, steps of one and of several transactions, the process restarted among them. Each transaction's delta is added up and
held to plain Python, level by level, and the contents to Spark batch after every step.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from harness import HISTORIES, SEED
from taken import taken

from headrace.testing import Pipeline

Row = tuple[Any, ...]
Rows = Counter[Row]

TABLES = {"parts": "case_id int, id int, parent int, n int", "edges": "case_id int, a int, b int"}
VIEWS = {
    "tree": """
        with recursive tree as (select case_id, id, 0 depth from parts where parent is null
        union all select p.case_id, p.id, t.depth + 1 from tree t join parts p on p.case_id = t.case_id and p.parent = t.id)
        select case_id, id, depth from tree""",
    "counted": """
        with recursive up as (select case_id, id, n from parts union all select case_id, id, n - 1 from up where n > 1)
        select case_id, id, count(*) c, sum(n) t from up group by case_id, id""",
    "walks": """
        with recursive walk as (select case_id, a, b, 1 steps from edges
        union all select w.case_id, w.a, e.b, w.steps + 1 from walk w join edges e
        on w.case_id = e.case_id and w.b = e.a where w.steps < 4)
        select case_id, a, b, steps from walk""",
    "reached": """
        with recursive r as (select case_id, a x, 0 l from edges
        union all select distinct r.case_id, e.b, l + 1 from r join edges e on r.case_id = e.case_id and r.x = e.a where l < 3)
        select case_id, x, l from r""",
    "by_one_key": """
        with recursive r as (select case_id, id x, 0 l from parts where n > 2
        union all select r.case_id, e.b, l + 1 from r join edges e on r.case_id = e.case_id and r.x = e.a
        join parts p on p.case_id = r.case_id and p.id = r.x where l < 3)
        select case_id, x, max(l) l from r group by case_id, x""",
    "two_tables": """
        with recursive r as (select case_id, id x, 0 l from parts where n > 2
        union all select r.case_id, e.b, l + 1 from r join edges e on r.case_id = e.case_id and r.x = e.a
        join parts p on p.case_id = e.case_id and p.id = e.b where l < 3)
        select case_id, x, max(l) l from r group by case_id, x""",
}


@dataclass
class Case:
    """What the tables of one history hold."""

    number: int
    parts: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def change(self, rng: random.Random) -> dict[str, list[dict[str, Any]]]:
        """One transaction, done to the tables; none at times. A part's parent is a lesser one, so that no tree is a circle."""
        changed: dict[int, bool] = {}
        edges = []
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            if rng.random() < 0.5:
                number = rng.randrange(6)
                if number in changed:
                    continue
                if number in self.parts and rng.random() < 0.4:
                    del self.parts[number]
                else:
                    parents = [None, *range(number)]
                    self.parts[number] = (rng.choice([*parents[-3:], None]), rng.choice((0, 1, 3, 7)))
                changed[number] = number in self.parts
            elif self.edges and rng.random() < 0.4:
                edges.append((self.edges.pop(rng.randrange(len(self.edges))), -1))
            else:
                edge = (rng.randrange(4), rng.randrange(4))
                self.edges.append(edge)
                edges.append((edge, 1))
        own = {"case_id": self.number}
        parts = []
        for number, there in changed.items():
            parent, n = self.parts.get(number, (None, 0))
            parts.append({**own, "id": number, "parent": parent, "n": n, "_w": 1 if there else -1})
        return {"parts": parts, "edges": [{**own, "a": a, "b": b, "_w": w} for (a, b), w in edges]}

    def levels(self, first: Rows, following: Callable[[Row], list[Row]], distinct: bool = False) -> Rows:
        """The rows of a recursive query: the first level, then what follows from each, until nothing does."""
        whole, level = Counter(first), first
        while level:
            found: Rows = Counter()
            for row, times in level.items():
                for other in following(row):
                    found[other] += times
            level = Counter(dict.fromkeys(found, 1)) if distinct else found
            whole += level
        return whole

    def tree(self) -> Rows:
        roots = Counter((i, 0) for i, (parent, _) in self.parts.items() if parent is None)
        return self.levels(roots, lambda r: [(i, r[1] + 1) for i, (parent, _) in self.parts.items() if parent == r[0]])

    def counted(self) -> Rows:
        found = self.levels(
            Counter((i, n) for i, (_, n) in self.parts.items()), lambda r: [(r[0], r[1] - 1)] if r[1] > 1 else []
        )
        return Counter(
            (i, sum(c for (j, _), c in found.items() if j == i), sum(n * c for (j, n), c in found.items() if j == i))
            for i in self.parts
        )

    def walks(self) -> Rows:
        first = Counter((a, b, 1) for a, b in self.edges)
        return self.levels(
            first, lambda r: [(r[0], b, r[2] + 1) for a, b in self.edges if a == r[1]] if r[2] < 4 else []
        )

    def reached(self) -> Rows:
        first = Counter((a, 0) for a, _ in self.edges)
        return self.levels(
            first, lambda r: [(b, r[1] + 1) for a, b in self.edges if a == r[0]] if r[1] < 3 else [], distinct=True
        )

    def by_one_key(self) -> Rows:
        return self._deepest(lambda x, b: x in self.parts)

    def two_tables(self) -> Rows:
        return self._deepest(lambda x, b: b in self.parts)

    def _deepest(self, known: Callable[[int, int], bool]) -> Rows:
        def following(row: Row) -> list[Row]:
            return [(b, row[1] + 1) for a, b in self.edges if a == row[0] and known(a, b)] if row[1] < 3 else []

        found = self.levels(Counter((i, 0) for i, (_, n) in self.parts.items() if n > 2), following)
        return Counter((x, max(depth for y, depth in found if y == x)) for x in {x for x, _ in found})


def expected(cases: Iterable[Case], view: str) -> Rows:
    """A view's rows over all cases."""
    rows: Rows = Counter()
    for case in cases:
        of_case: Rows = getattr(case, view)()
        rows.update({(case.number, *row): times for row, times in of_case.items()})
    return rows


def multiset(table: Any) -> Rows:
    found: Rows = Counter()
    for row in table.to_pylist():
        times = row.pop("_w", 1)
        found[tuple(row.values())] += times
    return found


@pytest.mark.spark
def test_recursive_queries_equal_their_definition(spark: Any) -> None:
    rng = random.Random(f"{SEED}/recursion")
    cases = [Case(number) for number in range(HISTORIES)]
    views = taken(VIEWS)
    print(f"recursion: {HISTORIES} histories, {len(views)} queries, HEADRACE_LAWS_SEED={SEED}")
    held: dict[str, Rows] = {view: Counter() for view in views}
    with Pipeline(TABLES, views, {"parts": ["case_id", "id"]}, spark=spark) as p:
        for step, count in enumerate((1, 3, 2, 1, 2)):
            transactions, wanted = [], []
            for _ in range(count):
                changes = [case.change(rng) for case in cases]
                transactions.append({name: [row for change in changes for row in change[name]] for name in TABLES})
                wanted.append({view: expected(cases, view) for view in views})
            for number, delta in enumerate(p.steps(transactions)):
                for view in views:
                    held[view].update(multiset(delta[view]))
                    held[view] = Counter({row: times for row, times in held[view].items() if times})
                    assert held[view] == wanted[number][view], differing(
                        view, step, number, held[view], wanted[number][view]
                    )
            for view in views:
                assert multiset(p.read(view)) == held[view]
                assert multiset(p.batch(view)) == held[view], f"Spark batch differs: {view}, step {step}"
            if step == 2:
                p.restart()


def differing(view: str, step: int, transaction: int, found: Rows, wanted: Rows) -> str:
    missing, surplus = wanted - found, found - wanted
    of = f"{view}, step {step}, transaction {transaction}, HEADRACE_LAWS_SEED={SEED}"
    return f"{of}: missing {missing.most_common(5)}, unexpected {surplus.most_common(5)}"
