"""A SELECT that names the key of its one relation reads the rows under that key, instead of all of them.

The condition stays in the query: what is handed to it may be more than it takes, never less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.formats.types.arrow import to_arrow
from headrace.serve.contents import Contents
from headrace.serve.relation import Described

_PLAIN = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_WHOLE = ("INTEGER", "BIGINT", "SMALLINT", "INT", "int4", "int8", "int2")
_TEXT = ("VARCHAR", "TEXT", "text", "varchar")


def narrowed(
    statement: Mapping[str, Any], relation: Described, contents: Contents, parameters: Sequence[Any]
) -> Contents:
    """The rows of ``contents`` that the SELECT may take; all of them where its condition does not name the key."""
    node = statement["node"]
    if not contents.key or node["type"] != "SELECT_NODE" or not _reads_alone(statement, node, relation.name):
        return contents
    compared = dict(_compared(node.get("where_clause"), node["from_table"], parameters))
    columns = {name: _column(relation, name, compared.get(name.lower())) for name in contents.key}
    if any(column is None for column in columns.values()):
        return contents
    return Contents.of(contents.under(pa.table(columns)), contents.key)


def _reads_alone(statement: Mapping[str, Any], node: Mapping[str, Any], name: str) -> bool:
    """Whether the SELECT is from the relation itself, which nothing else within it reads."""
    source = node.get("from_table") or {}
    whole = source.get("type") == "BASE_TABLE" and not source.get("sample") and not source.get("column_name_alias")
    return whole and source["table_name"].lower() == name.lower() and sum(1 for _ in _relations(statement)) == 1


def _relations(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _relations(each)
    elif isinstance(part, dict):
        if part.get("type") == "BASE_TABLE":
            yield part["table_name"]
        for each in part.values():
            yield from _relations(each)


def _compared(condition: Any, source: Mapping[str, Any], parameters: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """(column in lower case, value) of each comparison that holds for every row that is taken."""
    if not condition:
        return
    if condition["type"] == "CONJUNCTION_AND":
        for each in condition["children"]:
            yield from _compared(each, source, parameters)
    elif condition["type"] == "COMPARE_EQUAL":
        for one, other in ((condition["left"], condition["right"]), (condition["right"], condition["left"])):
            if one["class"] == "COLUMN_REF" and _is_of(one["column_names"], source):
                yield one["column_names"][-1].lower(), _value(other, parameters)


def _is_of(names: Sequence[str], source: Mapping[str, Any]) -> bool:
    named = (source.get("alias") or source["table_name"]).lower()
    return len(names) == 1 or (len(names) == 2 and names[0].lower() == named)


def _value(expression: Mapping[str, Any], parameters: Sequence[Any]) -> Any:
    """A constant or parameter, which a cast does not change; None for anything else."""
    kind = expression["class"]
    if kind == "CAST" and not expression["try_cast"]:
        value, named = _value(expression["child"], parameters), expression.get("type_expr", {}).get("type_name")
        kept = (type(value) is int and named in _WHOLE) or (type(value) is str and named in _TEXT)
        return value if kept else None
    if kind == "PARAMETER" and expression["identifier"].isdecimal():
        return dict(enumerate(parameters, 1)).get(int(expression["identifier"]))
    if kind == "CONSTANT":
        literal = expression.get("literal", {})
        if literal.get("kind") == "INTEGER":
            return int(literal["text"])
        return literal["text"] if literal.get("kind") == "STRING" else None
    return None


def _column(relation: Described, name: str, value: Any) -> pa.Array | None:
    """The value as the column of the key has it: whole numbers and texts alone compare as they are written."""
    arrow = next(to_arrow(column.type) for column in relation.columns if column.name == name)
    if pa.types.is_integer(arrow) and type(value) is str and _PLAIN.fullmatch(value):
        value = int(value)  # of a parameter without a type
    fits = (pa.types.is_integer(arrow) and type(value) is int) or (pa.types.is_string(arrow) and type(value) is str)
    try:
        return pa.array([value], arrow) if fits else None
    except (pa.ArrowInvalid, OverflowError):
        return None  # no row has it, and the query tells what becomes of that
