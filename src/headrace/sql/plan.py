"""Catalyst's optimized plan lowered to nodes; what no operator covers yet is refused with the clause named."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Node
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name
from headrace.sql.lowering.as_of import as_of
from headrace.sql.lowering.base import Lowered, Lowering, Rule
from headrace.sql.lowering.constants import nothing_but_a_row, numbers, values
from headrace.sql.lowering.join import join
from headrace.sql.lowering.limit import limit
from headrace.sql.lowering.linear import expand, generate, leaf, project, union
from headrace.sql.lowering.recursion import loop, previous
from headrace.sql.lowering.session import grouped
from headrace.sql.lowering.subquery import one_row, with_values
from headrace.sql.lowering.top_k import filtered
from headrace.sql.lowering.window import window


def below(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """A plan node that changes no contents."""
    return lowering.node(plan.child(), needed)


RULES: dict[str, Rule] = {
    "MapInArrow": leaf,
    "Project": with_values(project),
    "Filter": with_values(filtered),
    "Union": union,
    "Expand": with_values(expand),
    "Generate": with_values(generate),
    "Join": with_values(join),
    "AsOfJoin": as_of,
    "Aggregate": with_values(grouped),
    "Window": with_values(window),
    "GlobalLimit": limit,
    "LocalLimit": limit,
    "Offset": limit,
    "UnionLoop": loop,
    "UnionLoopRef": previous,
    "Subquery": one_row,
    "LocalRelation": values,
    "OneRowRelation": nothing_but_a_row,
    "Range": numbers,
    "SubqueryAlias": below,
    "WindowGroupLimit": below,
    "RepartitionByExpression": below,
}


def lower(catalyst: Catalyst, optimized: Any) -> Node:
    """The node tree of an optimized plan. Raises ``HeadraceError`` (sql.not_incremental), naming the clause."""
    lowering = Lowering(catalyst, RULES)
    plan = optimized
    while class_name(plan) == "Sort":  # an order of presentation changes no contents
        plan = plan.child()
    wanted = [attribute.exprId().id() for attribute in catalyst.items(plan.output())]
    return lowering.ordered(lowering.node(plan, set(wanted)), plan, wanted)
