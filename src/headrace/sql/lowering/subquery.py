"""Lowering of subqueries used as values: each becomes a side with one row, joined to every row of what uses it.

Where a condition uses one, the join evaluates it and the value goes no further: rows whose answer stays the same are
not touched. A conjunct that compares a row's own value with one that is the same for all rows is a threshold. Spark
turns an uncorrelated EXISTS into such a value too: a constant, or NULL for no row.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.circuit.node import Single
from headrace.circuit.one_row import has_one_row
from headrace.sql.java_names import class_name
from headrace.sql.lowering.base import Lowered, Lowering, Rule, id_of, names_of, refuse
from headrace.sql.lowering.clock import MIRRORED, isolated, of_clock, refuse_clock
from headrace.sql.lowering.rewrite import Rewrite
from headrace.sql.lowering.threshold import SIGNS, comparable, total
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
        self.lowering, self.catalyst, self.plan = lowering, lowering.catalyst, plan
        self.tree, self.make = Tree(lowering.catalyst), Rewrite(lowering.catalyst)
        self.found: list[tuple[Any, Any, Any]] = []  # expression, its plan with one row, the attribute in its place

    def rewritten(self) -> Any:
        kind = class_name(self.plan)
        if kind == "Filter":
            return self.filtered(self.plan.condition(), self.plan.child())
        pulled = self.pulled() if kind == "Join" and class_name(self.plan.joinType()) in ("Inner", "Cross") else None
        if pulled is not None:
            return pulled
        if any(of_clock(self.make, e) for e in self.catalyst.items(self.plan.expressions())):
            raise refuse_clock(kind)
        if kind == "Aggregate" and any(map(self.beside, self.catalyst.items(self.plan.aggregateExpressions()))):
            return self.over_groups()
        plan = self.tree.with_expressions(self.plan, self.replaced)
        first, *others = self.catalyst.items(plan.children())
        for _, row, _ in self.found:
            first = self.make.join("Inner", first, row)
        return plan.withNewChildren(self.catalyst.seq([first, *others]))

    def pulled(self) -> Any | None:
        """An inner join, then a filter by the conjuncts that use subqueries. None where the pairs would be too many."""
        parts = self.make.conjuncts(self.plan.condition().get())
        rest = [part for part in parts if not self.uses(part)]
        if not any(class_name(p) in ("EqualTo", "EqualNullSafe") for p in rest) and not any(
            of_clock(self.make, p) for p in parts
        ):
            return None
        condition = self.make.all_of(rest) if rest else None
        joined = self.make.join(self.plan.joinType(), self.plan.left(), self.plan.right(), condition)
        return self.filtered(self.make.all_of([p for p in parts if self.uses(p)]), joined)

    def beside(self, expression: Any) -> bool:
        """Whether a subquery stands in an entry of an aggregate's SELECT list, outside of its functions."""
        kind = class_name(expression)
        if kind in ("ScalarSubquery", "AggregateExpression"):
            return kind == "ScalarSubquery"
        return any(map(self.beside, self.catalyst.items(expression.children())))

    def over_groups(self) -> Any:
        """An aggregate of what stands beside the subqueries, then the SELECT list over its rows.

        As large parts as there are, so that what the canonical form has put around a function stays with it.
        """
        parts: list[Any] = []

        def over_rows(expression: Any) -> Any:
            if class_name(expression) in ("Literal", "ScalarSubquery"):
                return expression
            if not self.beside(expression):
                parts.append(self.make.alias(expression, "part"))
                return parts[-1].toAttribute()
            new = [over_rows(child) for child in self.catalyst.items(expression.children())]
            return expression.withNewChildren(self.catalyst.seq(new))

        entries, keys = self.catalyst.items(self.plan.aggregateExpressions()), self.plan.groupingExpressions()
        values = [over_rows(e.child() if class_name(e) == "Alias" else e) for e in entries]
        groups = self.make.aggregate(self.catalyst.items(keys), parts, self.plan.child())
        return self.make.project([self.make.named(v, e) for v, e in zip(values, entries, strict=True)], groups)

    def filtered(self, condition: Any, child: Any) -> Any:
        """What comes before the first subquery is tested first, so that fewer rows are kept for the rest; so is what
        cannot throw. The others keep their order."""
        parts = self.make.conjuncts(condition)
        first = next(i for i, part in enumerate(parts) if self.uses(part))
        early = [p for i, p in enumerate(parts) if i < first or (not self.uses(p) and self.calm(p))]
        plan = self.make.filter(self.make.all_of(early), child) if early else child
        waiting: list[Any] = []
        for part in parts:
            if any(part is p for p in early):
                continue
            threshold = self.threshold(part)
            if threshold is None:
                waiting.append(part)
                continue
            plan = self.make.join("LeftSemi", self.joined(plan, waiting), *threshold)
            waiting = []
        return self.joined(plan, waiting)

    def joined(self, child: Any, parts: list[Any]) -> Any:
        """The rows for which all these conjuncts hold, tested together."""
        if not parts:
            return child
        condition = self.make.all_of([self.replaced(part) for part in parts])
        used = self.lowering.references([condition])
        rows = [row for _, row, attribute in self.found if id_of(attribute) in used]
        if not rows:
            return self.make.filter(condition, child)
        row = rows[0]
        for other in rows[1:]:
            row = self.make.join("Inner", row, other)
        return self.make.join("LeftSemi", child, self.make.one_row(row), condition)

    def threshold(self, part: Any) -> tuple[Any, Any] | None:
        """(a plan with one row and one column, a row's value compared with that column), or None for other forms."""
        if of_clock(self.make, part, alone=True):  # true or false for all rows at once
            part = self.make.expressions.LessThanOrEqual(self.make.literal(True), part)
        if class_name(part) not in SIGNS:
            return None
        part = isolated(self.make, part)
        kind, (left, right) = class_name(part), self.catalyst.items(part.children())
        if self.uses(left):
            kind, left, right = MIRRORED[kind], right, left
        if self.uses(left) or not self.uses(right) or not comparable(left):
            return None
        bound = self.replaced(right)
        known = {id_of(attribute): row for _, row, attribute in self.found}
        used = self.lowering.references([bound])
        if not used <= known.keys() or not total(self.make, bound):
            return None
        if class_name(bound) == "AttributeReference":
            return known[id_of(bound)], getattr(self.make.expressions, kind)(left, bound)
        first, *others = [known[i] for i in sorted(used)]
        for other in others:
            first = self.make.join("Inner", first, other)
        named = self.make.alias(bound, "bound")
        row = self.make.one_row(self.make.project([named], first))
        return row, getattr(self.make.expressions, kind)(left, named.toAttribute())

    def calm(self, part: Any) -> bool:
        """Whether a condition is known not to throw on any row."""
        names = names_of(sorted(self.lowering.references([part])))
        local = self.catalyst.expression(part, names).local
        return local is not None and not local.throws

    def known(self, expression: Any) -> bool:
        """Whether the expression has no subquery of another kind than those used as values."""
        if class_name(expression) in ("ListQuery", "Exists", "LateralSubquery"):
            return False
        return all(self.known(child) for child in self.catalyst.items(expression.children()))

    def uses(self, expression: Any) -> bool:
        found = class_name(expression) == "ScalarSubquery"
        return found or any(self.uses(child) for child in self.catalyst.items(expression.children()))

    def replaced(self, expression: Any) -> Any:
        """The expression with an attribute in the place of each subquery, and of all that follows from the clock."""
        if of_clock(self.make, expression, alone=True) or class_name(expression) == "ScalarSubquery":
            return self.value(expression)
        children = self.catalyst.items(expression.children())
        new = [self.replaced(child) for child in children]
        if all(a is b for a, b in zip(children, new, strict=True)):
            return expression
        return expression.withNewChildren(self.catalyst.seq(new))

    def value(self, expression: Any) -> Any:
        for known, _, attribute in self.found:
            if known.semanticEquals(expression):
                return attribute
        plan, value = self.of_subquery(expression)
        named = self.make.alias(value, "value")
        attribute = named.toAttribute().withNullability(True)
        self.found.append((expression, self.make.one_row(self.make.project([named], plan)), attribute))
        return attribute

    def of_subquery(self, expression: Any) -> tuple[Any, Any]:
        """(the plan, the value over it) of a subquery, or of what follows from one over the clock."""
        if class_name(expression) == "ScalarSubquery" and not of_clock(self.make, expression):
            plan = existing(self.make, expression.plan())
            return plan, self.make.output(plan)[0]
        plans: list[Any] = []

        def part(inner: Any) -> Any:
            if class_name(inner) != "ScalarSubquery":
                return inner
            plans.append(inner.plan())
            return self.make.output(plans[0])[0]

        value = self.tree.transformed(expression, part)
        return plans[0], value


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
