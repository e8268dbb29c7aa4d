"""Row identity: judged by Python's Counter over a key that tells -0.0 from 0.0 and takes every NaN as one.

Tables are drawn with few values per column, so that rows repeat; the same rows in another order, cut into other
chunks, must give the same bytes.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import time
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state.rows import canonical, consolidate, difference, row_codes

OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
FLOATS = st.sampled_from([0.0, -0.0, math.nan, OTHER_NAN, 1.5, -1.5, math.inf, -math.inf, 5e-324])
INTS = st.sampled_from([-(2**63), -1, 0, 1, 7, 2**63 - 1])
TEXT = st.sampled_from(["", "a", "a\0", "ab", "b", "ä", "z" * 20])
UTC = dt.UTC


def pairs(key: st.SearchStrategy[Any], value: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    return st.lists(st.tuples(key, st.none() | value), max_size=3, unique_by=lambda entry: entry[0])


ITEM = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64()))])
TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), INTS),
    (pa.int8(), st.sampled_from([-128, -1, 0, 127])),
    (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    (pa.bool_(), st.booleans()),
    (pa.float64(), FLOATS),
    (pa.float32(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, -2.5])),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.binary(), TEXT.map(str.encode)),
    (pa.binary(2), st.sampled_from([b"ab", b"\0\0", b"ba"])),
    (
        pa.decimal128(38, 2),
        st.sampled_from([Decimal(0), Decimal("-0.01"), Decimal(10**35), Decimal(-(10**35)), Decimal(7)]),
    ),
    (pa.decimal256(60, 0), st.sampled_from([Decimal(0), Decimal(10**50), Decimal(-(10**50)), Decimal(2**64)])),
    (pa.date32(), st.sampled_from([dt.date(1, 1, 1), dt.date(2024, 2, 29)])),
    (
        pa.timestamp("us", tz="UTC"),
        st.sampled_from([dt.datetime(1969, 1, 1, tzinfo=UTC), dt.datetime(2030, 1, 1, tzinfo=UTC)]),
    ),
    (pa.duration("us"), st.sampled_from([dt.timedelta(0), dt.timedelta(days=-1)])),
    (pa.null(), st.none()),
    (pa.list_(pa.string()), st.lists(st.none() | TEXT, max_size=3)),
    (pa.large_list(pa.float64()), st.lists(st.none() | FLOATS, max_size=3)),
    (ITEM, st.fixed_dictionaries({"a": st.none() | INTS, "b": st.none() | st.lists(FLOATS, max_size=2)})),
    (pa.map_(pa.string(), pa.float64()), pairs(TEXT, FLOATS)),
    (pa.map_(pa.int64(), pa.map_(pa.string(), pa.int64())), pairs(INTS, pairs(TEXT, INTS))),
    (
        pa.list_(ITEM),
        st.lists(st.none() | st.fixed_dictionaries({"a": INTS, "b": st.just([-0.0, math.nan])}), max_size=2),
    ),
]


def identity(value: Any, arrow: pa.DataType) -> Any:
    """A hashable key of a Python value: what makes two values one."""
    if value is None:
        return None
    if pa.types.is_floating(arrow):
        return "nan" if math.isnan(value) else value.hex()
    if pa.types.is_struct(arrow):
        return tuple(identity(value[field.name], field.type) for field in arrow)
    if pa.types.is_map(arrow):
        entries = [(identity(k, arrow.key_type), identity(v, arrow.item_type)) for k, v in value]
        return frozenset(entries)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return tuple(identity(item, arrow.value_type) for item in value)
    return value


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    picked = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    distinct = draw(st.lists(st.tuples(*[st.none() | values for _, values in picked]), min_size=1, max_size=6))
    rows = draw(st.lists(st.sampled_from(distinct), max_size=25))
    weights = draw(st.lists(st.sampled_from([1, 1, -1, 2, -2, 2**40]), min_size=len(rows), max_size=len(rows)))
    columns = [pa.array([row[i] for row in rows], arrow) for i, (arrow, _) in enumerate(picked)]
    names = [f"c{i}" for i in range(len(picked))]
    return pa.table([*columns, pa.array(weights, pa.int64())], names=[*names, "_w"])


def count(table: pa.Table) -> Counter[Any]:
    """The judge: identity of a row -> its weight, zeros left out."""
    total: Counter[Any] = Counter()
    columns = [[identity(v, field.type) for v in table[field.name].to_pylist()] for field in table.schema]
    for *row, weight in zip(*columns, strict=True):
        total[tuple(row)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def as_bytes(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue().to_pybytes()


def shuffled(table: pa.Table, order: list[int], cut: int) -> pa.Table:
    moved = table.take(pa.array(order, pa.int64()))
    return pa.concat_tables([moved.slice(0, cut), moved.slice(cut)])


@settings(max_examples=200, deadline=None)
@given(tables(), st.data())
def test_consolidated_rows_are_those_counted(table: pa.Table, data: st.DataObject) -> None:
    result = consolidate(table)
    result.validate(full=True)
    assert result.schema == table.schema
    assert dict(count(result)) == dict(count(table))
    assert result.num_rows == len(count(table))
    order = data.draw(st.permutations(range(table.num_rows)))
    cut = data.draw(st.integers(0, table.num_rows))
    assert as_bytes(consolidate(shuffled(table, order, cut))) == as_bytes(result)
    assert as_bytes(consolidate(result)) == as_bytes(result)


@settings(max_examples=200, deadline=None)
@given(tables(), st.data())
def test_codes_are_dense_ordered_and_equal_for_equal_rows(table: pa.Table, data: st.DataObject) -> None:
    columns = table.drop_columns("_w").columns
    codes = row_codes(columns)
    rows = list(zip(*[[identity(v, c.type) for v in c.to_pylist()] for c in columns], strict=True))
    distinct = set(rows)
    assert sorted(set(codes.tolist())) == list(range(len(distinct)))
    assert len({*zip(codes.tolist(), rows, strict=True)}) == len(distinct)
    order = data.draw(st.permutations(range(table.num_rows)))
    moved = row_codes([column.take(pa.array(order, pa.int64())) for column in columns])
    assert moved.tolist() == [codes[place] for place in order]
    kept = data.draw(st.integers(0, table.num_rows))  # fewer rows: the same order among them
    part = row_codes([column.slice(kept) for column in columns])
    assert np.array_equal(np.argsort(part, kind="stable"), np.argsort(codes[kept:], kind="stable"))


@settings(max_examples=200, deadline=None)
@given(tables(), st.data())
def test_difference_undoes_itself(table: pa.Table, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, table.num_rows))
    a, b = table.slice(0, cut), table.slice(cut)
    change = difference(a, b.select(["_w", *[name for name in table.column_names if name != "_w"]]))
    wanted = count(a)
    wanted.subtract(count(b))
    assert dict(count(change)) == {row: weight for row, weight in wanted.items() if weight}
    assert as_bytes(consolidate(pa.concat_tables([b, change]))) == as_bytes(consolidate(a))
    assert difference(a, a).num_rows == 0


def test_the_order_of_rows_is_that_of_their_values() -> None:
    def ordered(values: list[Any], arrow: pa.DataType) -> list[Any]:
        codes = row_codes([pa.array(values, arrow)])
        return [values[place] for place in np.argsort(codes)]

    numbers = [5, -(2**63), None, 2**63 - 1, 0, -7]
    assert ordered(numbers, pa.int64()) == [None, -(2**63), -7, 0, 5, 2**63 - 1]
    floats = ordered([math.nan, 1.0, 0.0, -0.0, -math.inf, -1.0, math.inf], pa.float64())
    assert [str(value) for value in floats] == ["-inf", "-1.0", "-0.0", "0.0", "1.0", "inf", "nan"]
    assert ordered(["b", "ä", "", "a\0", "a", None], pa.string()) == [None, "", "a", "a\0", "b", "ä"]
    lists = [[2], None, [], [1, 300], [1], [None]]
    assert ordered(lists, pa.list_(pa.int64())) == [None, [], [None], [1], [1, 300], [2]]
    many = [[value] for value in range(70_000)]
    assert ordered(many[::-1], pa.list_(pa.int32())) == many
    decimals = [Decimal(2**64), Decimal(-1), Decimal(3), Decimal(-(2**64)), Decimal(2**63)]
    assert ordered(decimals, pa.decimal128(38, 0)) == sorted(decimals)
    assert row_codes([pa.array([1, 1, 0]), pa.array(["b", "a", "c"])]).tolist() == [2, 1, 0]


def test_nan_bits_and_the_order_of_map_entries_do_not_count() -> None:
    double = np.array([0x7FF8000000000000, 0xFFF8000000000123, 0x7FF0000000000001, 0], np.uint64).view(np.float64)
    single = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0], np.uint32).view(np.float32)
    half = np.array([0x7E00, 0xFE01, 0x7C01, 0], np.uint16).view(np.float16)
    nested = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1, 2, 3, 4], pa.array(double))], names=["l"])
    entries = [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("b", 1), ("a", 2)], None]
    maps = pa.array(entries, pa.map_(pa.string(), pa.int64()))
    columns = [pa.array(double), pa.array(single), pa.array(half), nested]
    for column in columns:
        assert row_codes([column]).tolist() == [1, 1, 1, 0]
        found = {as_bytes(consolidate(pa.table({"c": column.take([place]), "_w": [1]}))) for place in range(3)}
        assert len(found) == 1
    assert row_codes([maps]).tolist() == [1, 1, 2, 0]
    result = consolidate(pa.table({"m": maps, "_w": [1, 1, 1, 1]}))
    assert result.to_pydict() == {"m": [None, [("a", 1), ("b", 2)], [("a", 2), ("b", 1)]], "_w": [1, 2, 1]}


def test_what_lies_under_null_does_not_count() -> None:
    rubbish = pa.array([[1.0], [2.0], [3.0]], pa.list_(pa.float64()))
    child = pa.array([1, 2, 3])
    mask = pa.array([True, True, False])
    nulls = pa.StructArray.from_arrays([child, rubbish], names=["a", "b"], mask=mask)
    plain = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(bytes([0b100])), child.buffers()[1]])
    lists = pa.Array.from_buffers(
        rubbish.type, 3, [pa.py_buffer(bytes([0b100])), rubbish.buffers()[1]], children=[rubbish.values]
    )
    table = pa.table({"s": nulls, "i": plain, "l": lists, "_w": pa.array([1, 1, 1])})
    assert row_codes(table.columns[:3]).tolist() == [0, 0, 1]
    result = consolidate(table)
    assert result["_w"].to_pylist() == [2, 1]
    assert as_bytes(consolidate(table.take([1, 2, 0]))) == as_bytes(result)


def test_dictionaries_and_extensions_come_out_plain() -> None:
    table = pa.table({"s": pa.array(["b", "a", "b"]).dictionary_encode(), "_w": pa.array([1, 1, 1])})
    result = consolidate(table)
    assert result.to_pydict() == {"s": ["a", "b"], "_w": [1, 2]}
    assert result.schema.field("s").type == pa.string()
    assert canonical(pa.array([b"0" * 16]).cast(pa.binary(16))).to_pylist() == [b"0" * 16]


def test_by_picks_the_columns_and_the_order() -> None:
    table = pa.table({"a": [1, 2, 1], "b": ["y", "x", "y"], "c": [1, 2, 3], "_w": [1, 1, 1]})
    assert consolidate(table, by=["b", "a"]).to_pydict() == {"a": [2, 1], "b": ["x", "y"], "_w": [1, 2]}
    assert consolidate(table, weight="c", by=["a"]).to_pydict() == {"a": [1, 2], "c": [4, 2]}
    assert consolidate(table.select(["_w"])).to_pydict() == {"_w": [3]}
    assert consolidate(table.slice(0, 0)).to_pydict() == {"a": [], "b": [], "c": [], "_w": []}


def test_weights_beyond_int64_are_refused() -> None:
    largest = 2**63 - 1
    fine = pa.table({"a": [1, 1, 1, 2], "_w": pa.array([largest, largest, -largest, -(2**63)])})
    assert consolidate(fine).to_pydict() == {"a": [1, 2], "_w": [largest, -(2**63)]}
    for weights in ([largest, 1], [-(2**63), -1]):
        with pytest.raises(OverflowError, match="int64"):
            consolidate(pa.table({"a": [1, 1], "_w": pa.array(weights, pa.int64())}))
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        difference(fine, fine)


def test_bad_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="NULL"):
        consolidate(pa.table({"a": [1], "_w": pa.array([None], pa.int64())}))
    with pytest.raises(TypeError, match="month_day_nano"):
        row_codes([pa.array([(1, 2, 3)], pa.month_day_nano_interval())])
    with pytest.raises(ValueError, match="at least one column"):
        row_codes([])
    one = pa.table({"a": [1], "_w": [1]})
    with pytest.raises(ValueError, match="columns differ"):
        difference(one, one.rename_columns(["b", "_w"]))
    with pytest.raises(ValueError, match="types differ"):
        difference(one, one.set_column(0, "a", pa.array([1.0])))


def test_small_and_large_tables_are_fast() -> None:
    random = np.random.default_rng(5)

    def table(rows: int) -> pa.Table:
        keys = random.integers(0, rows, rows)
        return pa.table(
            {
                "id": keys,
                "amount": random.integers(-(10**12), 10**12, rows),
                "name": pa.array([f"customer {key}" for key in keys]),
                "price": pa.array(random.integers(0, 10**6, rows)).cast(pa.decimal128(20, 0)),
                "_w": np.ones(rows, np.int64),
            }
        )

    large, small = table(300_000), table(100)
    begin = time.thread_time()
    consolidate(large)
    assert time.thread_time() - begin < 2.0
    consolidate(small)
    begin = time.perf_counter()
    for _ in range(20):
        consolidate(small)
    assert (time.perf_counter() - begin) / 20 < 0.01
