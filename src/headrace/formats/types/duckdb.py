"""Spark SQL type text -> DuckDB types, and names as DuckDB quotes them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import arrow as arrow_types

_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.duration("us"): "INTERVAL",
    arrow_types.YEAR_MONTH: "INTERVAL",
    pa.null(): "VARCHAR",
}


@lru_cache(maxsize=4096)
def from_spark(type_text: str) -> str:
    """The DuckDB type that holds a Spark SQL type, e.g. ``array<decimal(12,2)>`` -> ``DECIMAL(12,2)[]``.

    Raises ``HeadraceError`` (config.invalid) for a text that is no type.
    """
    return _name(arrow_types.to_arrow(type_text))


@lru_cache(maxsize=4096)
def has_lookalikes(type_text: str) -> bool:
    """Whether values that compare equal may be told apart, at any depth: 0.0 and -0.0, or a month and 30 days."""
    return has_floats(type_text) or "interval" in type_text


@lru_cache(maxsize=4096)
def has_floats(type_text: str) -> bool:
    """Whether there is a float or double at any depth: values that compare equal may then differ (0.0 and -0.0)."""
    return _has_floats(arrow_types.to_arrow(type_text))


def intervals(column: pa.ChunkedArray) -> pa.Array:
    """Intervals of months (``YEAR_MONTH``) as the Arrow type that DuckDB takes for its own."""
    months = pc.struct_field(column.combine_chunks(), arrow_types.MONTHS)
    parts = np.zeros(len(months), [("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])
    parts["months"] = months.fill_null(0).to_numpy()
    given = pa.array(months.is_valid())
    valid = pa.array(np.packbits(given.to_numpy(zero_copy_only=False), bitorder="little")).buffers()[1]
    return pa.Array.from_buffers(pa.month_day_nano_interval(), len(months), [valid, pa.py_buffer(parts)])


def identifier(*names: str) -> str:
    """``"schema"."table"``; the driver has no means of its own to quote a name."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def compose(statement: str, **parts: str) -> str:
    """``statement`` with ``{name}`` replaced by SQL that is safe already: quoted identifiers, lists of them, types."""
    return statement.format_map(parts)


def _name(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"{_name(arrow.value_type)}[]"
    if pa.types.is_map(arrow):
        return f"MAP({_name(arrow.key_type)}, {_name(arrow.item_type)})"
    if pa.types.is_struct(arrow) and arrow not in _NAMES:
        fields = (arrow.field(i) for i in range(arrow.num_fields))
        return f"STRUCT({', '.join(f'{identifier(field.name)} {_name(field.type)}' for field in fields)})"
    return _NAMES[arrow]


def _has_floats(arrow: pa.DataType) -> bool:
    children = (arrow.field(i).type for i in range(arrow.num_fields))
    return pa.types.is_floating(arrow) or any(_has_floats(child) for child in children)
