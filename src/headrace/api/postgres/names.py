"""The names that PostgreSQL gives to a result's columns, from a SELECT as DuckDB parses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNNAMED = "?column?"
_FUNCTIONS = {"count_star": "count", "date_part": "extract", "list_value": "array", "struct_pack": "row",
              **{f"to_{kind}": kind for kind in ("regclass", "regtype", "regnamespace", "regproc", "regrole")},
              "headrace_setting": "current_setting", "json_group_array": "json_agg",
              "json_object": "json_build_object", "json_array": "json_build_array"}  # fmt: skip
_NAME_OF = "headrace_name_"  # how the macros begin that show objects of the catalogue
_TYPES = {
    "INTEGER": "int4", "INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "VARCHAR": "varchar", "DOUBLE": "float8",
    "FLOAT": "float4", "DECIMAL": "numeric", "BOOLEAN": "bool", "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "BLOB": "bytea",
}  # fmt: skip


def names(statement: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    """``given``: what DuckDB calls them, which is right for columns of a star and those with an alias."""
    selected = _selected(statement["node"])
    if selected is None:
        return [f"column{number}" if name == f"col{number - 1}" else name for number, name in enumerate(given, 1)]
    found = list(given)
    one_each = len(selected) == len(found)
    stars = [
        place for place, each in enumerate(selected) if each["class"] == "STAR" or (_spreads(each) and not one_each)
    ]
    before = stars[0] if stars else len(selected)
    after = len(selected) - stars[-1] - 1 if stars else 0
    if before + after > len(found) or (not stars and len(selected) != len(found)):
        return found
    for place in range(before):
        found[place] = _name(selected[place])
    for place in range(1, after + 1):
        found[-place] = _name(selected[-place])
    return found


def _selected(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    """The select list that names the columns; None for VALUES."""
    while node["type"] == "SET_OPERATION_NODE":
        node = node.get("left") or node["children"][0]
    if node["type"] != "SELECT_NODE":
        return None
    source = node.get("from_table") or {}
    if source.get("type") == "EXPRESSION_LIST":
        return None
    selected: Sequence[Mapping[str, Any]] = node["select_list"]
    return selected


def _spreads(expression: Mapping[str, Any]) -> bool:
    """Whether it may become several columns."""
    return expression["class"] == "FUNCTION" and expression["function_name"] in ("unnest", "columns")


def _name(expression: Mapping[str, Any]) -> str:
    return str(expression.get("alias") or _derived(expression) or UNNAMED)


def _derived(expression: Mapping[str, Any]) -> str:
    kind = expression["class"]
    if kind == "COLUMN_REF":
        return str(expression["column_names"][-1])
    if kind in ("FUNCTION", "WINDOW"):
        name = str(expression["function_name"])
        if name.startswith(_NAME_OF):
            return _derived(expression["arguments"][0]["expression"]) or name.removeprefix(_NAME_OF)
        return (
            ""
            if expression.get("is_operator") or (not name[0].isalpha() and name[0] != "_")
            else _FUNCTIONS.get(name, name)
        )
    if kind == "CAST":
        named = str(expression.get("type_expr", {}).get("type_name", ""))
        return _derived(expression["child"]) or _TYPES.get(named.upper(), named.lower())
    if kind == "CASE":
        return _derived(expression["else_expr"]) or "case"
    if kind == "SUBQUERY":
        return _of_subquery(expression)
    if kind == "OPERATOR":
        return {"OPERATOR_COALESCE": "coalesce", "ARRAY_CONSTRUCTOR": "array", "OPERATOR_NULLIF": "nullif"}.get(
            str(expression["type"]), ""
        )
    return ""


def _of_subquery(expression: Mapping[str, Any]) -> str:
    if expression["subquery_type"] == "EXISTS":
        return "exists"
    selected = _selected(expression["subquery"]["node"]) if expression["subquery_type"] == "SCALAR" else None
    return _name(selected[0]) if selected else ""
