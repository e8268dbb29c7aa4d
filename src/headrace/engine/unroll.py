"""Recursive queries as circuits: one for each level, and the feed of all of them.

A loop whose nodes read a level of another, being in its body, is one loop for each level it reads. Its name tells that
level behind ``OF``, so that whoever sees a circuit knows all levels that it is worked out for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from headrace.circuit.levels import over
from headrace.circuit.node import PREVIOUS, Feed, Loop, Node, with_children
from headrace.circuit.operators.feed import ALL
from headrace.circuit.operators.recursion import LEVELS

LOOP = "loop:"
OF = "<"
FIRST_DEPTH = 4  # levels that a circuit is made for before rows have reached the last of them


def unroll(views: Mapping[str, Node], depths: Mapping[str, int]) -> tuple[dict[str, Node], dict[str, Node]]:
    """(views that read loops as feeds, level's name -> its root). Levels of one loop are in order.

    ``depths``: loop -> its deepest level, where that is not ``FIRST_DEPTH``.
    """
    made: dict[str, Node] = {}
    for name, root in views.items():
        made.update(in_turn(name, root, lambda loop, level: level <= depths.get(loop, FIRST_DEPTH), made))
    return {name: made.pop(name) for name in views}, made


def in_turn(
    name: str, root: Node, goes_on: Callable[[str, int], bool], known: Iterable[str] = ()
) -> Iterator[tuple[str, Node]]:
    """A view's circuits by name, those of levels after what they read, the view last. Not those of ``known`` loops.

    ``goes_on``: whether a loop has this level; it is asked when all before have been taken.
    """
    begun = {found[0] for found in map(loop_of, known) if found is not None}
    whole = yield from _unrolled(root, goes_on, begun)
    yield name, whole


def _unrolled(
    node: Node, goes_on: Callable[[str, int], bool], begun: set[str]
) -> Generator[tuple[str, Node], None, Node]:
    """The node with its loops as feeds."""
    if not isinstance(node, Loop):
        children = []
        for child in node.children:
            children.append((yield from _unrolled(child, goes_on, begun)))
        return with_children(node, children)
    feed = as_feed(node)
    loop = feed.relation.rpartition(":")[0]
    if loop not in begun:
        begun.add(loop)
        anchor = yield from _unrolled(node.anchor, goes_on, begun)
        yield named(loop, 0), anchor
        for level in range(1, LEVELS + 1):
            if not goes_on(loop, level):
                break
            body = yield from _unrolled(over(node.body, named(loop, level - 1)), goes_on, begun)
            yield named(loop, level), body
    return feed


def as_feed(loop: Loop) -> Feed:
    """What reads all levels of a loop."""
    levels_read = [leaf.relation for leaf in loop.walk() if isinstance(leaf, Feed) and loop_of(leaf.relation)]
    nearest = max(levels_read, key=len, default="")  # the name of an inner loop holds those of the outer ones
    name = LOOP + loop.fingerprint + (OF + nearest.removeprefix(LOOP) if nearest else "")
    return Feed(loop.types, loop.nullables, f"{name}:{ALL}", tuple(range(len(loop.types))))


def without_loops(node: Node) -> Node:
    """The node as its circuit has it: its loops, each a circuit of its own, as feeds."""
    if isinstance(node, Loop):
        return as_feed(node)
    return with_children(node, [without_loops(child) for child in node.children])


def named(loop: str, level: int) -> str:
    return f"{loop}:{level:03}"


def loop_of(name: str) -> tuple[str, int] | None:
    """(loop, level) of a level's name; None for every other circuit's."""
    loop, _, level = name.rpartition(":")
    return (loop, int(level)) if name.startswith(LOOP) and level != ALL else None


def worked_for(name: str) -> list[tuple[str, int]]:
    """(loop, level) of a level's name, then of the level of the loop around that it is part of, and so on."""
    levels: list[tuple[str, int]] = []
    found = loop_of(name)
    while found is not None:
        levels.append(found)
        _, _, read = found[0].partition(OF)
        before = loop_of(LOOP + read) if read else None
        found = (before[0], before[1] + 1) if before is not None else None
    return levels


def waits(name: str) -> bool:
    """Whether a level's circuit does what another does for the level before: that one must always be there."""
    return any(level > 1 for _, level in worked_for(name))


def levels_before(name: str, inputs: Iterable[str]) -> set[str]:
    """Those of a level's inputs that are levels too, with the same outermost loop."""
    outermost = worked_for(name)[-1][0]
    return {i for i in inputs if loop_of(i) is not None and worked_for(i)[-1][0] == outermost}


def is_of_level(node: Node) -> bool:
    """Whether a node reads one level of a loop, or a loop that does."""
    relations = (leaf.relation for leaf in node.walk() if isinstance(leaf, Feed))
    return any(loop_of(r) is not None or (r.startswith(LOOP) and OF in r) for r in relations)


def deeper(outputs: Iterable[str], levels: Iterable[str]) -> dict[str, int]:
    """New depths of the loops in which rows have reached the deepest of ``levels``."""
    deepest: dict[str, int] = {}
    for loop, level in filter(None, map(loop_of, levels)):
        deepest[loop] = max(level, deepest.get(loop, 0))
    worked = {found for name in outputs for found in worked_for(name)}
    reached = {loop for loop, level in worked if level == deepest[loop] < LEVELS}
    return {loop: min(2 * deepest[loop], LEVELS) for loop in reached}


def inputs_of(root: Node, loops: Mapping[str, set[str]]) -> frozenset[str]:
    """The circuits that one reads. ``loops``: the feed of all levels of a loop -> the levels."""
    return frozenset(name for feed in feeds_of(root) for name in loops.get(feed, {feed}))


def by_loop(levels: Iterable[str]) -> dict[str, set[str]]:
    """The feed of all levels of a loop -> the levels."""
    loops: dict[str, set[str]] = {}
    for name in levels:
        loops.setdefault(f"{name.rpartition(':')[0]}:{ALL}", set()).add(name)
    return loops


def feeds_of(root: Node) -> set[str]:
    """The feeds a circuit reads; all levels of a loop under one name."""
    return {leaf.relation for leaf in root.walk() if isinstance(leaf, Feed) and not leaf.relation.startswith(PREVIOUS)}
