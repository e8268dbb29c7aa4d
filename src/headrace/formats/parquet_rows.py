"""Parquet files -> Arrow columns; a cast is made only where no value can change by it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from headrace.formats.json_rows import RowsRefused, refuse_nulls, row_error
from headrace.formats.types.arrow import from_arrow, schema, to_arrow
from headrace.formats.types.json import nearest, shown
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column


def read(path: Path, columns: Sequence[Column], name: str) -> pa.Table:
    """All rows of a file, columns in the order asked for; a nullable column that the file does not have is null.

    ``HeadraceError``: source.row (where = ``name: row N``), source.file.
    """
    table = _open(path, name).read()
    names = [column.name for column in columns]
    for found in table.column_names:
        if found not in names:
            raise HeadraceError("source.file", f"there is no column '{found}'", where=name, next=nearest(found, names))
    arrays = []
    for column in columns:
        if column.name in table.column_names:
            arrays.append(_cast(table.column(column.name), column, name))
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, to_arrow(column.type))]))
    try:
        refuse_nulls(arrays, columns, [column.name for column in columns if not column.nullable])
    except RowsRefused as refused:
        raise row_error(f"{name}: row {refused.bad[0].row + 1}", refused.bad[0].why) from None
    return pa.Table.from_arrays(arrays, schema=schema(columns))


def columns_of(path: Path, name: str) -> tuple[Column, ...]:
    """The file's columns, from its footer."""
    found = []
    for field in _open(path, name).schema_arrow:
        try:
            found.append(Column(field.name, from_arrow(field.type)))
        except HeadraceError as error:
            raise HeadraceError(
                "source.file", f"column '{field.name}': {error.what}", where=name, next="leave the column out"
            ) from None
    return tuple(found)


def _open(path: Path, name: str) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise HeadraceError(
            "source.file", "the file is not readable as Parquet", where=name, why=str(error), next="write it again"
        ) from None


def _cast(array: pa.ChunkedArray, column: Column, name: str) -> pa.ChunkedArray:
    target = to_arrow(column.type)
    if array.type == target:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not _widens(array.type, target):
        raise HeadraceError(
            "source.file",
            f"column '{column.name}' is {from_arrow(array.type)} in the file and {column.type} in the table",
            where=name,
            next="write the file with the table's type",
        )
    try:
        return _converted(array, target)
    except pa.ArrowInvalid as error:
        row = _first_bad(array, target)
        why = f"column '{column.name}' ({column.type}) cannot hold {shown(array[row].as_py())}: {error}"
        raise row_error(f"{name}: row {row + 1}", why) from None


def _widens(found: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast keeps the meaning of every value that it accepts."""
    types = pa.types
    if types.is_null(found):
        return True
    if types.is_integer(found):
        return bool(types.is_integer(target) or types.is_decimal(target) or target == pa.float64())
    if types.is_floating(found):
        return bool(types.is_floating(target) and found.bit_width <= target.bit_width)
    if types.is_list(found) or types.is_large_list(found):
        return types.is_list(target) and _widens(found.value_type, target.value_type)
    if types.is_struct(found):
        return (
            types.is_struct(target)
            and [f.name for f in found] == [f.name for f in target]
            and all(_widens(a.type, b.type) for a, b in zip(found, target, strict=True))
        )
    if types.is_map(found):
        return (
            types.is_map(target)
            and _widens(found.key_type, target.key_type)
            and _widens(found.item_type, target.item_type)
        )
    same = (types.is_boolean, types.is_decimal, types.is_date, types.is_timestamp, types.is_duration)
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    bytes_ = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    return (
        any(kind(found) and kind(target) for kind in same)
        or (any(kind(found) for kind in texts) and types.is_string(target))
        or (any(kind(found) for kind in bytes_) and types.is_binary(target))
    )


def _converted(array: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Times lose what is below a microsecond, as in Spark; a time without a zone is UTC."""
    if pa.types.is_integer(array.type) and pa.types.is_decimal(target):
        array = array.cast(pa.decimal128(38, target.scale))  # Arrow wants room for every integer; the next cast checks
    return pc.cast(array, options=pc.CastOptions(target_type=target, allow_time_truncate=True))


def _first_bad(array: pa.ChunkedArray, target: pa.DataType) -> int:
    """The first row that cannot be converted, by halving: rows before ``good`` convert, those before ``bad`` do not."""
    good, bad = 0, len(array)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _converted(array.slice(good, middle - good), target)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good
