"""Goal: the search names least sets of rows that throw, in few jobs, and always ends. Method: predicates in Python."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.culprits import ROWS_MAX, Found, Search


def searched(total: int, bad: list[set[int]], deleted: int = 0, limit: int = ROWS_MAX) -> tuple[Found, int]:
    """Search ``total`` rows for the sets of which every row must be there for it to throw; and the jobs it took."""
    jobs = 0

    def attempt(chosen: Mapping[str, list[pa.Table]]) -> Exception | None:
        nonlocal jobs
        jobs += 1
        there = {v for tables in chosen.values() for t in tables for v in t["c0"].to_pylist()}
        assert set(range(-deleted, 0)) <= there
        thrown = next((b for b in bad if b <= there), None)
        return None if thrown is None else ArithmeticError(str(sorted(thrown)))

    values = np.arange(-deleted, total)
    weights = np.where(values < 0, -1, 1)
    found = Search(attempt, {"t": pa.table({"c0": values, "_w": weights})}).run()
    return found, jobs


def groups(found: Found) -> list[set[int]]:
    held: dict[int, set[int]] = {}
    for culprit in found.culprits:
        held.setdefault(culprit.together, set()).add(culprit.row["c0"][0].as_py())
    return list(held.values())


@given(st.integers(1, 300), st.integers(0, 3), st.data())
def test_the_search_finds_least_sets(total: int, deleted: int, data: st.DataObject) -> None:
    one = st.sets(st.integers(0, total - 1), min_size=1, max_size=3)
    bad = data.draw(st.lists(one, min_size=1, max_size=4))
    found, jobs = searched(total, bad, deleted)
    assert found.complete
    least = [b for b in bad if not any(other < b for other in bad)]
    assert all(group in least for group in groups(found))
    left = set().union(*groups(found))
    assert all(b & left for b in bad)  # without what is named nothing throws
    assert jobs <= 3 + sum(len(g) for g in groups(found)) * (np.ceil(np.log2(total + 1)) + 3)


def test_one_row_of_many_takes_few_jobs_each_smaller_than_the_one_before() -> None:
    found, jobs = searched(1_000_000, [{777_777}])
    assert groups(found) == [{777_777}]
    assert jobs <= 40


def test_the_search_ends_where_there_is_no_end_to_what_throws() -> None:
    found, _ = searched(500, [{n} for n in range(0, 500, 2)])
    assert len(found.culprits) == ROWS_MAX
    assert not found.complete
    found, _ = searched(500, [set(range(100))])
    assert len(found.culprits) == ROWS_MAX
    assert {c.together for c in found.culprits} == {0}
    assert not found.complete


def test_the_search_of_what_no_row_explains() -> None:
    found, jobs = searched(500, [set()])
    assert (found.alone, found.complete, found.culprits) == (True, False, [])
    assert jobs == 2
    assert searched(50, [])[0] == Found()


def test_rows_of_two_feeds_that_throw_together() -> None:
    def attempt(chosen: Mapping[str, list[pa.Table]]) -> Exception | None:
        there = {n: {v for t in tables for v in t["c0"].to_pylist()} for n, tables in chosen.items()}
        pairs = {(a, b) for a in there["facts"] for b in there["names"] if a % 10 == b and b == 3}
        return ArithmeticError("3") if pairs else None

    facts = pa.table({"c0": np.arange(100), "_w": np.ones(100, np.int64)})
    names = pa.table({"c0": np.arange(10), "_w": np.ones(10, np.int64)})
    found = Search(attempt, {"facts": facts, "names": names}).run()
    assert found.complete
    assert [{c.feed for c in found.culprits if c.together == g} for g in range(10)] == [{"facts", "names"}] * 10
    assert {c.row["c0"][0].as_py() for c in found.culprits if c.feed == "facts"} == set(range(3, 100, 10))
