"""Lowering of window functions."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Window
from headrace.circuit.operators.recompute import NEXT, VERSION
from headrace.sql.catalyst import class_name, type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, refuse, refuse_keys


def window(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    partition = lowering.catalyst.items(plan.partitionSpec())
    entries = [e for e in lowering.catalyst.items(plan.windowExpressions()) if id_of(e) in needed]
    if not entries:
        return lowering.node(plan.child(), needed)
    if not partition:
        raise refuse("a window function without PARTITION BY", "every row would be touched", "add PARTITION BY")
    child, ids = lowering.node(plan.child(), needed | lowering.references(partition + entries))
    names = names_of(ids)
    keys = tuple(lowering.catalyst.expression(k, names) for k in partition)
    refuse_keys(keys)
    versions = [lowering.catalyst.attribute(VERSION), lowering.catalyst.attribute(NEXT)]

    def per_version(expression: Any) -> Any | None:
        if class_name(expression) != "WindowSpecDefinition":
            return None
        rebound = [lowering.catalyst.rebind(e, names) for e in lowering.catalyst.items(expression.partitionSpec())]
        order = [lowering.catalyst.rebind(e, names) for e in lowering.catalyst.items(expression.orderSpec())]
        frame = lowering.catalyst.rebind(expression.frameSpecification(), names)
        return lowering.catalyst.expressions.WindowSpecDefinition(
            lowering.catalyst.seq(rebound + versions), lowering.catalyst.seq(order), frame
        )

    functions = tuple(lowering.catalyst.expression(e, names, per_version) for e in entries)
    types = child.types + tuple(type_text(e) for e in entries)
    nullables = child.nullables + tuple(bool(e.nullable()) for e in entries)
    return Window(types, nullables, child, keys, functions), ids + [id_of(e) for e in entries]
