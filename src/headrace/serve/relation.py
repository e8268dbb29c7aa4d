"""A view or table as questions name it: its columns, and the filters of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from headrace.catalog.store import ViewRecord
from headrace.formats.csv_rows import json_value
from headrace.formats.types import duckdb as duckdb_types
from headrace.formats.types.arrow import to_arrow
from headrace.formats.types.duckdb import identifier
from headrace.formats.types.json import ColumnRefused, column, nearest, shown
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column

OPERATORS = {
    "eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "like": "LIKE", "ilike": "ILIKE",
    "in": "IN", "is": "IS",
}  # fmt: skip
IS = {"null": "NULL", "not_null": "NOT NULL", "true": "TRUE", "false": "FALSE"}


@dataclass(frozen=True, slots=True)
class Described:
    """A relation: ``state`` and ``reason`` of a view; ``key`` () where rows may repeat."""

    name: str
    kind: Literal["view", "table"]
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    state: str = "live"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """``operator``: one of ``OPERATORS``; ``value``: JSON's, or text; of `in` a list, of `is` one of ``IS``."""

    column: str
    operator: str
    value: Any


def of_view(record: ViewRecord) -> Described:
    schema = record.schema
    return Described(schema.name, "view", schema.columns, schema.key, record.state, record.reason)


def typed(relation: Described, name: str, value: Any) -> pa.Scalar:
    """A value of JSON, or the text that a cell of CSV has for it, as the column has it. Raises ``query.filter``."""
    found = column_of(relation, name)
    arrow = to_arrow(found.type)
    try:
        return column([json_value(value, arrow) if isinstance(value, str) else value], arrow)[0]
    except (ColumnRefused, ValueError) as error:
        raise refused(
            f"{shown(value)} is no {found.type}",
            f"it is compared with column {found.name} of {relation.name}",
            "give a value of that type, spelled as in JSON",
        ) from error


def sortable(type_text: str) -> bool:
    """Whether DuckDB orders values of the type."""
    return not to_arrow(type_text).num_fields or type_text.startswith(("array", "struct", "interval"))


def filtered(relation: Described, filters: Iterable[Filter]) -> tuple[str, list[Any]]:
    """(what all filters ask together, the values bound in it). Raises ``query.filter``."""
    found = [_condition(relation, each) for each in filters]
    return " AND ".join(text for text, _ in found) or "TRUE", [value for _, bound in found for value in bound]


def filtered_or_error(relation: Described, filters: Iterable[Filter]) -> tuple[str, list[Any]] | HeadraceError:
    try:
        return filtered(relation, filters)
    except HeadraceError as error:
        return error


def column_of(relation: Described, name: str) -> Column:
    """By a name in any case. Raises ``query.filter``."""
    for found in relation.columns:
        if found.name.lower() == name.lower():
            return found
    names = [column.name for column in relation.columns]
    raise refused(f"{relation.name} has no column '{name}'", "", nearest(name, names))


def refused(what: str, why: str, next: str) -> HeadraceError:
    return HeadraceError("query.filter", what, why=why, next=next)


def _condition(relation: Described, asked: Filter) -> tuple[str, list[Any]]:
    if asked.operator not in OPERATORS:
        raise refused(f"there is no operator '{asked.operator}'", "", f"operators: {', '.join(OPERATORS)}")
    found = column_of(relation, asked.column)
    name, operator = identifier(found.name), OPERATORS[asked.operator]
    if asked.operator == "is":
        if asked.value not in IS:
            raise refused(f"nothing is '{asked.value}'", "", f"`is` takes one of {', '.join(IS)}")
        if asked.value in ("true", "false") and found.type != "boolean":
            raise refused(
                f"{found.name} is neither true nor false", f"it is of type {found.type}", "is.null, is.not_null"
            )
        return f"{name} IS {IS[asked.value]}", []
    if asked.operator in ("like", "ilike"):
        return f"{name}::VARCHAR {operator} ?", [str(asked.value)]
    values = list(asked.value) if asked.operator == "in" else [asked.value]
    bound = [typed(relation, found.name, value).as_py() for value in values]
    kind = duckdb_types.from_spark(found.type)
    marks = ", ".join(f"CAST(? AS {kind})" for _ in bound)
    if asked.operator == "in":
        return f"{name} IN ({marks})" if bound else "FALSE", bound
    return f"{name} {operator} {marks}", bound
