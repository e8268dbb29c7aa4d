"""The operators there are: node -> the function that builds its delta."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from headrace.circuit import node
from headrace.circuit.appended import AppendAggregate, AppendSessions, AppendTopK
from headrace.circuit.operators import (
    aggregate,
    append_session,
    append_top_k,
    as_of,
    constant,
    feed,
    free_join,
    inner_join,
    limit,
    linear,
    ordered_aggregate,
    outer_join,
    regroup,
    running,
    session,
    single,
    threshold,
    top_k,
    window,
)

# Raised with every change of what an operator keeps or answers: views that were built by another are built anew.
REVISION = 6


def join_operator(join: node.Join) -> ModuleType:
    """The operator of a join: by its keys or, without any, over every pair."""
    if not join.left_keys:
        return free_join
    return inner_join if join.kind == "inner" else outer_join


def _join(builder: Any, join: node.Join) -> Any:
    return join_operator(join).delta(builder, join)


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
    AppendAggregate: ordered_aggregate.delta,
    node.Regroup: regroup.delta,
    node.Sessions: session.delta,
    AppendSessions: append_session.delta,
    node.Single: single.delta,
    node.Threshold: threshold.delta,
    node.Constant: constant.delta,
    node.Window: window.delta,
    node.TopK: top_k.delta,
    AppendTopK: append_top_k.delta,
    node.Running: running.delta,
    node.Limit: limit.delta,
    node.AsOf: as_of.delta,
}
