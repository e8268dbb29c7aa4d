"""Goal: rows are on the wire what psycopg reads back as the same values, whatever they are, in either form.

Method: random columns of every type through the encoding of messages, read by pygwire and by psycopg's loaders.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import Format
from pygwire import BackendMessageDecoder, ConnectionPhase
from pygwire.messages import DataRow

from headrace.api.postgres import rows, types
from headrace.api.postgres.types import PostgresType
from headrace.api.postgres.values import parameter

DAYS = st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
KINDS: list[tuple[PostgresType, pa.DataType, st.SearchStrategy[Any]]] = [
    (types.BOOL, pa.bool_(), st.booleans()),
    (types.INT2, pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (types.INT4, pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (types.INT8, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (types.FLOAT4, pa.float32(), st.floats(width=32)),
    (types.FLOAT8, pa.float64(), st.floats()),
    (types.decimal(38, 9), pa.decimal128(38, 9), st.decimals(-(10**28), 10**28, places=9)),
    (types.TEXT, pa.string(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
    (types.DATE, pa.date32(), DAYS),
    (types.TIME, pa.time64("us"), st.times()),
    (types.TIMESTAMP, pa.timestamp("us"), MOMENTS),
    (types.TIMESTAMPTZ, pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC))),
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return bool(one == other)


def read(content: bytes) -> list[Any]:
    decoder = BackendMessageDecoder()
    decoder.phase = ConnectionPhase.SIMPLE_QUERY
    decoder.feed(content)
    found = list(decoder)
    assert all(isinstance(message, DataRow) for message in found) and not decoder.buffered
    return found


@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
@given(st.data())
def test_what_is_sent_is_what_is_read(form: int, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    count = data.draw(st.integers(0, 5))
    columns = [data.draw(st.lists(st.none() | values, min_size=count, max_size=count)) for _, _, values in chosen]
    arrays = [pa.array(column, arrow) for column, (_, arrow, _) in zip(columns, chosen, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(number) for number in range(len(arrays))])
    first = data.draw(st.integers(0, count))
    sent = rows.data_rows(batch.slice(first), [kind for kind, _, _ in chosen], [form] * len(chosen))
    found = read(sent)
    assert len(found) == count - first
    for row, message in enumerate(found, first):
        for column, (kind, _, _), cell in zip(arrays, chosen, message.columns, strict=True):
            wanted = column[row].as_py()
            value = None if cell is None else Transformer().get_loader(kind.oid, Format(form)).load(cell)
            if kind is types.FLOAT4 and value is not None:
                value = float(np.float32(value))  # the shortest text of so many bits
            assert same(value, wanted), (kind.name, cell)
            if cell is not None and kind not in (types.TEXT, types.FLOAT4):
                assert same(parameter(cell, kind.oid, form), wanted)


def test_a_number_without_an_end_is_spelled_as_postgresql_spells_it() -> None:
    numbers = pa.array([math.inf, -math.inf, math.nan, 1e15, 1e-5, 0.1, None, 1.0], pa.float64())
    batch = pa.RecordBatch.from_arrays([numbers], names=["n"])
    spelled = [row.columns[0] for row in read(rows.data_rows(batch, [types.FLOAT8], [0]))]
    assert spelled == [b"Infinity", b"-Infinity", b"NaN", b"1e+15", b"1e-05", b"0.1", None, b"1"]
