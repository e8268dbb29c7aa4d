"""MySQL and MariaDB types -> Spark SQL type text.

What Spark has no type for is carried as the server's own text (``string``): nothing is lost, and a view can cast it.
"""

from __future__ import annotations

import re
from functools import lru_cache

DECIMAL_DIGITS_MAX = 38  # MySQL has up to 65

_TO_SPARK: dict[str, tuple[str, str]] = {  # signed, unsigned
    "tinyint": ("tinyint", "smallint"),
    "smallint": ("smallint", "int"),
    "mediumint": ("int", "int"),
    "int": ("int", "bigint"),
    "bigint": ("bigint", "decimal(20,0)"),
    "float": ("float", "float"),
    "double": ("double", "double"),
}
_OTHERS: dict[str, str] = {
    "year": "smallint",
    "date": "date",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "binary"),
    **dict.fromkeys(
        ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"), "binary"
    ),
    **dict.fromkeys(("geometrycollection", "geomcollection"), "binary"),
}
_TYPE = re.compile(r"\s*([a-z0-9]+)\s*(?:\(([^)]*)\))?(.*)", re.DOTALL)


@lru_cache(maxsize=4096)
def to_spark(column_type: str) -> str:
    """The Spark SQL type of a column type as information_schema spells it, e.g. ``bigint(20) unsigned``.

    ``tinyint(1)`` is a number, as it may hold any; ``bit(1)`` is a boolean. Types without a counterpart (time, enum,
    set, json, uuid, inet6, decimals of more than 38 digits) are ``string``; geometries are ``binary``.
    """
    match = _TYPE.match(column_type.lower())
    if match is None:
        return "string"
    name, arguments, rest = match[1], match[2] or "", match[3]
    if name in _TO_SPARK:
        return _TO_SPARK[name]["unsigned" in rest]
    if name in ("decimal", "numeric"):
        precision, _, scale = (arguments or "10,0").partition(",")
        digits = int(precision)
        return f"decimal({digits},{int(scale or 0)})" if digits <= DECIMAL_DIGITS_MAX else "string"
    if name == "bit":
        bits = int(arguments or 1)
        return "boolean" if bits == 1 else "bigint" if bits < 64 else "decimal(20,0)"
    return _OTHERS.get(name, "string")
