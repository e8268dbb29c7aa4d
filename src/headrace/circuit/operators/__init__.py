"""The operators there are: node -> the function that builds its delta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.circuit import node
from headrace.circuit.operators import (
    aggregate,
    feed,
    inner_join,
    linear,
    ordered_aggregate,
    outer_join,
    regroup,
    session,
    window,
)


def _join(builder: Any, join: node.Join) -> Any:
    return inner_join.delta(builder, join) if join.kind == "inner" else outer_join.delta(builder, join)


OPERATORS: dict[type[node.Node], Callable[[Any, Any], Any]] = {
    node.Feed: feed.delta,
    node.Shared: feed.delta,
    node.Project: linear.project,
    node.Filter: linear.filter_rows,
    node.Generate: linear.generate,
    node.Expand: linear.expand,
    node.Union: linear.union,
    node.Join: _join,
    node.Aggregate: aggregate.delta,
    node.OrderedAggregate: ordered_aggregate.delta,
    node.Regroup: regroup.delta,
    node.Sessions: session.delta,
    node.Window: window.delta,
}
