"""Lowering of window functions: by the order, where a change reaches only some rows, else by whole partitions."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Window
from headrace.circuit.operators.recompute import NEXT, VERSION
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, refuse_keys
from headrace.sql.lowering.per_place import per_place
from headrace.sql.lowering.running import running


def window(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    partition = lowering.catalyst.items(plan.partitionSpec())
    entries = [e for e in lowering.catalyst.items(plan.windowExpressions()) if id_of(e) in needed]
    if not entries:
        return lowering.node(plan.child(), needed)
    other = per_place(lowering, plan, entries)
    if other is not None:
        return lowering.node(other, needed)
    child, ids = lowering.node(plan.child(), needed | lowering.references(partition + entries))
    names = names_of(ids)
    keys = tuple(lowering.catalyst.expression(k, names) for k in partition)
    refuse_keys(keys)
    by_order = running(lowering, plan, entries, (child, ids), keys)
    if by_order is not None:
        return by_order
    types = child.types + tuple(type_text(e) for e in entries)
    nullables = child.nullables + tuple(bool(e.nullable()) for e in entries)
    made = [*ids, *(id_of(e) for e in entries)]
    versions = [lowering.catalyst.attribute(VERSION), lowering.catalyst.attribute(NEXT)]

    def per_version(expression: Any) -> Any | None:
        if class_name(expression) != "WindowSpecDefinition":
            return None
        with lowering.catalyst.deciding():
            rebound = [lowering.catalyst.rebind(e, names) for e in lowering.catalyst.items(expression.partitionSpec())]
            order = [lowering.catalyst.rebind(e, names) for e in lowering.catalyst.items(expression.orderSpec())]
        frame = lowering.catalyst.rebind(expression.frameSpecification(), names)
        return lowering.catalyst.expressions.WindowSpecDefinition(
            lowering.catalyst.seq(rebound + versions), lowering.catalyst.seq(order), frame
        )

    functions = tuple(lowering.catalyst.expression(e, names, per_version) for e in entries)
    return Window(types, nullables, child, keys, functions), made
