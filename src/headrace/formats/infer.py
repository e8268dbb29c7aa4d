"""Columns from what is declared, from sample rows, or from what was inferred before and kept."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.formats.types.arrow import from_arrow, to_arrow
from headrace.formats.types.json import nearest
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation

SAMPLE_ROWS = 10_000  # rows that an inference looks at
NESTED_MAX = 64  # arrays and objects within each other: whoever reads the type that they show does so by recursion
RESERVED = frozenset({"_t", "_op", "_unchanged", "_w", "_i"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
_WHOLE = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)  # 007 is a code, not a number
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?|NaN|-?Infinity", re.ASCII)
_INSTANT, _HUGE = pa.timestamp("us", tz="UTC"), pa.decimal128(38, 0)
# The wider of two types that mix: the first type of a pair is a special case of the second.
_WIDER = {
    frozenset({pa.int64(), pa.float64()}): pa.float64(),
    frozenset({pa.int64(), _HUGE}): _HUGE,
    frozenset({_HUGE, pa.float64()}): pa.float64(),
    frozenset({pa.date32(), _INSTANT}): _INSTANT,
    frozenset({pa.date32(), pa.string()}): pa.string(),
    frozenset({_INSTANT, pa.string()}): pa.string(),
}


def declared(name: str, columns: Mapping[str, str], key: Sequence[str], where: str = "") -> Relation:
    """A relation from ``column: type`` as written; ``not null`` may follow a type, key columns are never null.

    Raises ``HeadraceError`` (config.invalid) naming the column.
    """
    made = []
    for column, text in columns.items():
        try:
            arrow = to_arrow(_NOT_NULL.sub("", text))
        except HeadraceError as error:
            what = f"column '{column}' of '{name}': {error.what}"
            raise HeadraceError(error.code, what, where=where, why=error.why, next=error.next) from None
        made.append(Column(column, from_arrow(arrow), column not in key and _NOT_NULL.search(text) is None))
    return checked(Relation(name, tuple(made), tuple(key)), where)


def inferred(name: str, rows: Iterable[Mapping[str, Any]], key: Sequence[str], where: str = "") -> Relation:
    """A relation from sample rows (JSON values); a column that is null in all of them is text.

    Raises ``HeadraceError`` (source.row) when a column mixes types, (config.invalid) when a key column is missing.
    """
    types: dict[str, pa.DataType] = {}
    for row in rows:
        for column, value in row.items():
            try:
                types[column] = _merge(types.get(column, pa.null()), _type(value))
            except ValueError as error:
                raise _mixed(name, column, str(error), where) from None
    return _relation(name, types, key, where)


def inferred_from_text(
    name: str, columns: Mapping[str, Iterable[str]], key: Sequence[str], where: str = ""
) -> Relation:
    """As ``inferred``, for columns of text (CSV); empty text says nothing, and what does not agree is text."""
    types = {}
    for column, texts in columns.items():
        kinds = {_text_type(text) for text in texts if text}
        types[column] = functools.reduce(lambda a, b: _WIDER.get(frozenset({a, b}), pa.string()), kinds or {pa.null()})
    return _relation(name, types, key, where)


def check_name(table: str, where: str = "") -> None:
    """Raises ``HeadraceError`` (config.invalid) when a table of that name could not be named in SQL."""
    if not _NAME.fullmatch(table):
        raise HeadraceError(
            "config.invalid",
            f"'{table}' is not a table name",
            where=where,
            why="a name has letters, digits and underscores, and does not begin with a digit",
            next=f"call it {re.sub(r'[^A-Za-z0-9_]+', '_', table).strip('_') or 'events'}",
        )


def checked(relation: Relation, where: str = "") -> Relation:
    """The relation itself, when its names can be used. Raises ``HeadraceError`` (config.invalid)."""
    check_name(relation.name, where)
    seen: dict[str, str] = {}
    for name in relation.names:
        why = ""
        if name in RESERVED or not name:
            why = "the name is reserved"
        elif name.lower() in seen:
            why = f"SQL cannot tell it from '{seen[name.lower()]}'"
        if why:
            raise HeadraceError(
                "config.invalid", f"'{relation.name}' cannot have a column '{name}'", where=where, why=why
            )
        seen[name.lower()] = name
    for name in relation.key:
        if name not in relation.names:
            raise HeadraceError(
                "config.invalid",
                f"the key column '{name}' is not a column of '{relation.name}'",
                where=where,
                next=nearest(name, relation.names) if relation.names else "declare columns",
            )
    if not relation.columns:
        raise HeadraceError("config.invalid", f"'{relation.name}' has no columns", where=where, next="declare columns")
    return relation


class KeptSchemas:
    """The columns that were inferred for the tables of one source, in a JSON file; an inference stands for ever."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._tables: dict[str, list[Any]] = {}
        if path is not None and path.exists():
            self._tables = json.loads(path.read_text(encoding="utf-8"))

    def get(self, table: str, key: Sequence[str]) -> Relation | None:
        """The relation kept under that name, with the key as it is declared now."""
        if table not in self._tables:
            return None
        columns = (Column(name, type_, name not in key) for name, type_ in self._tables[table])
        return checked(Relation(table, tuple(columns), tuple(key)), str(self.path or ""))

    def keep(self, relations: Iterable[Relation]) -> None:
        """Add relations, durably: the file is replaced as a whole."""
        for relation in relations:
            self._tables[relation.name] = [[column.name, column.type] for column in relation.columns]
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=self.path.parent, prefix=f".{self.path.name}.", delete=False, encoding="utf-8"
        ) as file:
            json.dump(self._tables, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self.path)

    def drop(self) -> None:
        """Forget everything."""
        self._tables.clear()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _relation(name: str, types: Mapping[str, pa.DataType], key: Sequence[str], where: str) -> Relation:
    columns = (Column(column, from_arrow(_settled(type_)), column not in key) for column, type_ in types.items())
    return checked(Relation(name, tuple(columns), tuple(key)), where)


def _type(value: Any, depth: int = 0) -> pa.DataType:
    """The narrowest type of one JSON value; null() for null and for what is empty."""
    if depth > NESTED_MAX:
        raise ValueError(f"values nested more than {NESTED_MAX} deep")
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(1 << 63) <= value < 1 << 63 else _HUGE
    if isinstance(value, float | decimal.Decimal):
        return pa.float64()
    if isinstance(value, str):
        return _spelled(value)
    if isinstance(value, dict):
        return pa.struct([pa.field(name, _type(inner, depth + 1)) for name, inner in value.items()])
    if isinstance(value, list | tuple):
        return pa.list_(functools.reduce(_merge, (_type(inner, depth + 1) for inner in value), pa.null()))
    if isinstance(value, dt.datetime):
        return _INSTANT
    if isinstance(value, dt.date):
        return pa.date32()
    if isinstance(value, bytes):
        return pa.binary()
    raise ValueError(f"values of type {type(value).__name__}")


def _spelled(text: str) -> pa.DataType:
    try:
        if _DATE.fullmatch(text):
            dt.date.fromisoformat(text)
            return pa.date32()
        if _TIMESTAMP.fullmatch(text):
            dt.datetime.fromisoformat(text)
            return _INSTANT
    except ValueError:
        pass
    return pa.string()


def _text_type(text: str) -> pa.DataType:
    """The type that a CSV cell looks like."""
    if _WHOLE.fullmatch(text):
        if len(text) > 38:
            return pa.string()
        return pa.int64() if -(1 << 63) <= int(text) < 1 << 63 else _HUGE
    if _NUMBER.fullmatch(text):
        return pa.float64()
    return pa.bool_() if text.lower() in ("true", "false") else _spelled(text)


def _merge(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        fields = {field.name: field.type for field in a}
        for field in b:
            fields[field.name] = _merge(fields.get(field.name, pa.null()), field.type)
        return pa.struct(list(fields.items()))
    if pa.types.is_list(a) and pa.types.is_list(b):
        return pa.list_(_merge(a.value_type, b.value_type))
    if frozenset({a, b}) in _WIDER:
        return _WIDER[frozenset({a, b})]
    raise ValueError(f"{from_arrow(a)} and {from_arrow(b)}")


def _settled(arrow: pa.DataType) -> pa.DataType:
    """The type with text where nothing was seen; an object without fields is a map of text."""
    if pa.types.is_null(arrow):
        return pa.string()
    if pa.types.is_list(arrow):
        return pa.list_(_settled(arrow.value_type))
    if pa.types.is_struct(arrow):
        if arrow.num_fields == 0:
            return pa.map_(pa.string(), pa.string())
        return pa.struct([pa.field(field.name, _settled(field.type)) for field in arrow])
    return arrow


def _mixed(name: str, column: str, types: str, where: str) -> HeadraceError:
    return HeadraceError(
        "source.row",
        f"the type of column '{column}' of '{name}' cannot be inferred: it has {types}",
        where=where,
        next=f"declare it: columns: {{{column}: TYPE}}",
    )
