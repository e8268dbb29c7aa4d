"""Input that only ever grows: which part of a query is such, and the operators that need to keep less of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, fields
from typing import TypeVar

from pyspark.sql import functions as F

from headrace.circuit.local import Reference
from headrace.circuit.node import (
    Accumulation,
    Aggregate,
    Expand,
    Expression,
    Feed,
    Filter,
    Generate,
    Join,
    Node,
    OrderedAggregate,
    Project,
    Sessions,
    TopK,
    Union,
    with_children,
)
from headrace.circuit.slots import EXTREMES, RUNNING

Kind = TypeVar("Kind", bound=Node)


@dataclass(frozen=True)
class AppendTopK(TopK):
    """A top-k by row_number or rank over rows that only ever come."""


@dataclass(frozen=True)
class AppendAggregate(OrderedAggregate):
    """An aggregate of which some ask for each distinct value once, over rows that only ever come."""


@dataclass(frozen=True)
class AppendSessions(Aggregate):
    """An aggregate over session windows of rows that only ever come; the last key is each row's own window."""


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
    if isinstance(made, TopK) and made.function != "dense_rank" and only_comes(made.child, appended):
        return _as(AppendTopK, made)
    if isinstance(made, OrderedAggregate) and only_comes(made.child, appended):
        if all(map(running, made.accumulations)):
            return _as(Aggregate, made)
        if all(running(a) or a.distinct for a in made.accumulations):
            return _as(AppendAggregate, made)
    if isinstance(made, Sessions) and only_comes(made.child, appended) and all(map(running, made.accumulations)):
        return made if made.grouped is None else _sessions(made, made.grouped)
    return made


def _sessions(of: Sessions, results: tuple[Expression, ...]) -> AppendSessions:
    window = Expression(
        F.col(f"c{of.session}"), f"'c{of.session}:", of.child.types[of.session], False, Reference(f"c{of.session}")
    )
    return AppendSessions(of.types, of.nullables, of.child, (*of.normal, window), of.accumulations, results)


def _as(kind: type[Kind], of: Node) -> Kind:
    """A node of another kind with the same fields."""
    return kind(**{each.name: getattr(of, each.name) for each in fields(of)})


def running(accumulation: Accumulation) -> bool:
    """Whether more rows change the value without a look at those that were there."""
    if accumulation.function in EXTREMES:
        return accumulation.arguments[0].type in RUNNING
    return not accumulation.distinct and accumulation.function not in ("mode", "percentile", "percentile_disc")
