"""Rows as the bytes of their messages, a batch at once: DataRow for a result, CopyData for COPY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.api.postgres.types import PostgresType
from headrace.api.postgres.values import Numbers, Values, encoded, of_texts, texts

DATA_ROW, COPY_DATA = b"D", b"d"
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # of COPY's binary format: no flags, no extension
COPY_END = b"\xff\xff"
_LENGTH, _COUNT = 4, 2  # bytes of a length, of a count of columns
_LONG = 64  # bytes from which on values are copied one by one: to do it at once takes 24 more for each

Bytes = npt.NDArray[np.uint8]


def data_rows(
    batch: pa.RecordBatch, kinds: Sequence[PostgresType], forms: Sequence[int], tag: bytes = DATA_ROW
) -> bytes:
    """A message for each row; ``tag`` COPY_DATA for rows of COPY's binary format, which look the same."""
    columns = [encoded(batch.column(i), kind, form) for i, (kind, form) in enumerate(zip(kinds, forms, strict=True))]
    sizes = np.full(batch.num_rows, _COUNT + _LENGTH * len(columns), np.int64)
    for column in columns:
        sizes += column.lengths
    out, at = _framed(tag, sizes)
    _put(out, at, np.full(batch.num_rows, len(columns), ">i2"))
    at = at + _COUNT
    for column in columns:
        _put(out, at, np.where(column.null, -1, column.lengths).astype(">i4"))
        _scatter(out, at + _LENGTH, column)
        at = at + _LENGTH + column.lengths
    return out.tobytes()


def headed(messages: bytes) -> bytes:
    """CopyData of the binary format, its head before the first row: clients look for both in one message."""
    size = int.from_bytes(messages[1 : 1 + _LENGTH]) + len(COPY_HEAD)
    return COPY_DATA + size.to_bytes(_LENGTH) + COPY_HEAD + messages[1 + _LENGTH :]


def copy_lines(lines: pa.Array) -> bytes:
    """A CopyData message for each line, a string with its newline."""
    content = of_texts(lines)
    out, at = _framed(COPY_DATA, content.lengths)
    _scatter(out, at, content)
    return out.tobytes()


def text_lines(batch: pa.RecordBatch, kinds: Sequence[PostgresType], delimiter: str, null: str) -> pa.Array:
    """Rows in COPY's text format."""
    cells = []
    for column, kind in zip(batch.columns, kinds, strict=True):
        strings = texts(column, kind)
        for character, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b"),
                                   ("\f", "\\f"), ("\v", "\\v")):  # fmt: skip
            strings = pc.replace_substring(strings, character, escaped)
        if delimiter != "\t":
            strings = pc.replace_substring(strings, delimiter, "\\" + delimiter)
        cells.append(pc.fill_null(strings, null))
    return _lines(cells, batch.num_rows, delimiter)


def csv_lines(batch: pa.RecordBatch, kinds: Sequence[PostgresType], delimiter: str, null: str) -> pa.Array:
    """Rows in COPY's CSV format."""
    cells = []
    for column, kind in zip(batch.columns, kinds, strict=True):
        strings = texts(column, kind)
        special = pc.match_substring_regex(strings, f'["\\n\\r{_in_class(delimiter)}]|^\\\\\\.$')
        special = pc.or_(special, pc.equal(strings, null))  # quoted, it is not taken for NULL
        quoted = pc.binary_join_element_wise('"', pc.replace_substring(strings, '"', '""'), '"', "")
        cells.append(pc.fill_null(pc.if_else(special, quoted, strings), null))
    return _lines(cells, batch.num_rows, delimiter)


def _in_class(character: str) -> str:
    return "\\" + character if character in "\\]^-" else character


def _lines(cells: list[Any], count: int, delimiter: str) -> pa.Array:
    if not cells:
        return pa.array(["\n"] * count)
    joined = pc.binary_join_element_wise(*cells, delimiter) if len(cells) > 1 else cells[0]
    return pc.binary_join_element_wise(joined, "\n", "")


def _framed(tag: bytes, sizes: Numbers) -> tuple[Bytes, Numbers]:
    """Room for messages of these sizes, their heads written; where the body of each begins."""
    totals = sizes + 1 + _LENGTH
    ends = np.cumsum(totals)
    starts = ends - totals
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    out[starts] = tag[0]
    _put(out, starts + 1, (sizes + _LENGTH).astype(">i4"))
    return out, starts + 1 + _LENGTH


def _put(out: Bytes, at: Numbers, numbers: npt.NDArray[Any]) -> None:
    """Numbers of a fixed width, each at its place."""
    width = numbers.dtype.itemsize
    cells = numbers.view(np.uint8).reshape(len(numbers), width)
    for byte in range(width):
        out[at + byte] = cells[:, byte]


def _scatter(out: Bytes, at: Numbers, column: Values) -> None:
    """The values of a column, each at its place."""
    lengths = column.lengths
    widest = int(lengths.max()) if len(lengths) else 0
    if not widest:
        return
    if lengths.sum() > _LONG * len(lengths):
        for place, start, length in zip(at.tolist(), column.starts.tolist(), lengths.tolist(), strict=True):
            out[place : place + length] = column.bytes[start : start + length]
        return
    if (lengths == widest).all():
        for byte in range(widest):
            out[at + byte] = column.bytes[column.starts + byte]
        return
    total = np.cumsum(lengths)
    step = np.arange(int(total[-1])) - np.repeat(total - lengths, lengths)
    out[np.repeat(at, lengths) + step] = column.bytes[np.repeat(column.starts, lengths) + step]
