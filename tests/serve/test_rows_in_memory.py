"""Goal: rows in memory are those that deltas add up to, after each of them; a row is found by its key.

Oracle: a Counter of rows. Bitwise, as rows are told apart everywhere: 0.0 and -0.0 are two, NaN is one.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.serve import contents
from headrace.serve.contents import Contents, Diverged
from headrace.serve.weights import Weights

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("_w", pa.int64())])
Row = tuple[int | None, str | None, str]  # the float as it is spelled, which tells 0.0 from -0.0
ROWS = st.tuples(
    st.integers(0, 5) | st.none(),
    st.sampled_from(["", "a", "äöü"]) | st.none(),
    st.sampled_from(["0.0", "-0.0", "nan", "1.5"]),
)


def table(rows: Counter[Row]) -> pa.Table:
    entries = [(k, s, float(f), weight) for (k, s, f), weight in rows.items() if weight]
    columns = zip(*entries, strict=True) if entries else [[]] * 4
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def held(found: pa.Table) -> Counter[Row]:
    total: Counter[Row] = Counter()
    for row in found.to_pylist():
        assert row["_w"] >= 0
        total[row["k"], row["s"], repr(row["f"])] += row["_w"]
    return +total


HASHES = {"as they are": np.uint64((1 << 64) - 1), "alike but for low bits": np.uint64(7), "all alike": np.uint64(0)}


@pytest.mark.parametrize("hashes", HASHES)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_contents_are_what_deltas_add_up_to(hashes: str, data: st.DataObject) -> None:
    """Also when rows have the same hash, or as much of it as is kept, so that they must be compared."""
    kept, bits = contents.row_hashes, HASHES[hashes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "row_hashes", lambda columns, rows: kept(columns, rows) & bits)
        key = data.draw(st.sampled_from([(), ("k",)]))
        total: Counter[Row] = Counter(data.draw(st.lists(ROWS, max_size=8)))
        now, deltas = Contents.of(table(total), key), list[pa.Table]()
        steps = data.draw(st.integers(0, 8))
        for step in range(steps):
            before, was = now, held(now.table())
            gone = (
                Counter(data.draw(st.lists(st.sampled_from(sorted(total.elements(), key=repr)), max_size=4)))
                if +total
                else Counter()
            )
            gone = Counter({row: min(n, total[row]) for row, n in gone.items()})
            come = Counter(data.draw(st.lists(ROWS, max_size=6)))
            delta = Counter(come)
            delta.subtract(gone)
            deltas.append(table(delta))
            total.update(delta)
            if step + 1 < steps and data.draw(st.booleans()):
                continue  # several come at once
            now = now.after(pa.concat_tables(deltas))
            deltas.clear()
            assert held(now.table()) == +total
            assert held(before.table()) == was  # a reader keeps what it has
        for wanted in range(6):
            if key:
                of_key = Counter({row: n for row, n in total.items() if row[0] == wanted})
                assert held(now.find({"k": pa.scalar(wanted)})) == +of_key


def test_a_row_that_is_not_there_cannot_go() -> None:
    now = Contents.of(table(Counter({(1, "a", "0.0"): 2, (2, "b", "0.0"): 1})), ("k",))
    for gone in ({(1, "a", "0.0"): -3}, {(3, "a", "0.0"): -1}):
        for whole in (now, Contents.of(table(Counter()))):
            with pytest.raises(Diverged):
                whole.after(table(Counter(gone)))


def test_equal_rows_of_a_view_without_a_key_are_one() -> None:
    same = table(Counter({(1, "a", "0.0"): 1}))
    now = Contents.of(table(Counter())).after(pa.concat_tables([same] * 1000))
    assert [len(part.weights) for part in now.parts] == [1] and held(now.table()) == {(1, "a", "0.0"): 1000}


def test_parts_stay_few_and_rows_that_are_gone_leave() -> None:
    now = Contents.of(table(Counter({(n, "a", "0.0"): 1 for n in range(1000)})), ("k",))
    for n in range(1000):
        now = now.after(table(Counter({(n, "a", "0.0"): -1, (n, "b", "0.0"): 1})))
    assert len(now.parts) <= 12
    assert sum(len(part.weights) for part in now.parts) <= 2000
    assert sum(part.weights.alive for part in now.parts) == 1000
    assert now.find({"k": pa.scalar(7)})["s"].to_pylist() == ["b"]


def test_what_a_step_changes_is_all_that_is_copied() -> None:
    """So a step takes as long with a thousand times the rows."""
    before = Contents.of(table(Counter({(n, "a", "0.0"): 1 for n in range(20_000)})), ("k",))
    after = before.after(table(Counter({(7, "a", "0.0"): -1, (7, "b", "0.0"): 1})))
    was, now = before.parts[0].weights, after.parts[0].weights
    assert [mine is its for mine, its in zip(was.blocks, now.blocks, strict=True)] == [False, True, True]
    assert [was.alive, now.alive] == [20_000, 19_999]
    assert now.most == 1 and after.parts[0].rows is before.parts[0].rows
    assert before.find({"k": pa.scalar(7)})["s"].to_pylist() == ["a"]
    assert after.find({"k": pa.scalar(7)})["s"].to_pylist() == ["b"]


@given(
    weights=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    changes=st.lists(st.tuples(st.integers(0, 19), st.integers(-2, 2)), max_size=30),
)
def test_weights_in_blocks_are_those_of_one_array(weights: list[int], changes: list[tuple[int, int]]) -> None:
    whole = np.array(weights, np.int64)
    changes = [(place % len(weights), amount) for place, amount in changes]
    places, amounts = (np.array([change[i] for change in changes], np.int64) for i in (0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.serve.weights.SHIFT", 2)
        patch.setattr("headrace.serve.weights._WITHIN", 3)
        kept = Weights.of(whole.copy())
        less = kept.less(places, amounts)
        assert kept.all().tolist() == kept.column().to_pylist() == weights
        np.subtract.at(whole, places, amounts)
        assert less.all().tolist() == whole.tolist() and len(less) == len(weights)
        assert less.at(places).tolist() == whole[places].tolist()
        assert (less.alive, less.most) == (np.count_nonzero(whole), whole.max())
