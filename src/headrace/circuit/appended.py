"""Input that only ever grows: which part of a query is such, and the operators that need to keep less of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, fields
from typing import TypeVar

from headrace.circuit.extremes import WHOLE
from headrace.circuit.node import (
    Accumulation,
    Aggregate,
    Expand,
    Feed,
    Filter,
    Generate,
    Join,
    Node,
    OrderedAggregate,
    Project,
    TopK,
    Union,
    with_children,
)

Kind = TypeVar("Kind", bound=Node)


@dataclass(frozen=True)
class AppendTopK(TopK):
    """A top-k by row_number over rows that only ever come."""


def only_comes(of: Node, appended: Set[str]) -> bool:
    """Whether rows of a node's result are only ever added; ``appended``: the feeds of which that holds."""
    if isinstance(of, Feed):
        return not of.without and of.relation in appended
    if isinstance(of, Join) and of.kind != "inner":
        return False
    linear = isinstance(of, Project | Filter | Generate | Expand | Union | Join)
    return linear and all(only_comes(child, appended) for child in of.children)


def with_less_kept(of: Node, appended: Set[str]) -> Node:
    """The same query by operators that rely on their input only ever growing, where it does."""
    made = with_children(of, [with_less_kept(child, appended) for child in of.children])
    if isinstance(made, TopK) and made.function == "row_number" and only_comes(made.child, appended):
        return _as(AppendTopK, made)
    running = isinstance(made, OrderedAggregate) and all(map(_running, made.accumulations))
    if isinstance(made, OrderedAggregate) and running and only_comes(made.child, appended):
        return _as(Aggregate, made)
    return made


def _as(kind: type[Kind], of: Node) -> Kind:
    """A node of another kind with the same fields."""
    return kind(**{each.name: getattr(of, each.name) for each in fields(of)})


def _running(accumulation: Accumulation) -> bool:
    """Whether more rows change the value without a look at those that were there."""
    if accumulation.function in ("min", "max"):
        return accumulation.arguments[0].type in WHOLE
    return not accumulation.distinct and accumulation.function not in ("mode", "percentile", "percentile_disc")
