"""Goal: encoded values compare as the rows they stand for. Judges: a comparator in plain Python that spells out
Spark's order (NULLs where asked, NaN greatest, -0.0 = 0.0, text by its bytes), and DuckDB's ORDER BY."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from headrace.state import row_hash
from headrace.state.order import Order, SortColumn, encode
from headrace.state.places import Places, less
from headrace.state.row_hash import row_hashes

UTC = dt.UTC
TEXT = ["", "\0", "\0\0", "\0\1", "a", "a\0", "a\0b", "a\xff", "ab", "b", "ä", "z", "zeta" * 9, "zeta" * 9 + "\0"]
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [False, True]),
    (pa.int8(), [-128, -1, 0, 1, 127]),
    (pa.int16(), [-(2**15), -1, 0, 256, 2**15 - 1]),
    (pa.int32(), [-(2**31), -256, -1, 0, 255, 256, 2**31 - 1]),
    (pa.int64(), [-(2**63), -(2**32), -1, 0, 1, 2**40, 2**63 - 1]),
    (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 1e-45, 1.5, math.inf, math.nan, -math.nan]),
    (pa.float64(), [-math.inf, -1e300, -5e-324, -0.0, 0.0, 5e-324, 2.5, math.inf, math.nan, -math.nan]),
    (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("-0.01"), Decimal(0), Decimal("9999999.99")]),
    (pa.decimal128(18, 0), [Decimal(-(10**17)), Decimal(-1), Decimal(0), Decimal(10**17)]),
    (pa.decimal128(38, 4), [Decimal(-(10**33)), Decimal(-(2**65)), Decimal("-0.0001"), Decimal(0), Decimal(2**65), Decimal(10**33)]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("us", tz="UTC"), [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23, tzinfo=UTC), dt.datetime(2024, 2, 29, tzinfo=UTC)]),
    (pa.timestamp("us"), [dt.datetime(1969, 1, 1), dt.datetime(2024, 2, 29)]),
    (pa.duration("us"), [dt.timedelta(days=-3), dt.timedelta(0), dt.timedelta(days=3)]),
    (pa.string(), TEXT),
    (pa.binary(), [b"", b"\0", b"\0\xff", b"a", b"a\0", b"\xff", b"\xff\xff", b"\xff\0"]),
]  # fmt: skip
NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.int32()), [[], [None], [None, 1], [-1], [1], [1, None], [1, 0], [1, 2]]),
    (pa.list_(pa.string()), [[], [None], [""], ["", ""], ["\0"], ["a"], ["a", "b"], ["ab"]]),
    (pa.list_(pa.list_(pa.float64())), [[], [None], [[]], [[None]], [[-0.0]], [[0.0]], [[0.0], []], [[math.nan]]]),
    (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [{"a": a, "b": b} for a in (None, -1, 2) for b in (None, "", "x")],
    ),
]
FLAT = [arrow for arrow, _ in VALUES]


def compare(a: Any, b: Any) -> int:
    """Two values ascending, a NULL before all others: Spark's order of what lies inside arrays and structs too."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(a) - math.isnan(b)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    if isinstance(a, dict):
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list):
        return next((c for c in map(compare, a, b) if c), (len(a) > len(b)) - (len(a) < len(b)))
    return (a > b) - (a < b)


def compare_rows(a: Any, b: Any, sorts: list[SortColumn]) -> int:
    for x, y, sort in zip(a, b, sorts, strict=False):
        if x is None or y is None:
            result = ((x is None) - (y is None)) * (1 if sort.nulls_last else -1)
        else:
            result = -compare(x, y) if sort.descending else compare(x, y)
        if result:
            return result
    return 0


def drawn(chooser: random.Random, types: list[tuple[pa.DataType, list[Any]]], rows: int) -> tuple[list[SortColumn], list[tuple[Any, ...]], list[pa.Array]]:  # fmt: skip
    chosen = [chooser.choice(types) for _ in range(chooser.choice([1, 1, 2, 3]))]
    sorts = [SortColumn(t, chooser.random() < 0.5, chooser.random() < 0.5, chooser.random() < 0.6) for t, _ in chosen]
    table = [
        tuple(
            None if sort.nullable and chooser.random() < 0.2 else chooser.choice(values)
            for sort, (_, values) in zip(sorts, chosen, strict=True)
        )
        for _ in range(rows)
    ]
    columns = [pa.array([row[n] for row in table], t) for n, (t, _) in enumerate(chosen)]
    return sorts, table, columns


def sign(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


@pytest.mark.parametrize("seed", range(60))
def test_bytes_compare_as_rows_do(seed: int) -> None:
    chooser = random.Random(seed)
    sorts, rows, columns = drawn(chooser, VALUES + NESTED, 30)
    places = encode(columns, [s.descending for s in sorts], [s.nulls_last for s in sorts]).to_pylist()
    for a, x in zip(rows, places, strict=True):
        for b, y in zip(rows, places, strict=True):
            assert sign(x, y) == compare_rows(a, b, sorts), (a, b, sorts)
            assert x == y or not y.startswith(x)


@pytest.mark.parametrize(
    ("arrow", "values"), VALUES + NESTED, ids=lambda v: str(v) if isinstance(v, pa.DataType) else ""
)
@pytest.mark.parametrize("descending", [False, True])
def test_every_value_of_a_type_finds_its_place(arrow: pa.DataType, values: list[Any], descending: bool) -> None:
    sort = SortColumn(arrow, descending, nulls_last=descending)
    rows = [(value,) for value in [None, *values]]
    places = encode([pa.array([None, *values], arrow)], [descending], [descending]).to_pylist()
    for a, x in zip(rows, places, strict=True):
        for b, y in zip(rows, places, strict=True):
            assert sign(x, y) == compare_rows(a, b, [sort]), (a, b)


@pytest.mark.parametrize("seed", range(60))
def test_stored_places_compare_as_rows_do(seed: int) -> None:
    """In whichever form an order keeps them: numbers, bytes of one width, bytes."""
    chooser = random.Random(1000 + seed)
    sorts, rows, columns = drawn(chooser, VALUES if seed % 3 else VALUES + NESTED, 30)
    order = Order(tuple(sorts))
    array = order.encode(columns)
    assert array.type == order.type
    places = Places(array)
    every = np.arange(len(rows))
    words = places.words(every, places.width(every))
    for i, a in enumerate(rows):
        same = np.repeat(words[i : i + 1], len(rows), axis=0)
        assert less(same, words).tolist() == [compare_rows(a, b, sorts) < 0 for b in rows]


def test_duckdb_sorts_alike() -> None:
    """Types and modes in which DuckDB's order is Spark's."""
    chooser = random.Random(5)
    for _ in range(40):
        sorts, _, columns = drawn(chooser, VALUES, 60)
        table = pa.table(columns, names=[f"c{n}" for n in range(len(columns))])
        by = ", ".join(
            f"c{n} {'desc' if s.descending else 'asc'} nulls {'last' if s.nulls_last else 'first'}"
            for n, s in enumerate(sorts)
        )
        table = table.append_column("n", pa.array(range(60)))
        with duckdb.connect() as connection:
            connection.register("rows", table)
            ranked = connection.execute(f"select n, dense_rank() over (order by {by}) from rows order by n").fetchall()
        places = encode(columns, [s.descending for s in sorts], [s.nulls_last for s in sorts]).to_pylist()
        ranks = {place: rank for rank, place in enumerate(sorted(set(places)), start=1)}
        assert [rank for _, rank in ranked] == [ranks[place] for place in places], sorts


@pytest.mark.parametrize("seed", range(60))
def test_a_bound_cuts_before_or_after_all_that_begins_with_it(seed: int) -> None:
    chooser = random.Random(2000 + seed)
    sorts, rows, columns = drawn(chooser, VALUES, 25)
    order = Order(tuple(sorts))
    stored = Places(order.encode(columns))
    every = np.arange(len(rows))
    for length in range(1, len(sorts) + 1):
        after = np.array([chooser.random() < 0.5 for _ in rows])
        bounds = order.bounds(columns[:length], after)
        cuts = Places(bounds.values)
        width = max(stored.width(every), cuts.width(every))
        words, limits = stored.words(every, width), cuts.words(every, width)
        for i, bound in enumerate(rows):
            limit = np.repeat(limits[i : i + 1], len(rows), axis=0)
            before = ~less(limit, words) if bounds.after[i] else less(words, limit)
            wanted = [(compare_rows(row, bound[:length], sorts) - after[i]) < 0 for row in rows]
            assert before.tolist() == wanted


@pytest.mark.parametrize(
    ("columns", "arrow"),
    [
        ([SortColumn(pa.int64(), nullable=False)], pa.uint64()),
        ([SortColumn(pa.float64(), descending=True, nullable=False)], pa.uint64()),
        ([SortColumn(pa.date32())], pa.uint64()),
        ([SortColumn(pa.int32(), nullable=False), SortColumn(pa.int16())], pa.uint64()),
        ([SortColumn(pa.decimal128(18, 2), nullable=False)], pa.uint64()),
        ([SortColumn(pa.int64())], pa.binary(9)),
        ([SortColumn(pa.decimal128(38, 2), nullable=False), SortColumn(pa.bool_())], pa.binary(18)),
        ([SortColumn(pa.string(), nullable=False)], pa.binary()),
        ([SortColumn(pa.int64()), SortColumn(pa.list_(pa.int8()))], pa.binary()),
        ([SortColumn(pa.null(), nullable=True)], pa.uint64()),
    ],
)
def test_an_order_is_kept_in_the_narrowest_form(columns: list[SortColumn], arrow: pa.DataType) -> None:
    assert Order(tuple(columns)).type == arrow


def test_slices_chunks_and_dictionaries_are_encoded_by_their_values() -> None:
    for arrow, values in VALUES + NESTED:
        array = pa.array([None, *values, None], arrow)
        whole = encode([array], [True], [False])
        assert encode([array.slice(2, 2)], [True], [False]) == whole.slice(2, 2)
        assert encode([pa.chunked_array([array.slice(0, 2), array.slice(2)])], [True], [False]) == whole
    text = pa.array(["b", None, "a", "b"])
    assert encode([text.dictionary_encode()], [False], [True]) == encode([text], [False], [True])


def test_maps_have_a_form_in_which_equal_maps_are_equal() -> None:
    arrow = pa.map_(pa.string(), pa.int64())
    places = encode([pa.array([[("a", 1), ("b", None)], [("b", None), ("a", 1)], [("a", 1)]], arrow)], [False], [False])
    assert places[0] == places[1] != places[2]


def test_what_an_order_does_not_take_is_refused() -> None:
    order = Order((SortColumn(pa.int64(), nullable=False), SortColumn(pa.int32())))
    with pytest.raises(ValueError, match="declared to have none"):
        order.encode([pa.array([1, None]), pa.array([1, 2], pa.int32())])
    with pytest.raises(TypeError, match="int32 in an order by int64"):
        order.encode([pa.array([1], pa.int32()), pa.array([1], pa.int32())])
    with pytest.raises(ValueError, match="1 columns for an order of 2"):
        order.encode([pa.array([1])])
    with pytest.raises(TypeError, match="no order"):
        encode([pa.array([pa.MonthDayNano([1, 2, 3])])], [False], [False])


def test_nothing_is_encoded_as_nothing() -> None:
    for arrow, _ in VALUES + NESTED:
        assert len(encode([pa.array([], arrow)], [False], [False])) == 0
        assert len(Order((SortColumn(arrow),)).encode([pa.array([], arrow)])) == 0


def test_what_lies_under_a_null_counts_for_nothing() -> None:
    """An Arrow array may hold anything there; neither a place nor the hash of a row may tell it."""
    bitmap = pa.py_buffer(bytes([0b101]))
    for arrow, width in ((pa.int32(), 4), (pa.float64(), 8), (pa.decimal128(38, 2), 16), (pa.decimal128(9, 2), 16)):
        clean = np.zeros((3, width), np.uint8)
        dirty = clean.copy()
        dirty[1] = 0x7B
        arrays = [pa.Array.from_buffers(arrow, 3, [bitmap, pa.py_buffer(raw)]) for raw in (clean, dirty)]
        assert encode([arrays[0]], [True], [False]) == encode([arrays[1]], [True], [False])
        order = Order((SortColumn(arrow),))
        assert order.encode([arrays[0]]) == order.encode([arrays[1]])
        assert row_hashes([arrays[0]], 3).tolist() == row_hashes([arrays[1]], 3).tolist()


def test_the_hash_of_a_row_is_that_of_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of where it stands, nor of which other rows have a NULL; and rows that differ hardly ever share one."""
    for arrow, values in VALUES + NESTED:
        array = pa.array([None, *values], arrow)
        whole = row_hashes([array], len(array)).tolist()
        with monkeypatch.context() as patch:
            patch.setattr(row_hash, "BLOCK", 2)
            assert row_hashes([array], len(array)).tolist() == whole
        assert row_hashes([array.slice(1)], len(values)).tolist() == whole[1:]
        for place, value in enumerate(values, start=1):
            assert row_hashes([pa.array([value], arrow)], 1).tolist() == [whole[place]]
    numbers = np.arange(100_000)
    for column in (pa.array(numbers), pa.array(np.char.add("row ", numbers.astype(str))), pa.array(numbers / 7)):
        assert len(np.unique(row_hashes([column, pa.array(numbers % 3)], len(numbers)))) == len(numbers)
