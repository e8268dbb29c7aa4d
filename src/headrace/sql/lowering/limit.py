"""Lowering of ORDER BY with LIMIT and OFFSET; the canonical form leaves no tie open below them."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Limit, SortKey
from headrace.sql.java_names import class_name
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, projected, refuse


def limit(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """A GlobalLimit, LocalLimit or Offset, with what lies between it and its Sort."""
    return _between(lowering, plan, needed, 0, None)


def _between(lowering: Lowering, plan: Any, needed: set[int], start: int, stop: int | None) -> Lowered:
    """The rows of ``plan`` at positions [start, stop)."""
    kind = class_name(plan)
    if kind in ("GlobalLimit", "LocalLimit"):
        most = _number(plan.limitExpr(), "LIMIT")
        return _between(lowering, plan.child(), needed, start, most if stop is None else min(stop, most))
    if kind == "Offset":
        skipped = _number(plan.offsetExpr(), "OFFSET")
        return _between(lowering, plan.child(), needed, start + skipped, None if stop is None else stop + skipped)
    if kind == "SubqueryAlias":
        return _between(lowering, plan.child(), needed, start, stop)
    if kind == "Project":
        entries = [e for e in lowering.catalyst.items(plan.projectList()) if id_of(e) in needed]
        child, ids = _between(lowering, plan.child(), lowering.references(entries), start, stop)
        names = names_of(ids)
        return projected(child, [lowering.catalyst.expression(e, names) for e in entries]), [id_of(e) for e in entries]
    order = lowering.catalyst.items(plan.order())
    child, ids = lowering.node(plan.child(), needed | lowering.references(order))
    return Limit(child.types, child.nullables, child, sort_keys(lowering, order, names_of(ids)), start, stop), ids


def _number(expression: Any, clause: str) -> int:
    if class_name(expression) != "Literal":
        raise refuse(f"{clause} of an expression", "how many rows it means must be known beforehand", "write a number")
    return int(expression.value())


def sort_keys(lowering: Lowering, order: list[Any], names: dict[int, str]) -> tuple[SortKey, ...]:
    """The entries of an ORDER BY over columns of these names."""
    return tuple(
        SortKey(
            lowering.catalyst.expression(entry.child(), names),
            class_name(entry.direction()) == "Descending",
            class_name(entry.nullOrdering()) == "NullsLast",
        )
        for entry in order
    )
