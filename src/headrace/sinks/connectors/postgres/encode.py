"""Arrow columns -> the text that PostgreSQL reads, a column at a time.

Scalars print as Arrow prints them, which PostgreSQL reads without loss; binary is ``\\x`` and hex digits, an array of
scalars is PostgreSQL's own ``{1,NULL,"a"}``, everything deeper is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.formats.types.arrow import MONTHS, YEAR_MONTH

CHUNK_ROWS = 65_536
CHUNK_BYTES = 64 << 20  # of columns: what is printed of them stays far below the 2 GiB that an array of text may have
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)
_CONTROL = "[\x00-\x1f]"
_PRINTED_BY_CSV = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def csv_chunks(table: pa.Table) -> Iterator[bytes]:
    """CSV without header: NULL is nothing at all, text always stands in quotes."""
    options = csv.WriteOptions(include_header=False, batch_size=CHUNK_ROWS)
    for part in _parts(table):
        columns = [
            column if any(printed(column.type) for printed in _PRINTED_BY_CSV) else texts(column)
            for column in (whole(part.column(i)) for i in range(part.num_columns))
        ]
        out = pa.BufferOutputStream()
        csv.write_csv(pa.table(columns, names=[str(i) for i in range(len(columns))]), out, options)
        yield out.getvalue().to_pybytes()


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """At most ``CHUNK_ROWS`` and ``CHUNK_BYTES`` each; but a single row is never cut."""
    start = 0
    while start < table.num_rows:
        part = table.slice(start, CHUNK_ROWS)
        while part.nbytes > CHUNK_BYTES and part.num_rows > 1:
            part = part.slice(0, part.num_rows // 2)
        yield part
        start += part.num_rows


def whole(column: pa.ChunkedArray) -> pa.Array:
    """One array without an offset into shared buffers."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # an empty column, and Arrow before version 17
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array.take(pa.array(np.arange(len(array)))) if array.offset else array


def texts(array: pa.Array) -> pa.Array:
    """Every value as PostgreSQL's input functions read it; NULL stays NULL."""
    kind = array.type
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_binary(kind):
        return _hex(array)
    if pa.types.is_duration(kind):
        return _clock(array)
    if kind == YEAR_MONTH:
        months = pc.struct_field(array, MONTHS).cast(pa.string())  # null where the whole is
        return pc.binary_join_element_wise(months, pa.scalar(" months"), "")
    if pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        escaped = _escaped(texts(array.flatten()))
        return _joined(array, _wrapped(escaped, '"', '"').fill_null("NULL"), "{", "}")
    if pa.types.is_nested(kind):
        return pc.if_else(array.is_null(), pa.scalar(None, pa.string()), json_texts(array))
    return array.cast(pa.string())


def json_texts(array: pa.Array) -> pa.Array:
    """Every value as JSON; NULL is ``null``. Decimals keep their digits, NaN and the infinities are strings."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _object(array)
    if pa.types.is_map(kind):
        return _map(array)
    if pa.types.is_list(kind):
        text = _joined(array, json_texts(array.flatten()), "[", "]")
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        text = array.cast(pa.string())
    elif pa.types.is_floating(kind):
        text = pc.if_else(pc.is_finite(array), array.cast(pa.string()), _wrapped(_special(array), '"', '"'))
    elif pa.types.is_timestamp(kind):
        text = _wrapped(_replace(array.cast(pa.string()), " ", "T"), '"', '"')
    elif pa.types.is_duration(kind):
        text = _wrapped(array.cast(pa.int64()).cast(pa.string()), '"', ' microseconds"')
    else:
        text = _quoted(texts(array))
    return text.fill_null("null")


def _object(array: pa.StructArray) -> pa.Array:
    fields = [
        pc.binary_join_element_wise(pa.scalar(json.dumps(array.type.field(i).name) + ":"), json_texts(column), "")
        for i, column in enumerate(array.flatten())
    ]
    body = pc.binary_join_element_wise(*fields, ",") if fields else pa.array([""] * len(array), pa.string())
    return pc.if_else(array.is_null(), pa.scalar("null"), _wrapped(body, "{", "}"))


def _map(array: pa.MapArray) -> pa.Array:
    entries = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("item", array.type.item_type)])))
    keys, items = entries.flatten().flatten()
    names = json_texts(keys)
    if not pa.types.is_string(keys.type):  # JSON knows only strings as names
        names = pc.if_else(pc.starts_with(names, '"'), names, _quoted(names))
    return _joined(entries, pc.binary_join_element_wise(names, json_texts(items), ":"), "{", "}").fill_null("null")


def _joined(lists: pa.ListArray, elements: pa.Array, before: str, after: str) -> pa.Array:
    """The elements of each list, joined by commas, between two marks; a NULL list stays NULL."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    text = _wrapped(pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ","), before, after)
    return pc.if_else(lists.is_null(), pa.scalar(None, pa.string()), text)


def _quoted(array: pa.Array) -> pa.Array:
    """JSON strings."""
    text = _escaped(array)
    if pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        for code in range(0x20):
            text = _replace(text, chr(code), f"\\u{code:04x}")
    return _wrapped(text, '"', '"')


def _clock(array: pa.Array) -> pa.Array:
    """``-1:02:03.000004``: servers before 15 read no number of microseconds that has more than 32 bits."""
    count = array.cast(pa.int64()).fill_null(0).to_numpy()
    seconds, micros = np.divmod(np.abs(count).view(np.uint64), 1_000_000)  # unsigned: the least number has no opposite
    minutes, second = np.divmod(seconds, 60)
    hours, minute = np.divmod(minutes, 60)
    hour, *rest = (pa.array(part).cast(pa.string()) for part in (hours, minute, second, micros))
    padded = [pc.ascii_lpad(text, width, "0") for text, width in zip(rest, (2, 2, 6), strict=True)]
    clock = pc.binary_join_element_wise(hour, *padded[:2], ":")
    sign = pc.if_else(pa.array(count < 0), "-", "")
    text = pc.binary_join_element_wise(sign, clock, pa.scalar("."), padded[2], "")
    return pc.if_else(array.is_null(), pa.scalar(None, pa.string()), text)


def _special(array: pa.Array) -> pa.Array:
    names = pc.if_else(pc.is_nan(array), "NaN", pc.if_else(pc.less(array, 0), "-Infinity", "Infinity"))
    return names.cast(pa.string())


def _hex(array: pa.Array) -> pa.Array:
    """``\\x`` and two digits a byte."""
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    row = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), pc.fill_null(array, b""))
    digits = _HEX[np.frombuffer(pc.binary_join(row, b"")[0].as_py(), dtype=np.uint8)].tobytes()
    offsets = np.concatenate([[0], np.cumsum(lengths * 2)]).astype(np.int32)
    text = pa.StringArray.from_buffers(len(array), pa.py_buffer(offsets.tobytes()), pa.py_buffer(digits))
    return pc.if_else(array.is_null(), pa.scalar(None, pa.string()), _wrapped(text, "\\x", ""))


def _escaped(array: pa.Array) -> pa.Array:
    return _replace(_replace(array, "\\", "\\\\"), '"', '\\"')


def _wrapped(array: pa.Array, before: str, after: str) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(before), array, pa.scalar(after), "")


def _replace(array: pa.Array, pattern: str, replacement: str) -> pa.Array:
    return pc.replace_substring(array, pattern, replacement)
