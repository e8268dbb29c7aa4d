"""Lowering of session windows: an aggregate with a group key that Spark has marked as a session."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Accumulation, Expression, Sessions
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.aggregate import aggregate, collect_functions, group_key, over_groups
from headrace.sql.lowering.aggregate_functions import accumulation, maintained
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, refuse_keys

MARK = "spark.sessionWindow"


def grouped(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """Any aggregate."""
    keys = lowering.catalyst.items(plan.groupingExpressions())
    marked = [k for k in keys if class_name(k) == "AttributeReference" and MARK in str(k.metadata().json())]
    if not marked:
        return aggregate(lowering, plan, needed)
    entries = [e for e in lowering.catalyst.items(plan.aggregateExpressions()) if id_of(e) in needed]
    child, ids = lowering.node(plan.child(), lowering.references(keys + entries))
    names = names_of(ids)
    others = tuple(lowering.catalyst.expression(k, names) for k in keys if k not in marked)
    refuse_keys(others)
    results = tuple(lowering.catalyst.expression(e, names) for e in entries)
    functions: list[Any] = []
    for entry in entries:
        collect_functions(lowering.catalyst, entry, functions)
    accumulations: tuple[Accumulation, ...] = ()
    normal: tuple[Expression, ...] = ()
    groups: tuple[Expression, ...] | None = None
    if all(maintained(lowering.catalyst, f) for f in functions):
        replace = over_groups(lowering.catalyst, [*(k for k in keys if k not in marked), marked[0]], functions)
        groups = tuple(lowering.catalyst.expression(e, {}, replace) for e in entries)
        accumulations = tuple(accumulation(lowering.catalyst, f, names) for f in functions)
        normal = tuple(group_key(lowering, k, names) for k in keys if k not in marked)
    types, nullables = tuple(type_text(e) for e in entries), tuple(bool(e.nullable()) for e in entries)
    session = ids.index(id_of(marked[0]))
    made = Sessions(types, nullables, child, others, results, session, accumulations, groups, normal)
    return made, [id_of(e) for e in entries]
