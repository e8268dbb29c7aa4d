"""Parquet files -> Arrow columns; a cast is made only where no value can change by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from headrace.formats.json_rows import REFUSED_MAX, BadRow, BadValue, RowsRefused, refuse_nulls, row_error, too_many
from headrace.formats.json_tables import rows
from headrace.formats.types import decimals
from headrace.formats.types.arrow import from_arrow, schema, to_arrow
from headrace.formats.types.json import nearest, shown
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column


def read(path: Path, columns: Sequence[Column], name: str, refused: list[BadRow] | None = None) -> pa.Table:
    """All rows of a file, columns in the order asked for; a nullable column that the file does not have is null.

    ``HeadraceError``: source.row (where = ``name: row N``), source.file. With ``refused`` bad rows go there as JSON
    objects, at most ``REFUSED_MAX`` of them, and the others are read.
    """
    with _readable(name):
        table = parquet.ParquetFile(path).read()
    names = [column.name for column in columns]
    for found in table.column_names:
        if found not in names:
            raise HeadraceError("source.file", f"there is no column '{found}'", where=name, next=nearest(found, names))
    numbers, bad = np.arange(table.num_rows), list[BadRow]()
    while True:
        try:
            arrays = _columns(table, columns, name)
            break
        except RowsRefused as wrong:
            if refused is None:
                raise row_error(f"{name}: row {wrong.bad[0].row + 1}", wrong.bad[0].why) from None
            if len(bad) + len(wrong.bad) > REFUSED_MAX:
                raise too_many(f"{name}: row {numbers[wrong.bad[0].row] + 1}", wrong.bad[0].why) from None
            keep = np.ones(table.num_rows, bool)
            for value in wrong.bad:
                keep[value.row] = False
                bad.append(BadRow(int(numbers[value.row]) + 1, _json(table.slice(value.row, 1)), value.why))
            table, numbers = table.filter(pa.array(keep)), numbers[keep]
    if refused is not None:
        refused += sorted(bad, key=lambda row: row.number)
    return pa.Table.from_arrays(arrays, schema=schema(columns))


def _columns(table: pa.Table, columns: Sequence[Column], name: str) -> list[pa.ChunkedArray]:
    """The columns typed. Raises ``RowsRefused``."""
    arrays = []
    for column in columns:
        if column.name in table.column_names:
            arrays.append(_cast(table.column(column.name), column, name))
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, to_arrow(column.type))]))
    refuse_nulls(arrays, columns, [column.name for column in columns if not column.nullable])
    return arrays


def _json(row: pa.Table) -> bytes:
    (cells,) = rows(row)
    return orjson.dumps(dict(zip(row.column_names, cells, strict=True)))


def columns_of(path: Path, name: str) -> tuple[Column, ...]:
    """The file's columns, from its footer."""
    found = []
    with _readable(name):
        fields = parquet.ParquetFile(path).schema_arrow
    for field in fields:
        try:
            found.append(Column(field.name, from_arrow(field.type)))
        except HeadraceError as error:
            raise HeadraceError(
                "source.file", f"column '{field.name}': {error.what}", where=name, next="leave the column out"
            ) from None
    return tuple(found)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """What is wrong with the file is told; what the system refuses, which has a number then, passes as it is."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
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
        raise RowsRefused([BadValue(row, column.name, why)]) from None


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
        return types.is_list(target) and _widens_inside(found.value_type, target.value_type)
    if types.is_struct(found):
        return (
            types.is_struct(target)
            and [f.name for f in found] == [f.name for f in target]
            and all(_widens_inside(a.type, b.type) for a, b in zip(found, target, strict=True))
        )
    if types.is_map(found):
        return (
            types.is_map(target)
            and _widens_inside(found.key_type, target.key_type)
            and _widens_inside(found.item_type, target.item_type)
        )
    same = (types.is_boolean, types.is_decimal, types.is_date, types.is_timestamp, types.is_duration)
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    bytes_ = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    return (
        any(kind(found) and kind(target) for kind in same)
        or (any(kind(found) for kind in texts) and types.is_string(target))
        or (any(kind(found) for kind in bytes_) and types.is_binary(target))
    )


def _widens_inside(found: pa.DataType, target: pa.DataType) -> bool:
    """The same within a nested type, where decimals must have room for every value: none is looked at by itself."""
    if pa.types.is_decimal(found) and pa.types.is_decimal(target):
        return bool(target.precision - target.scale >= found.precision - found.scale)
    return _widens(found, target)


def _converted(array: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Times lose what is below a microsecond, as in Spark; a time without a zone is UTC."""
    if pa.types.is_decimal128(array.type):
        return decimals.rescaled(array, target)
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
