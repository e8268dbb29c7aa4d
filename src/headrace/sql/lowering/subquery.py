"""Lowering of subqueries used as values: each becomes a side with one row, joined to every row of what uses it.

Where a condition uses one, the join evaluates it and the value goes no further: rows whose answer stays the same are
not touched. Spark turns an uncorrelated EXISTS into such a value too: a constant, or NULL for no row.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.circuit.node import Single, has_one_row
from headrace.sql.catalyst import class_name
from headrace.sql.lowering.base import Lowered, Lowering, Rule, refuse
from headrace.sql.lowering.rewrite import Rewrite
from headrace.sql.tree import Tree


def with_values(rule: Rule) -> Rule:
    """The rule, for plans without subqueries used as values: those that have some are made into such."""
    return partial(_with_values, rule)


def _with_values(rule: Rule, lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    if plan.subqueries().isEmpty():
        return rule(lowering, plan, needed)
    values = Values(lowering, plan)
    if not all(values.known(e) for e in lowering.catalyst.items(plan.expressions())):
        raise refuse("IN (SELECT ...) or EXISTS here", "Spark has not made a join of it", "use it in WHERE or SELECT")
    return lowering.node(values.rewritten(), needed)


class Values:
    """A plan node whose expressions contain subqueries used as values."""

    def __init__(self, lowering: Lowering, plan: Any) -> None:
        self.catalyst, self.plan = lowering.catalyst, plan
        self.tree, self.make = Tree(lowering.catalyst), Rewrite(lowering.catalyst)
        self.found: list[tuple[Any, Any, Any]] = []  # subquery, its plan with one row, the attribute in its place

    def rewritten(self) -> Any:
        if class_name(self.plan) == "Filter":
            return self.filtered()
        plan = self.tree.with_expressions(self.plan, self.replaced)
        first, *others = self.catalyst.items(plan.children())
        for _, row, _ in self.found:
            first = self.make.join("Inner", first, row)
        return plan.withNewChildren(self.catalyst.seq([first, *others]))

    def filtered(self) -> Any:
        """What comes before the first subquery is tested first, so that fewer rows are kept for the rest."""
        parts, child = self.make.conjuncts(self.plan.condition()), self.plan.child()
        first = next(i for i, part in enumerate(parts) if self.uses(part))
        if first:
            child = self.make.filter(self.make.all_of(parts[:first]), child)
        condition = self.make.all_of([self.replaced(part) for part in parts[first:]])
        row = self.found[0][1]
        for _, other, _ in self.found[1:]:
            row = self.make.join("Inner", row, other)
        return self.make.join("LeftSemi", child, self.make.one_row(row), condition)

    def known(self, expression: Any) -> bool:
        """Whether the expression has no subquery of another kind than those used as values."""
        if class_name(expression) in ("ListQuery", "Exists", "LateralSubquery"):
            return False
        return all(self.known(child) for child in self.catalyst.items(expression.children()))

    def uses(self, expression: Any) -> bool:
        found = class_name(expression) == "ScalarSubquery"
        return found or any(self.uses(child) for child in self.catalyst.items(expression.children()))

    def replaced(self, expression: Any) -> Any:
        return self.tree.transformed(expression, self.part)

    def part(self, expression: Any) -> Any:
        if class_name(expression) != "ScalarSubquery":
            return expression
        for known, _, attribute in self.found:
            if known.semanticEquals(expression):
                return attribute
        value = existing(self.make, expression.plan())
        named = self.make.alias(self.make.output(value)[0], "value")
        attribute = named.toAttribute().withNullability(True)
        self.found.append((expression, self.make.one_row(self.make.project([named], value)), attribute))
        return attribute


def existing(make: Rewrite, plan: Any) -> Any:
    """The plan of an EXISTS, one constant row if there are rows at all, as an aggregate that has a row always."""
    if class_name(plan) != "GlobalLimit" or class_name(plan.limitExpr()) != "Literal":
        return plan
    below = plan.child().child()
    while class_name(below) == "Sort":
        below = below.child()
    entries = make.catalyst.items(below.projectList()) if class_name(below) == "Project" else []
    constant = len(entries) == 1 and class_name(entries[0]) == "Alias" and class_name(entries[0].child()) == "Literal"
    if not constant or int(plan.limitExpr().value()) != 1:
        return plan
    rows, value = make.count(make.literal(1)), entries[0].child()
    some = make.expressions.GreaterThan(rows, make.cast(make.literal(0), rows.dataType()))
    shown = make.expressions.If(some, value, make.null(value.dataType()))
    return make.aggregate([], [make.alias(shown, "found")], below.child())


def one_row(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    """The plan under Spark's mark of a subquery, made to have one row in any case."""
    child, ids = lowering.node(plan.child(), needed)
    if has_one_row(child):
        return child, ids
    return Single(child.types, (True,) * len(child.types), child), ids
