"""Lowering of WITH RECURSIVE: Spark's UnionLoop, with the reference to the level before inside it."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import PREVIOUS, Feed, Loop, Node
from headrace.sql.catalyst import type_text
from headrace.sql.lowering.base import Lowered, Lowering, refuse


def loop(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """Every column is kept, as the next level may read it."""
    if plan.limit().isDefined():
        raise refuse("a LIMIT on a recursive query", "which rows come first is not determined", "leave the LIMIT out")
    if lowering.inside:
        why = "the levels of one depend on those of the other"
        raise refuse("a recursive query inside another", why, "make a view of the inner one")
    lowering.loops[int(plan.id())] = len(lowering.loops)
    lowering.inside = True
    anchor, body = (part(lowering, child) for child in (plan.anchor(), plan.recursion()))
    lowering.inside = False
    outputs = lowering.catalyst.items(plan.output())
    types = tuple(type_text(a) for a in outputs)
    return Loop(types, tuple(bool(a.nullable()) for a in outputs), anchor, body), [a.exprId().id() for a in outputs]


def part(lowering: Lowering, plan: Any) -> Node:
    wanted = [a.exprId().id() for a in lowering.catalyst.items(plan.output())]
    return lowering.ordered(lowering.node(plan, set(wanted)), plan, wanted)


def previous(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """The rows of the level before, as a leaf."""
    attributes = lowering.catalyst.items(plan.output())
    types = tuple(type_text(a) for a in attributes)
    nullables = tuple(bool(a.nullable()) for a in attributes)
    relation = f"{PREVIOUS}{lowering.loops[int(plan.loopId())]}"  # Spark's own number is new at every planning
    return Feed(types, nullables, relation, tuple(range(len(types)))), [a.exprId().id() for a in attributes]
