"""Lowering of a filter that keeps the first ranks of each partition: QUALIFY rank() OVER (...) <= k and its like."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Filter, TopK
from headrace.circuit.operators.top_k import DENSE_MOST
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, refuse_keys
from headrace.sql.lowering.limit import sort_keys
from headrace.sql.lowering.linear import filter_rows

FUNCTIONS = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}
_MIRRORED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual", "EqualTo": "EqualTo"}


def filtered(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """A Filter; over a window of one ranking function that it bounds, the window is not computed beyond the bound."""
    window = plan.child()
    while class_name(window) == "Project" and _passes(lowering, window):
        window = window.child()
    found = _ranking(lowering, window)
    if found is None:
        return filter_rows(lowering, plan, needed)
    entry, function = found
    most = _bound(lowering, plan.condition(), id_of(entry))
    order = lowering.catalyst.items(window.orderSpec())
    if most is None or not order or (function == "dense_rank" and most > DENSE_MOST):
        return filter_rows(lowering, plan, needed)
    if any(" collate " in type_text(o.child()) for o in order):
        return filter_rows(lowering, plan, needed)
    partition = lowering.catalyst.items(window.partitionSpec())
    condition = plan.condition()
    wanted = needed | lowering.references([condition, *partition, *order])
    child, ids = lowering.node(window.child(), wanted - {id_of(entry)})
    names = names_of(ids)
    keys = tuple(lowering.catalyst.expression(k, names) for k in partition)
    refuse_keys(keys)
    top = TopK(
        (*child.types, "int"), (*child.nullables, False), child, function, most, keys,
        sort_keys(lowering, order, names),
    )  # fmt: skip
    ids = [*ids, id_of(entry)]
    return Filter(top.types, top.nullables, top, lowering.catalyst.expression(condition, names_of(ids))), ids


def _passes(lowering: Lowering, plan: Any) -> bool:
    return all(class_name(e) == "AttributeReference" for e in lowering.catalyst.items(plan.projectList()))


def _ranking(lowering: Lowering, plan: Any) -> tuple[Any, str] | None:
    """The one window expression of a plan node and its function, if it is a ranking."""
    if class_name(plan) != "Window":
        return None
    entries = lowering.catalyst.items(plan.windowExpressions())
    if len(entries) != 1 or class_name(entries[0].child()) != "WindowExpression":
        return None
    kind = class_name(entries[0].child().windowFunction())
    return (entries[0], FUNCTIONS[kind]) if kind in FUNCTIONS else None


def _bound(lowering: Lowering, condition: Any, number: int) -> int | None:
    """The greatest rank that can fulfil the condition, where one of its conjuncts says so."""
    kind = class_name(condition)
    children = lowering.catalyst.items(condition.children())
    if kind == "And":
        bounds = [b for b in (_bound(lowering, c, number) for c in children) if b is not None]
        return min(bounds, default=None)
    if len(children) != 2:
        return None
    left, right = children
    if class_name(left) == "Literal":
        if kind not in _MIRRORED:
            return None
        kind, left, right = _MIRRORED[kind], right, left
    if class_name(left) != "AttributeReference" or id_of(left) != number or class_name(right) != "Literal":
        return None
    if right.value() is None:
        return 0
    if type_text(right) != "int":
        return None
    most = int(right.value())
    bound = {"LessThanOrEqual": most, "EqualTo": most, "LessThan": most - 1}.get(kind)
    return None if bound is None else max(bound, 0)
