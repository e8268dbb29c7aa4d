"""PostgreSQL types <-> Spark SQL type text.

What Spark has no type for is carried as PostgreSQL's own text (``string``): nothing is lost, and a view can cast it.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from headrace.formats.types import arrow as arrow_types

NUMERIC_DEFAULT = "decimal(38,18)"  # numeric without a declared precision
DECIMAL_DIGITS_MAX = 38

# format_type() names without modifiers -> Spark; every other type is a string.
_TO_SPARK: dict[str, str] = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "oid": "bigint",
    "real": "float",
    "double precision": "double",
    "bytea": "binary",
    "date": "date",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
}
_SHORT_NAMES: dict[str, str] = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "decimal": "numeric",
    "timestamptz": "timestamp with time zone",
    "timestamp": "timestamp without time zone",
}
_FROM_SPARK: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp with time zone",
    pa.timestamp("us"): "timestamp without time zone",
    pa.duration("us"): "interval",
    arrow_types.YEAR_MONTH: "interval",
    pa.null(): "text",
}
_MODIFIER = re.compile(r"\(([-\d, ]+)\)")


@lru_cache(maxsize=4096)
def to_spark(pg_type: str) -> str:
    """The Spark SQL type of a PostgreSQL type as ``format_type()`` spells it, e.g. ``numeric(12,2)[]``.

    Short names (``int4``, ``timestamptz``) are known too. Resolve a domain to its base type first. Types without a
    counterpart (uuid, json, enums, inet, time, interval, ranges, numeric of more than 38 digits) are ``string``.
    """
    text = pg_type.strip()
    if text.endswith("[]"):
        return f"array<{to_spark(text[:-2])}>"
    modifier = _MODIFIER.search(text)
    name = re.sub(r" +", " ", _MODIFIER.sub("", text)).strip()
    name = _SHORT_NAMES.get(name, name)
    if name == "numeric":
        return _decimal(modifier[1]) if modifier else NUMERIC_DEFAULT
    return _TO_SPARK.get(name, "string")


def from_spark(type_text: str) -> str:
    """The PostgreSQL type that holds a Spark SQL type, e.g. ``array<decimal(12,2)>`` -> ``numeric(12,2)[]``.

    Maps, structs, and arrays of arrays, maps or structs are ``jsonb`` (PostgreSQL's arrays are rectangular).
    Raises ``HeadraceError`` (config.invalid) for a text that is no type.
    """
    return _name(arrow_types.to_arrow(type_text))


def _decimal(modifier: str) -> str:
    precision, _, scale_text = modifier.partition(",")
    scale = int(scale_text or 0)
    if scale < 0:  # numeric(5,-2) holds up to 7 digits, the last two zero
        digits, scale = int(precision) - scale, 0
    else:
        digits = max(int(precision), scale)  # numeric(3,5) holds 0.00999
    return f"decimal({digits},{scale})" if digits <= DECIMAL_DIGITS_MAX else "string"


def _name(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"numeric({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        element = arrow.value_type
        return "jsonb" if pa.types.is_nested(element) else f"{_name(element)}[]"
    return "jsonb" if pa.types.is_nested(arrow) and arrow not in _FROM_SPARK else _FROM_SPARK[arrow]
