"""What the body of a recursive query has of the level before: its own, and that of the queries around it.

``around`` is the number of such a query as a node below it sees it: 0 is the nearest one, whose body the node is part
of, 1 the one whose body that query is part of.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.circuit.node import (
    PREVIOUS,
    AsOf,
    Constant,
    Feed,
    Join,
    Loop,
    Node,
    Threshold,
    Union,
    with_children,
)
from headrace.circuit.one_row import has_one_row


def relation(around: int) -> str:
    """The name by which the level before is read."""
    return f"{PREVIOUS}{around}"


def over(body: Node, name: str, around: int = 0) -> Node:
    """The body of a loop with the relation of this name in the place of the level before."""
    if isinstance(body, Feed):
        return replace(body, relation=name) if body.relation == relation(around) else body
    inside = [around + 1 if isinstance(body, Loop) and child is body.body else around for child in body.children]
    return with_children(body, [over(child, name, n) for child, n in zip(body.children, inside, strict=True)])


def read_by(of: Node) -> set[int]:
    """The queries around a node of which it reads the level before."""
    if isinstance(of, Feed):
        return {int(of.relation.removeprefix(PREVIOUS))} if of.relation.startswith(PREVIOUS) else set()
    if isinstance(of, Loop):
        return read_by(of.anchor) | {n - 1 for n in read_by(of.body) if n > 0}
    return {n for child in of.children for n in read_by(child)}


def needs(of: Node, around: int) -> bool:
    """Whether a node has no rows where that level before has none."""

    def one(*children: Node) -> bool:
        return any(needs(child, around) for child in children)

    match of:
        case Feed():
            return of.relation == relation(around)
        case Constant():
            return len(of.rows) == 0
        case Union():
            return all(one(child) for child in of.inputs)
        case Join(kind="inner" | "semi" | "filter"):
            return one(of.left, of.right)
        case Join(kind="full"):
            return one(of.left) and one(of.right)
        case Join() | Threshold():
            return one(of.left)
        case Loop():
            return one(of.anchor)
        case AsOf(child=Union(inputs=(left, *_))):
            return one(left)
    return not has_one_row(of) and one(*of.children)
