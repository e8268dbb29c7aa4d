"""Spark SQL type text <-> Arrow types, as Spark's own Arrow exchange maps them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache, partial

import pyarrow as pa

from headrace.model.errors import HeadraceError
from headrace.model.schema import Column

MONTHS, DAYS, MICROSECONDS = "_months", "_days", "_microseconds"
# Arrow's own interval type has neither an order nor equality, so that intervals with months are structs.
YEAR_MONTH = pa.struct([(MONTHS, pa.int32())])
CALENDAR = pa.struct([(MONTHS, pa.int32()), (DAYS, pa.int32()), (MICROSECONDS, pa.int64())])
_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
    "void": pa.null(),
}
_INTERVALS = {YEAR_MONTH: "interval year to month", CALENDAR: "interval"}
_NAMES = {arrow: name for name, arrow in _PRIMITIVES.items()}
_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "decimal": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "timestamp_ltz": "timestamp",
    "text": "string",
}
_FIELDS = re.compile(r"\s+(year|month|day|hour|minute|second)(?:\s+to\s+(?:month|hour|minute|second))?\b", re.I)
_WORD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_]*))")


@lru_cache(maxsize=4096)
def to_arrow(type_text: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type, e.g. ``decimal(12,2)`` -> ``decimal128(12, 2)``.

    Raises ``HeadraceError`` (config.invalid) for a type that cannot be carried.
    """
    parser = _Parser(type_text)
    arrow = parser.type()
    parser.end()
    return arrow


def from_arrow(arrow: pa.DataType, *, exchanged: bool = False) -> str:
    """The Spark SQL type text of an Arrow type; timestamps with any zone are ``timestamp``.

    ``exchanged``: as Spark's own Arrow exchange names it, in which intervals with months are plain structs.
    """
    if arrow in _NAMES:
        return _NAMES[arrow]
    if not exchanged and arrow in _INTERVALS:
        return _INTERVALS[arrow]
    part = partial(from_arrow, exchanged=exchanged)
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return "string"
    if pa.types.is_large_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        return "binary"
    if pa.types.is_dictionary(arrow):
        return part(arrow.value_type)
    if pa.types.is_duration(arrow):
        return "interval day to second"
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return f"array<{part(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{part(arrow.key_type)},{part(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        fields = (arrow.field(i) for i in range(arrow.num_fields))
        return f"struct<{','.join(f'{quote(f.name)}:{part(f.type)}' for f in fields)}>"
    unsigned = {pa.uint8(): "smallint", pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "decimal(20,0)"}
    if arrow in unsigned:
        return unsigned[arrow]
    raise HeadraceError("config.invalid", f"the Arrow type {arrow} has no Spark SQL type")


def quote(name: str) -> str:
    """A column name as Spark's DDL wants it: bare when it is a plain word, else in backquotes."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of some columns; every field is nullable, as deletes carry keys alone."""
    return pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])


class _Parser:
    """Recursive descent over the type text; Spark's spelling, case-insensitive."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def type(self) -> pa.DataType:
        word = self.word().lower()
        if word == "interval":
            fields = _FIELDS.match(self.text, self.at)
            if fields is None:
                return CALENDAR
            self.at = fields.end()
            return YEAR_MONTH if fields[1].lower() in ("year", "month") else pa.duration("us")
        if word in ("decimal", "numeric") and self.take("("):
            precision = int(self.number())
            scale = int(self.number()) if self.take(",") else 0
            self.need(")")
            return pa.decimal128(precision, scale)
        if word in ("varchar", "char") and self.take("("):
            self.number()
            self.need(")")
            return pa.string()
        if word == "array":
            self.need("<")
            inner = self.type()
            self.need(">")
            return pa.list_(inner)
        if word == "map":
            self.need("<")
            key = self.type()
            self.need(",")
            value = self.type()
            self.need(">")
            return pa.map_(key, value)
        if word == "struct":
            return self.struct()
        word = _ALIASES.get(word, word)
        if word.startswith("decimal"):
            return pa.decimal128(10, 0)
        if word not in _PRIMITIVES:
            self.fail(f"'{word}' is not a type of Spark SQL that can be carried")
        return _PRIMITIVES[word]

    def struct(self) -> pa.DataType:
        self.need("<")
        fields = []
        while not self.take(">"):
            name = self.word()
            self.take(":")
            fields.append(pa.field(name, self.type()))
            self.take(",")
        return pa.struct(fields)

    def word(self) -> str:
        match = _WORD.match(self.text, self.at)
        if match is None:
            self.fail("a name is missing")
            raise AssertionError  # fail() always raises; this tells the type checker so
        self.at = match.end()
        return match[1].replace("``", "`") if match[1] else match[2]

    def number(self) -> str:
        match = re.compile(r"\s*(\d+)").match(self.text, self.at)
        if match is None:
            self.fail("a number is missing")
            raise AssertionError
        self.at = match.end()
        return match[1]

    def take(self, mark: str) -> bool:
        match = re.compile(r"\s*" + re.escape(mark)).match(self.text, self.at)
        if match:
            self.at = match.end()
        return match is not None

    def need(self, mark: str) -> None:
        if not self.take(mark):
            self.fail(f"'{mark}' is missing")

    def end(self) -> None:
        if self.text[self.at :].strip():
            self.fail(f"'{self.text[self.at :].strip()}' is left over")

    def fail(self, why: str) -> None:
        raise HeadraceError(
            "config.invalid",
            f"'{self.text}' is not a column type",
            where=f"column {self.at + 1} of the type",
            why=why,
            next="use a Spark SQL type, e.g. bigint, decimal(12,2), timestamp, array<string>",
        )
