"""Which nodes have one row whatever their inputs hold, over nothing too."""

from __future__ import annotations

from headrace.circuit.local import Constant
from headrace.circuit.node import Aggregate, Join, Node, Project, Regroup, Sessions, Single

TRUE = Constant(True, "boolean")


def has_one_row(of: Node) -> bool:
    """Whether a node has one row whatever its inputs hold."""
    if isinstance(of, Project):
        return has_one_row(of.child)
    if isinstance(of, Join):
        return of.kind == "inner" and of.condition.local == TRUE and all(has_one_row(c) for c in of.children)
    if isinstance(of, Aggregate | Regroup):
        return not of.keys and not isinstance(of, Sessions)
    return isinstance(of, Single)
