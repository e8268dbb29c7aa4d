"""Recursive queries as circuits: one for each level, and the feed of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from headrace.circuit.node import PREVIOUS, Feed, Loop, Node
from headrace.circuit.operators.feed import ALL
from headrace.circuit.operators.recursion import LEVELS

LOOP = "loop:"
FIRST_DEPTH = 4  # levels that a circuit is made for before rows have reached the last of them


def unroll(
    views: Mapping[str, Node], depths: Mapping[str, int], otherwise: int = FIRST_DEPTH
) -> tuple[dict[str, Node], dict[str, Node]]:
    """(views that read loops as feeds, level's name -> its root). Levels of one loop are in order.

    ``depths``: loop -> its deepest level, which is ``otherwise`` for all others.
    """
    levels: dict[str, Node] = {}

    def replaced(node: Node) -> Node:
        whole = with_children(node, [replaced(child) for child in node.children])
        if not isinstance(whole, Loop):
            return whole
        loop = LOOP + node.fingerprint
        levels[named(loop, 0)] = whole.anchor
        for level in range(1, depths.get(loop, otherwise) + 1):
            levels[named(loop, level)] = following(whole.body, named(loop, level - 1))
        return Feed(whole.types, whole.nullables, f"{loop}:{ALL}", tuple(range(len(whole.types))))

    return {name: replaced(root) for name, root in views.items()}, levels


def named(loop: str, level: int) -> str:
    return f"{loop}:{level:03}"


def loop_of(name: str) -> tuple[str, int] | None:
    """(loop, level) of a level's name; None for every other circuit's."""
    loop, _, level = name.rpartition(":")
    return (loop, int(level)) if name.startswith(LOOP) and level != ALL else None


def following(body: Node, previous: str) -> Node:
    """The body of a loop over the rows of one level."""
    if isinstance(body, Feed) and body.relation.startswith(PREVIOUS):
        return replace(body, relation=previous)
    return with_children(body, [following(child, previous) for child in body.children])


def level_before(name: str) -> str | None:
    """The level that a level's circuit repeats the body over, from the second on: the first must always be there."""
    found = loop_of(name)
    return named(found[0], found[1] - 1) if found is not None and found[1] > 1 else None


def deeper(outputs: Iterable[str], levels: Iterable[str]) -> dict[str, int]:
    """New depths of the loops in which rows have reached the deepest of ``levels``."""
    deepest: dict[str, int] = {}
    for loop, level in filter(None, map(loop_of, levels)):
        deepest[loop] = max(level, deepest.get(loop, 0))
    reached = {loop for loop, level in filter(None, map(loop_of, outputs)) if level == deepest[loop] < LEVELS}
    return {loop: min(2 * deepest[loop], LEVELS) for loop in reached}


def feeds_of(root: Node) -> set[str]:
    """The feeds a circuit reads; all levels of a loop under one name."""
    return {leaf.relation for leaf in root.walk() if isinstance(leaf, Feed) and not leaf.relation.startswith(PREVIOUS)}


def with_children(node: Node, children: list[Node]) -> Node:
    """The same node over other children; its fingerprint must not change by that."""
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    remaining = iter(children)
    changes: dict[str, object] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changes[field.name] = next(remaining)
        elif isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
            changes[field.name] = tuple(next(remaining) for _ in value)
    return replace(node, **changes)  # type: ignore[arg-type]
