"""Lowering of WITH RECURSIVE: Spark's UnionLoop, with the reference to the level before inside it."""

from __future__ import annotations

from typing import Any

from headrace.circuit.levels import needs, read_by, relation
from headrace.circuit.node import Feed, Loop, Node
from headrace.sql.java_names import type_text
from headrace.sql.lowering.base import Lowered, Lowering, refuse

DEEPEST = 3  # recursive queries, each in the recursive part of the one before: the circuits multiply


def loop(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """Every column is kept, as the next level may read it."""
    if plan.limit().isDefined() and plan.limit().get() != -1:  # which LIMIT ALL is
        raise refuse("a LIMIT on a recursive query", "which rows come first is not determined", "leave the LIMIT out")
    anchor = part(lowering, plan.anchor())
    lowering.loops[int(plan.id())] = lowering.around
    lowering.around += 1
    body = part(lowering, plan.recursion())
    lowering.around -= 1
    outputs = lowering.catalyst.items(plan.output())
    types = tuple(type_text(a) for a in outputs)
    made = Loop(types, tuple(bool(a.nullable()) for a in outputs), anchor, body)
    refuse_rows_without_level_before(made)
    if lowering.around >= DEEPEST:
        why = f"one is maintained in another down to {DEEPEST}, and the levels of each multiply those of the others"
        raise refuse("a recursive query this deep inside others", why, "make a view of the innermost one")
    return made, [a.exprId().id() for a in outputs]


def refuse_rows_without_level_before(made: Loop) -> None:
    """A level has rows of its own level before alone: circuits of further levels may then wait for its first row."""
    if not needs(made.body, 0):
        raise refuse(
            "a recursive query that has further rows where the level before has none",
            "recursion ends at a level without rows", "join the recursive part to the query itself: FROM t JOIN query",
        )  # fmt: skip
    around = read_by(made)
    if around and not needs(made.anchor, min(around)):
        raise refuse(
            "a recursive query inside another, whose recursive part alone reads the other one",
            "its first rows would be there again at each level of the other one",
            "read the other one in the first SELECT too, or make a view of what the first SELECT reads",
        )  # fmt: skip


def part(lowering: Lowering, plan: Any) -> Node:
    wanted = [a.exprId().id() for a in lowering.catalyst.items(plan.output())]
    return lowering.ordered(lowering.node(plan, set(wanted)), plan, wanted)


def previous(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """The rows of the level before, as a leaf."""
    attributes = lowering.catalyst.items(plan.output())
    types = tuple(type_text(a) for a in attributes)
    nullables = tuple(bool(a.nullable()) for a in attributes)
    between = lowering.around - lowering.loops[int(plan.loopId())] - 1  # Spark's own number is new at every planning
    return Feed(types, nullables, relation(between), tuple(range(len(types)))), [a.exprId().id() for a in attributes]
