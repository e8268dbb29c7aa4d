"""Narrow columns: a large run keeps each column in the narrowest form that holds its values, row by row.

Whole numbers and decimals as integers of the fewest bytes, text of few distinct values as places in a list of them:
after "frame of reference" and dictionaries of column stores, without blocks, so that any row is found as before. The
schema's metadata has the columns' own types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.rows import bitmap, validity

_FULL = b"headrace.full"  # in the metadata of a narrow schema: the schema that was narrowed, serialized
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_TEXT = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
_LOOKED_AT = 1 << 10  # values of a column of text by which it is judged
_FEW = 1 << 7  # distinct ones among these: as many as a place of one byte can tell apart
_TEXT_MAX = 1 << 30  # bytes: what is narrow must be one array when it is read


def narrowed(table: pa.Table, without: str) -> pa.Table:
    """The rows with narrow columns, for ``widened``; all but one, which stays what it is. Work: some passes."""
    full, table = _full(table), table.combine_chunks()
    arrays = [
        column if name == without or column.num_chunks != 1 else _narrow(column.chunk(0))
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return _marked(arrays, full)


def widened(table: pa.Table) -> pa.Table:
    """The rows with columns of their own types. ``table``: some rows and columns of what ``narrowed`` made, or any
    other, which is given back as it is. Work: follows the rows."""
    if not _is_narrow(table.schema):
        return table
    full = _full(table)
    return pa.Table.from_arrays([_as(column, full.field(n).type) for n, column in _named(table)], schema=full)


def alike(tables: Sequence[pa.Table], wide: str) -> tuple[list[pa.Table], pa.Schema]:
    """The tables, narrow if some of them are, and the schema of the narrowest columns in which all of them have room:
    for ``formed``. One column, ``wide``, has its own type. Of equal forms values are equal, their order is not asked
    for: so rows are compared and moved as they are stored."""
    if not any(_is_narrow(table.schema) for table in tables):
        return list(tables), tables[0].schema
    tables, full = [narrowed(table, wide) for table in tables], _full(tables[0])
    types = [
        field.type if field.name == wide else _common([t.schema.field(field.name).type for t in tables], field.type)
        for field in full
    ]
    return tables, _marked([pa.array([], t) for t in types], full).schema


def formed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Some rows of a table in the forms that ``alike`` found. Work: follows the rows."""
    arrays = [_as(column, schema.field(name).type) for name, column in _named(table)]
    return pa.Table.from_arrays(arrays, schema=schema)


def text_of_lists(table: pa.Table) -> int:
    """Bytes of the text for which places in a list stand, row by row. Work: a pass over the places."""
    listed = (chunk for column in table.columns if pa.types.is_dictionary(column.type) for chunk in column.chunks)
    return sum(pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in listed)


def _is_narrow(schema: pa.Schema) -> bool:
    return schema.metadata is not None and _FULL in schema.metadata


def _full(table: pa.Table) -> pa.Schema:
    """The schema of the table's columns as they are read; its own, where nothing is narrow."""
    schema = table.schema
    if not _is_narrow(schema):
        return schema
    full = _schema(schema.metadata[_FULL])
    return full if full.names == schema.names else pa.schema([full.field(n) for n in schema.names], full.metadata)


def _named(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    return zip(table.column_names, table.columns, strict=True)


def _marked(arrays: Sequence[pa.Array | pa.ChunkedArray], full: pa.Schema) -> pa.Table:
    """A table of these columns that says what they are read as, where some are narrow."""
    if all(array.type == field.type for array, field in zip(arrays, full, strict=True)):
        return pa.Table.from_arrays(arrays, schema=full)
    fields = [pa.field(field.name, array.type) for field, array in zip(full, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, {_FULL: full.serialize().to_pybytes()}))


def _common(types: Sequence[pa.DataType], full: pa.DataType) -> pa.DataType:
    if len(set(types)) == 1 and not pa.types.is_dictionary(types[0]):
        return types[0]
    return max(types, key=lambda t: t.bit_width) if all(t in _INTEGERS for t in types) else full


def _as(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if column.type == wanted:
        return column
    if column.num_chunks == 1:
        return _wide(column.chunk(0), wanted)
    return pa.chunked_array([_wide(chunk, wanted) for chunk in column.chunks], wanted)


@lru_cache(maxsize=256)
def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized))


def _narrow(array: pa.Array) -> pa.Array:
    arrow = array.type
    if pa.types.is_decimal128(arrow):
        numbers = _unscaled(array)
        return array if numbers is None else _fitting(numbers, array)
    if arrow in _INTEGERS or pa.types.is_date32(arrow):
        return _fitting(_numbers(array), array)
    if arrow in _TEXT:
        return _listed(array)
    return array


def _fitting(numbers: npt.NDArray[Any], array: pa.Array) -> pa.Array:
    """The numbers in the narrowest integers that hold them, NULL where the array is; what is there does not count."""
    defined = validity(array)
    counted = numbers if defined is None else numbers[defined]
    low, high = (int(counted.min()), int(counted.max())) if len(counted) else (0, 0)
    narrow = next(t for t in _INTEGERS if -(1 << (t.bit_width - 1)) <= low and high < 1 << (t.bit_width - 1))
    if narrow.bit_width >= array.type.bit_width:
        return array
    values = numbers.astype(narrow.to_pandas_dtype())
    return pa.Array.from_buffers(narrow, len(array), [bitmap(array), pa.py_buffer(values)])


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed width as signed integers; what is under NULL is undefined."""
    kind = np.dtype(f"i{array.type.bit_width // 8}")
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def _unscaled(array: pa.Array) -> npt.NDArray[np.int64] | None:
    """Decimals without their point, where 64 bits hold all of them."""
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low: npt.NDArray[np.int64] = words[:, 0]
    fits, defined = words[:, 1] == low >> 63, validity(array)
    return low if (fits if defined is None else fits | ~defined).all() else None


def _listed(array: pa.Array) -> pa.Array:
    """Text as places in the list of its distinct values, where these are few and that is less than half as long."""
    if len(array) == 0 or array.nbytes >= _TEXT_MAX:
        return array
    looked_at = np.unique(np.linspace(0, len(array) - 1, _LOOKED_AT).astype(np.int64))
    if pc.count_distinct(array.take(pa.array(looked_at))).as_py() > min(_FEW, len(looked_at) // 4):
        return array
    encoded = array.dictionary_encode()
    places = _fitting(_numbers(encoded.indices), encoded.indices)
    listed = pa.DictionaryArray.from_arrays(places, encoded.dictionary)
    return listed if 2 * listed.nbytes < array.nbytes else array


def _wide(array: pa.Array, full: pa.DataType) -> pa.Array:
    if array.type == full:
        return array
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_decimal128(full):
        values = np.empty((len(array), 2), np.int64)
        values[:, 0] = _numbers(array)
        np.right_shift(values[:, 0], 63, out=values[:, 1])
    else:
        values = _numbers(array).astype(f"i{full.bit_width // 8}")
    return pa.Array.from_buffers(full, len(array), [bitmap(array), pa.py_buffer(values)])
