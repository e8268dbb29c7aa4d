"""Goal: columns become text that every server reads, in chunks of bounded size. Method: the text, written out by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.sinks.connectors.postgres import encode


def test_a_span_of_time_is_hours_minutes_and_seconds() -> None:
    """Servers before 15 read no number of microseconds that has more than 32 bits."""
    numbers = [0, 1, -1, 3_723_000_004, -86_400_000_000, 2**63 - 1, -(2**63) + 1, None]
    assert encode.texts(pa.array(numbers, pa.duration("us"))).to_pylist() == [
        "0:00:00.000000",
        "0:00:00.000001",
        "-0:00:00.000001",
        "1:02:03.000004",
        "-24:00:00.000000",
        "2562047788:00:54.775807",
        "-2562047788:00:54.775807",
        None,
    ]
    several = pa.array([[1, None], None], pa.list_(pa.duration("us")))
    assert encode.texts(several).to_pylist() == ['{"0:00:00.000001",NULL}', None]
    inside = pa.array([{"t": 5}, {"t": None}], pa.struct([("t", pa.duration("us"))]))  # as JSON it is what it was
    assert encode.texts(inside).to_pylist() == ['{"t":"5 microseconds"}', '{"t":null}']


def test_chunks_are_bounded_in_bytes_and_hold_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"id": pa.array(range(10)), "content": pa.array([b"x" * 1000] * 10)})
    (whole,) = encode.csv_chunks(rows)
    for most, fitting in ((3000, 2), (10, 1)):  # a row that is too large goes alone
        monkeypatch.setattr(encode, "CHUNK_BYTES", most)
        chunks = list(encode.csv_chunks(rows))
        assert b"".join(chunks) == whole
        assert max(chunk.count(b"\n") for chunk in chunks) == fitting
