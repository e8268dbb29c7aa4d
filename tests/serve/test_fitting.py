"""Goal: as many rows are taken as find room, no row more or fewer. Oracle: rows added up one by one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.serve.fitting import Room, fitting


@given(st.lists(st.text(max_size=30) | st.none(), max_size=20), st.integers(0, 400))
def test_what_fits(texts: list[str | None], most: int) -> None:
    rows = pa.table({"a": pa.array(texts, pa.string()), "b": pa.array(range(len(texts)), pa.int64())})
    count = fitting(rows, most)
    assert all(rows.slice(0, n).nbytes <= most for n in range(1, count + 1))
    assert count == len(texts) or rows.slice(0, count + 1).nbytes > most
    batch = rows.combine_chunks().to_batches()
    assert [fitting(each, most) for each in batch] == [count] * len(batch)


def test_what_is_taken_is_gone() -> None:
    rows, room = pa.table({"a": pa.array(range(10), pa.int64())}), Room(8 * 7)
    assert room.take(rows, 4)["a"].to_pylist() == [0, 1, 2, 3]
    assert room.take(rows.slice(4), 100)["a"].to_pylist() == [4, 5, 6]
    assert room.take(rows, 1).num_rows == 0
