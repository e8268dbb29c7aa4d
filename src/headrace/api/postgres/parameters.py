"""The types of parameters of which a client declares none: those of the columns that they are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.api.postgres.types import INT8, PostgresType

_BETWEEN = ("input", "lower", "upper")


def compared(statement: Mapping[str, Any], columns: Iterable[tuple[str, PostgresType]]) -> dict[int, int]:
    """Object ids of types by the number of the parameter, as far as the SELECT decides them.

    ``columns``: of all that it reads.
    """
    known: dict[str, set[PostgresType]] = {}
    for column, kind in columns:
        known.setdefault(column.lower(), set()).add(kind)
    found: dict[int, int] = {}
    for sides in _sides(statement):
        oids = {kind.oid for side in sides for kind in known.get(_column(side), ())}
        if len(oids) == 1:
            found |= dict.fromkeys(filter(None, map(_number, sides)), next(iter(oids)))
    for name, number in _lists(statement):
        oids = {kind.array_oid for kind in known.get(name, ())}
        if len(oids) == 1:
            found[number] = next(iter(oids))
    return found | dict.fromkeys(filter(None, map(_number, _limits(statement))), INT8.oid)


def _sides(part: Any) -> Iterator[list[Mapping[str, Any]]]:
    """The expressions of each comparison, IN and BETWEEN, at any depth."""
    if isinstance(part, list):
        for each in part:
            yield from _sides(each)
    elif isinstance(part, dict):
        if part.get("class") == "COMPARISON":
            yield [part["left"], part["right"]]
        elif part.get("class") == "BETWEEN":
            yield [part[name] for name in _BETWEEN]
        elif part.get("type") == "COMPARE_IN":
            yield part["children"]
        for each in part.values():
            yield from _sides(each)


def _lists(part: Any) -> Iterator[tuple[str, int]]:
    """(column, number of the parameter) of each ``column = ANY ($1)``, at any depth."""
    if isinstance(part, list):
        for each in part:
            yield from _lists(each)
    elif isinstance(part, dict):
        if part.get("subquery_type") == "ANY":
            selected = part["subquery"]["node"].get("select_list") or [{}]
            if selected[0].get("function_name") == "unnest":  # how DuckDB writes ANY of a list
                number = _number(selected[0]["arguments"][0]["expression"])
                if number and (column := _column(part["child"])):
                    yield column, number
        for each in part.values():
            yield from _lists(each)


def _limits(part: Any) -> Iterator[Mapping[str, Any]]:
    """What LIMIT and OFFSET count, at any depth."""
    if isinstance(part, list):
        for each in part:
            yield from _limits(each)
    elif isinstance(part, dict):
        if part.get("type") == "LIMIT_MODIFIER":
            yield from (part[name] for name in ("limit", "offset") if part.get(name))
        for each in part.values():
            yield from _limits(each)


def _column(expression: Mapping[str, Any]) -> str:
    return str(expression["column_names"][-1]).lower() if expression["class"] == "COLUMN_REF" else ""


def _number(expression: Mapping[str, Any]) -> int:
    """Of a parameter; 0 for anything else."""
    named = expression["identifier"] if expression["class"] == "PARAMETER" else ""
    return int(named) if named.isdecimal() else 0
