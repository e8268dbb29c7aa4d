"""DuckDB's types as PostgreSQL knows them: object ids, sizes, names, and the SQL that gives their text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duckdb.sqltypes import DuckDBPyType

from headrace.formats.types import postgres as postgres_types
from headrace.sql.lexer import Token

VARIABLE = -1  # the size of a type whose values differ in length
_NUMERIC_HEAD = 4  # PostgreSQL's type modifiers count the four bytes of a value's head


@dataclass(frozen=True, slots=True)
class PostgresType:
    """``name`` as ``format_type()`` spells it; ``short`` in ``pg_type``; ``size`` in bytes or ``VARIABLE``.

    ``element`` is the type of an array's elements. ``text``: SQL that makes PostgreSQL's text of a value ``{}`` where
    that of Arrow is not it, else "". ``modifier`` is the ``atttypmod``, -1 for none.
    """

    oid: int
    short: str
    name: str
    size: int
    array_oid: int
    category: str
    modifier: int = -1
    text: str = ""
    element: PostgresType | None = None


BOOL = PostgresType(16, "bool", "boolean", 1, 1000, "B")
BYTEA = PostgresType(17, "bytea", "bytea", VARIABLE, 1001, "U", text="'\\x' || lower(hex({}))")
INT8 = PostgresType(20, "int8", "bigint", 8, 1016, "N")
INT2 = PostgresType(21, "int2", "smallint", 2, 1005, "N")
INT4 = PostgresType(23, "int4", "integer", 4, 1007, "N")
TEXT = PostgresType(25, "text", "text", VARIABLE, 1009, "S")
JSON = PostgresType(114, "json", "json", VARIABLE, 199, "U")
FLOAT4 = PostgresType(700, "float4", "real", 4, 1021, "N")
FLOAT8 = PostgresType(701, "float8", "double precision", 8, 1022, "N")
DATE = PostgresType(1082, "date", "date", 4, 1182, "D")
TIME = PostgresType(1083, "time", "time without time zone", 8, 1183, "D")
TIMESTAMP = PostgresType(1114, "timestamp", "timestamp without time zone", 8, 1115, "D")
TIMESTAMPTZ = PostgresType(1184, "timestamptz", "timestamp with time zone", 8, 1185, "D")
INTERVAL = PostgresType(
    1186, "interval", "interval", 16, 1187, "T", text="replace(CAST({} AS VARCHAR), 'month', 'mon')"
)
NUMERIC = PostgresType(1700, "numeric", "numeric", VARIABLE, 1231, "N")
UUID = PostgresType(2950, "uuid", "uuid", 16, 2951, "U")
JSONB = PostgresType(3802, "jsonb", "jsonb", VARIABLE, 3807, "U", text="CAST(to_json({}) AS VARCHAR)")
_OTHER = replace(TEXT, text="CAST({} AS VARCHAR)")

SCALARS = (
    BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON, FLOAT4, FLOAT8, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC,
    UUID, JSONB,
)  # fmt: skip
INT2VECTOR = PostgresType(
    22, "int2vector", "int2vector", VARIABLE, 0, "A", text="array_to_string({}, ' ')", element=INT2
)
OID = PostgresType(26, "oid", "oid", 4, 1028, "N")
# Known to clients by their ids; no column of a view has them.
NAMES = (
    INT2VECTOR, PostgresType(18, "char", '"char"', 1, 1002, "Z"), PostgresType(19, "name", "name", 64, 1003, "S"),
    OID, PostgresType(705, "unknown", "unknown", -2, 0, "X"),
    PostgresType(1042, "bpchar", "character", VARIABLE, 1014, "S"),
    PostgresType(1043, "varchar", "character varying", VARIABLE, 1015, "S"),
    PostgresType(2205, "regclass", "regclass", 4, 2210, "N"), PostgresType(2206, "regtype", "regtype", 4, 2211, "N"),
)  # fmt: skip
_BY_DUCKDB = {
    "boolean": BOOL, "tinyint": INT2, "smallint": INT2, "integer": INT4, "bigint": INT8, "utinyint": INT2,
    "usmallint": INT4, "uinteger": INT8, "ubigint": NUMERIC, "hugeint": NUMERIC, "uhugeint": NUMERIC,
    "float": FLOAT4, "double": FLOAT8, "varchar": TEXT, "blob": BYTEA, "date": DATE, "time": TIME,
    "timestamp": TIMESTAMP, "timestamp_s": TIMESTAMP, "timestamp_ms": TIMESTAMP, "timestamp_ns": TIMESTAMP,
    "timestamp with time zone": TIMESTAMPTZ, "interval": INTERVAL, "uuid": UUID, "sqlnull": TEXT, '"null"': TEXT,
    "struct": JSONB, "map": JSONB, "tuple": JSONB,
}  # fmt: skip
_OF_OBJECTS = re.compile(r"\w*(oid|relid|typid|namespace|owner)|typ(array|elem|basetype|relid)")
_BY_NAME = {each.name: each for each in (*SCALARS, *NAMES)}
# What DuckDB calls a type that a client declares for a parameter; text needs no cast.
DECLARED = {
    16: "BOOLEAN", 17: "BLOB", 20: "BIGINT", 21: "SMALLINT", 23: "INTEGER", 26: "BIGINT", 700: "FLOAT", 701: "DOUBLE",
    1082: "DATE", 1083: "TIME", 1114: "TIMESTAMP", 1184: "TIMESTAMP WITH TIME ZONE", 1186: "INTERVAL", 2950: "UUID",
    1000: "BOOLEAN[]", 1005: "SMALLINT[]", 1007: "INTEGER[]", 1016: "BIGINT[]", 1009: "VARCHAR[]", 1015: "VARCHAR[]",
    1021: "FLOAT[]", 1022: "DOUBLE[]", 1182: "DATE[]", 1115: "TIMESTAMP[]", 1185: "TIMESTAMP WITH TIME ZONE[]",
    2951: "UUID[]", 1028: "BIGINT[]",
}  # fmt: skip
# Text of array elements: quoted where PostgreSQL quotes.
_ELEMENT = (
    "CASE WHEN {0} IS NULL THEN 'NULL' WHEN {0} = '' OR lower({0}) = 'null' OR regexp_matches({0}, '[{{}}\",\\\\\\s]') "
    "THEN '\"' || replace(replace({0}, '\\', '\\\\'), '\"', '\\\"') || '\"' ELSE {0} END"
)


def of_duckdb(kind: DuckDBPyType) -> PostgresType:
    """The type of a result's column; nested ones but arrays of scalars are ``jsonb``, unknown ones ``text``."""
    if kind.id == "decimal":
        return decimal(*(int(value) for _, value in kind.children))
    if kind.id in ("list", "array"):
        return array(of_duckdb(kind.children[0][1]))
    if str(kind) == "JSON":
        return JSON
    return _BY_DUCKDB.get(kind.id, _BY_DUCKDB.get(str(kind).lower(), _OTHER))


def of_catalogue(kind: PostgresType, name: str) -> PostgresType:
    """The type of a column of the catalogue: its long numbers are those of objects, which drivers read otherwise than
    other ones, and the columns of an index are written without braces."""
    if kind == INT8 and _OF_OBJECTS.fullmatch(name):
        return OID
    if kind.element == INT2 and name in ("indkey", "indoption"):
        return INT2VECTOR
    return array(OID) if kind.element == INT8 else kind


def of_spark(type_text: str) -> PostgresType:
    """The type of a view's or table's column, as a SELECT of it gives it."""
    name = postgres_types.from_spark(type_text)
    if name.endswith("[]"):
        return array(_named(name[:-2]))
    return _named(name)


def decimal(precision: int, scale: int) -> PostgresType:
    return replace(NUMERIC, name=f"numeric({precision},{scale})", modifier=(precision << 16 | scale) + _NUMERIC_HEAD)


def array(element: PostgresType) -> PostgresType:
    if element.element is not None or element.short == "jsonb":
        return JSONB  # PostgreSQL's arrays are rectangular
    part = element_text(element)
    text = f"'{{{{' || array_to_string(list_transform({{}}, lambda e: {part}), ',') || '}}}}'"
    return PostgresType(
        element.array_oid, f"_{element.short}", f"{element.name}[]", VARIABLE, 0, "A", element.modifier, text, element
    )


def element_text(element: PostgresType) -> str:
    """SQL for the text of an array's element ``e``, within a template that is formatted once more."""
    if element.category == "N":
        plain = "coalesce(CAST(e AS VARCHAR), 'NULL')"
    elif element.short == "bool":
        plain = "CASE WHEN e THEN 't' WHEN NOT e THEN 'f' ELSE 'NULL' END"
    else:
        inner = (element.text or "CAST({} AS VARCHAR)").format("e")
        plain = _ELEMENT.format(f"({inner})")
    return plain.replace("{", "{{").replace("}", "}}")


def _named(name: str) -> PostgresType:
    if name.startswith("numeric("):
        return decimal(*(int(part) for part in name[8:-1].split(",")))
    return _BY_NAME[name]


def declared_in(tokens: Sequence[Token], given: Sequence[int]) -> list[int]:
    """The type of each parameter: the client's, else that of a cast (``$1::int``, ``CAST($1 AS int)``), else 0."""
    names = [token.name for token in tokens if token.kind != "space"]
    found = dict(enumerate(given, 1))
    for place, token in enumerate(token for token in tokens if token.kind != "space"):
        if token.kind != "parameter":
            continue
        number = int(token.text[1:])
        found.setdefault(number, 0)
        cast = names[place + 1 : place + 6]
        if cast[1:3] == ["pg_catalog", "."]:
            del cast[1:3]
        begins = "as" if names[max(place - 2, 0) : place] == ["cast", "("] else "::"
        if not found[number] and cast[:1] == [begins] and len(cast) > 1:
            named = TIMESTAMPTZ if cast[1:4] == ["timestamp", "with", "time"] else _CAST_TYPES.get(cast[1])
            found[number] = 0 if named is None else named.array_oid if cast[2:3] == ["["] else named.oid
    return [found.get(number, 0) for number in range(1, max(found, default=0) + 1)]


_CAST_TYPES = {name: each for each in (*NAMES, *SCALARS) for name in (each.short, each.name.split("(")[0])} | {
    "int": INT4, "timestamp": TIMESTAMP, "timestamptz": TIMESTAMPTZ, "varchar": TEXT, "double": FLOAT8,
}  # fmt: skip
