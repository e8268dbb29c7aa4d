"""Goal: what narrow columns hold is what was given, whichever rows and columns of it are read. Oracle: the rows given."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state.arrangement import Arrangement
from headrace.state.narrow import narrowed, widened
from headrace.state.run import NARROW_BYTES, merge, open_run, stored_run, write_run

WHOLE = [0, 1, -1, 127, -128, 128, 32767, -32769, 2**31 - 1, 2**31, -(2**63), 2**63 - 1]
MONEY = [Decimal(n).scaleb(-2) for n in (0, 1, -1, 12_799, 2**31, -(2**62), 10**18)]
TEXTS = ["", "AIR", "by truck, with care", "ä", "x" * 40]
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), WHOLE),
    (pa.int32(), [n for n in WHOLE if -(2**31) <= n < 2**31]),
    (pa.int16(), [n for n in WHOLE if -(2**15) <= n < 2**15]),
    (pa.int8(), [0, -128, 127]),
    (pa.decimal128(15, 2), MONEY[:-2]),
    (pa.decimal128(21, 2), MONEY),
    (pa.decimal128(38, 2), [*MONEY, Decimal(10**34), Decimal(-(10**34))]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), [text.encode() for text in TEXTS]),
    (pa.float64(), [0.0, -0.0, 1.5]),
    (pa.bool_(), [True, False]),
    (pa.timestamp("us", tz="UTC"), [dt.datetime(2030, 1, 1, tzinfo=dt.UTC)]),
    (pa.list_(pa.int64()), [[], [1, None]]),
    (pa.null(), [None]),
]


@st.composite
def columns(draw: st.DrawFn) -> pa.Table:
    """Few distinct values of small or large range a column, NULL among them or not; sometimes a slice of more rows."""
    rows, before = draw(st.integers(0, 40)), draw(st.integers(0, 3))
    arrays = []
    for arrow, values in TYPES:
        chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        among = [*chosen, None] if draw(st.booleans()) else chosen
        random = np.random.default_rng(draw(st.integers(0, 99)))
        array = pa.array([among[i] for i in random.integers(0, len(among), rows + before)], arrow)
        arrays.append(array.slice(before))
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


@settings(max_examples=150, deadline=None)
@given(columns(), st.data())
def test_any_rows_and_columns_are_those_given(table: pa.Table, data: st.DataObject) -> None:
    narrow = narrowed(table, without="")
    assert widened(narrow).equals(table, check_metadata=True)
    assert widened(table) is table
    names = data.draw(st.permutations(table.column_names).map(lambda names: names[:5]))
    rows = data.draw(st.lists(st.integers(0, max(0, len(table) - 1)), max_size=9 if len(table) else 0))
    assert widened(narrow.select(names).take(pa.array(rows, pa.int64()))).equals(
        table.select(names).take(pa.array(rows, pa.int64()))
    )
    begin, count = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    assert widened(narrow.slice(begin, count)).equals(table.slice(begin, count))


def test_what_lies_under_null_takes_no_room() -> None:
    """A value that nobody can see neither widens a column nor comes back."""
    words = np.array([[5, 0], [2**60, 7], [-3, -1]], np.int64)
    valid = pa.py_buffer(np.packbits([True, False, True], bitorder="little"))
    decimals = pa.Array.from_buffers(pa.decimal128(30, 2), 3, [valid, pa.py_buffer(words)])
    numbers = pa.Array.from_buffers(pa.int64(), 3, [valid, pa.py_buffer(words[:, 0].copy())])
    narrow = narrowed(pa.table([decimals, numbers], names=["d", "n"]), without="")
    assert narrow.schema.types == [pa.int8(), pa.int8()]
    assert widened(narrow).to_pydict() == {"d": [Decimal("0.05"), None, Decimal("-0.03")], "n": [5, None, -3]}


def test_each_column_takes_the_narrowest_form() -> None:
    rows = 3_000
    table = pa.table(
        {
            "_h": np.arange(rows),
            "key": np.arange(rows) + 40_000,
            "price": pa.array([Decimal(n) for n in range(rows)], pa.decimal128(15, 2)),
            "mode": [TEXTS[n % 4] for n in range(rows)],
            "comment": [f"of row {n}" for n in range(rows)],
            "late": pa.array([9_000 + n for n in range(rows)], pa.int32()).cast(pa.date32()),
        }
    )
    narrow = narrowed(table, without="_h")
    listed = pa.dictionary(pa.int8(), pa.string())
    assert narrow.schema.types == [pa.int64(), pa.int32(), pa.int32(), listed, pa.string(), pa.int16()]
    assert widened(narrow).equals(table)


def large(first: int, weight: int = 1, rows: int = 1 << 16) -> pa.Table:
    money = pa.array(np.arange(first, first + rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    return pa.table({"_h": np.arange(first, first + rows), "_w": np.full(rows, weight), "c0": money})


def test_large_runs_are_stored_narrow_and_read_as_written(tmp_path: Path) -> None:
    """Of runs that are written, probed and merged: a third of the bytes, and nothing else changes."""
    small, one, other = large(0, rows=100), large(0), large(1 << 15, -1)
    paths = [str(tmp_path / f"{n}.arrow") for n in range(3)]
    for path, table in zip(paths, (small, one, other), strict=True):
        write_run(Path(path), table)
        assert open_run(path).equals(table)
    assert small.nbytes < NARROW_BYTES <= one.nbytes
    assert [stored_run(path).schema == small.schema for path in paths] == [True, False, False]
    assert Path(paths[1]).stat().st_size < 0.45 * one.nbytes
    wanted = np.array([7, 1 << 15, 70_000])
    hits = Arrangement(paths, "").probe(wanted, ["c0", "_w"], one.select(["c0", "_w"]).schema)
    assert [(int(wanted[k]), *row.values()) for k, row in zip(hits.keys, hits.rows.to_pylist(), strict=True)] == [
        (7, Decimal(7), 1), (7, Decimal(7), 1), (1 << 15, Decimal(1 << 15), 1), (1 << 15, Decimal(1 << 15), -1),
        (70_000, Decimal(70_000), -1),
    ]  # fmt: skip
    assert [t.equals(w) for t, w in zip(Arrangement(paths, "").all(), (small, one, other), strict=True)] == [True] * 3
    merged = merge([stored_run(path) for path in paths])
    assert merged.nbytes < 0.7 * (one.nbytes + small.nbytes)
    assert widened(merged).equals(merge([small, one, other]))
    assert merged.num_rows == (1 << 15) + 100 + (1 << 15)
    write_run(tmp_path / "merged.arrow", merged)
    assert open_run(str(tmp_path / "merged.arrow")).equals(widened(merged))


@pytest.mark.parametrize("name", ["_o", "_i"])
def test_what_is_searched_as_it_lies_stays_as_it_is(tmp_path: Path, name: str) -> None:
    table = large(0).append_column(name, pa.array(np.zeros(1 << 16, np.int64)))
    write_run(tmp_path / "run.arrow", table)
    assert stored_run(str(tmp_path / "run.arrow")).schema == table.schema
