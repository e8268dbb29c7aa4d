"""Lowering of a relation joined with the greatest or least of its own values by key: its first rows in that order.

``A JOIN (SELECT k, max(v) AS m FROM A GROUP BY k) ON A.k = k AND A.v >= m`` are the rows of A that rank() numbers 1 by
k and v: one ordered copy of A, where the join keeps one by its keys and the aggregate one of the values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.circuit.extremes import TEXT, WHOLE
from headrace.circuit.node import Expression, Filter, Node, OrderedAggregate, Project, SortKey, TopK
from headrace.circuit.origin import Origin, origin, present
from headrace.sql.java_names import class_name
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, projected
from headrace.sql.lowering.columns import column
from headrace.sql.lowering.rewrite import Rewrite

# How a row's value may be compared with the extreme; what is turned round stands for the other.
_SIGNS = {"max": ("EqualTo", "GreaterThanOrEqual"), "min": ("EqualTo", "LessThanOrEqual")}
_TURNED = {"GreaterThanOrEqual": "LessThanOrEqual", "LessThanOrEqual": "GreaterThanOrEqual"}
VALUE = "v0"


def of_own_extreme(lowering: Lowering, kind: str, condition: Any, left: Lowered, right: Lowered) -> Lowered | None:
    """The join of ``left`` and ``right``, inner or semi, or None for every other one."""
    if kind not in ("inner", "semi"):
        return None
    made = _first_rows(lowering, condition, left, right)
    if made is not None or kind == "semi":
        return made
    return _first_rows(lowering, condition, right, left)


def _first_rows(lowering: Lowering, condition: Any, rows: Lowered, extremes: Lowered) -> Lowered | None:
    found = _extremes(extremes[0])
    if found is None:
        return None
    aggregate, results = found
    (accumulation,) = aggregate.accumulations
    given, own = origin(rows[0]), origin(aggregate.child)
    wanted = {f"g{i}": own.spelled(key.text) for i, key in enumerate(aggregate.keys)}
    wanted[VALUE] = own.spelled(accumulation.arguments[0].text)
    if given.base != own.base or _beyond_nulls(given, wanted) != _beyond_nulls(own, wanted):
        return None
    (child, ids), make = rows, Rewrite(lowering.catalyst)
    names, ends = names_of(ids), dict(zip(extremes[1], results, strict=True))
    values: dict[str, Expression] = {}
    nullable = []
    for part in make.conjuncts(condition):
        compared = _compared(lowering, part, names, ends)
        if compared is None:
            return None
        sign, value, end = compared
        values[end] = lowering.catalyst.expression(value, names)
        signs = _SIGNS[accumulation.function] if end == VALUE else ("EqualTo",)
        if sign not in signs or given.spelled(values[end].text) != wanted[end]:
            return None
        if values[end].nullable:
            nullable.append(make.expressions.IsNotNull(value))
    if values.keys() != wanted.keys():
        return None
    keys = tuple(values[end] for end in wanted if end != VALUE)
    order = SortKey(values[VALUE], descending=accumulation.function == "max", nulls_last=True)
    top: Node = TopK((*child.types, "int"), (*child.nullables, False), child, "rank", 1, keys, (order,))
    if nullable:
        there = lowering.catalyst.expression(make.all_of(nullable), names)
        top = Filter(top.types, top.nullables, top, there)
    outputs = [column(lowering.catalyst, top, i) for i in range(len(child.types))]
    outputs += [replace(values[end], nullable=False) for end in results]
    return projected(top, outputs), [*ids, *extremes[1]]


def _extremes(of: Node) -> tuple[OrderedAggregate, list[str]] | None:
    """A greatest or least value by key, and which of its key and value each column of the node is."""
    if isinstance(of, Filter | Project):
        below = _extremes(of.child)
        if below is None:
            return None
        aggregate, results = below
        plain = {f"'c{i}:": result for i, result in enumerate(results)}
        if isinstance(of, Filter):
            # A key or value that is NULL meets nothing in any case.
            fits = set(of.parts or (of.condition.text,)) <= {f"isnotnull({name[:-1]}):" for name in plain}
            return below if fits else None
        if not all(e.text in plain for e in of.expressions):
            return None
        return aggregate, [plain[e.text] for e in of.expressions]
    if not isinstance(of, OrderedAggregate) or len(of.accumulations) != 1 or not of.keys:
        return None
    (accumulation,) = of.accumulations
    results = [e.text[1:-1] for e in of.results]
    known = {VALUE, *(f"g{i}" for i in range(len(of.keys)))}
    # Where values that are equal have other bits, the rows do not tell which of them is the extreme.
    exact = accumulation.type in (*WHOLE, TEXT) or accumulation.type.startswith("decimal(")
    if accumulation.function not in _SIGNS or not exact or not known.issuperset(results):
        return None
    return of, results


def _beyond_nulls(of: Origin, wanted: dict[str, str]) -> frozenset[str]:
    """The conditions of some rows, but that their keys and values are there: else they meet nothing."""
    return of.conditions.difference(*map(present, wanted.values()))


def _compared(
    lowering: Lowering, part: Any, names: dict[int, str], ends: dict[int, str]
) -> tuple[str, Any, str] | None:
    """(sign, a value of the rows, key or value of the aggregate) of a comparison of the two."""
    sign = class_name(part)
    if sign not in ("EqualTo", *_TURNED):
        return None
    value, end = lowering.catalyst.items(part.children())
    if class_name(value) == "AttributeReference" and id_of(value) in ends:
        sign, value, end = _TURNED.get(sign, sign), end, value
    if class_name(end) != "AttributeReference" or id_of(end) not in ends:
        return None
    if not lowering.references([value]) <= names.keys():
        return None
    return sign, value, ends[id_of(end)]
