"""Several DISTINCT aggregates as they were written, in the place of the two aggregates that Spark's optimizer makes of
them: over each row once for every set of distinct arguments, whose order is another at every planning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.sql.build import Build
from headrace.sql.java_names import class_name
from headrace.sql.tree import Tree

_SET = "gid"  # the attribute that tells the sets apart: 0 is that of the other aggregates


def together(build: Build, tree: Tree, plan: Any) -> Any:
    """One Aggregate over the input of the two; the plan itself where it is not such a pair."""
    inner = plan.child()
    if class_name(inner) != "Aggregate" or class_name(inner.child()) != "Expand":
        return plan
    keys = build.catalyst.items(inner.groupingExpressions())
    if not keys or class_name(keys[-1]) != "AttributeReference" or keys[-1].name() != _SET:
        return plan
    return _Pair(build, tree, plan).one()


class _Pair:
    def __init__(self, build: Build, tree: Tree, plan: Any) -> None:
        self.build, self.tree, self.catalyst, self.plan = build, tree, build.catalyst, plan
        inner = plan.child()
        self.input = inner.child().child()
        outputs = [_id(a) for a in self.catalyst.items(inner.child().output())]
        self.set = _id(self.catalyst.items(inner.groupingExpressions())[-1])
        # The set's number -> what each column of the expanded input is there.
        self.columns: dict[int, dict[int, Any]] = {}
        for projection in self.catalyst.items(inner.child().projections()):
            columns = dict(zip(outputs, self.catalyst.items(projection), strict=True))
            self.columns[int(columns[self.set].value())] = columns
        self.keys = next(iter(self.columns.values()))
        self.partial = {_id(e): e for e in self.catalyst.items(inner.aggregateExpressions())}

    def one(self) -> Any:
        changed = self.tree.with_expressions(self.plan, self.named)
        return changed.withNewChildren(self.catalyst.seq([self.input]))

    def named(self, expression: Any) -> Any:
        """A grouping expression or result, which keeps its name and id."""
        if class_name(expression) != "AttributeReference":
            return self.over_groups(expression)
        known = self.keys[_id(expression)]
        if class_name(known) == "AttributeReference" and _id(known) == _id(expression):
            return expression
        nothing = self.catalyst.seq([])
        return self.build.expressions.Alias(
            known, expression.name(), expression.exprId(), nothing, self.build.none(), nothing
        )

    def over_groups(self, expression: Any) -> Any:
        kind = class_name(expression)
        if kind == "AggregateExpression":
            return self.aggregate(expression)
        if kind == "AttributeReference":
            return self.keys[_id(expression)]
        return self.rebuilt(expression, self.over_groups)

    def aggregate(self, aggregate: Any) -> Any:
        """``first(partial result) FILTER (gid = 0)`` is that aggregate; ``f(x) FILTER (gid = n)`` is f(DISTINCT x)."""
        number, conditions = self.chosen(aggregate.filter().get())
        function = aggregate.aggregateFunction()
        if number == 0:
            return self.expanded(self.partial[_id(function.child())].child(), 0)
        found = [self.partial[_id(c)].child().aggregateFunction().child() for c in conditions]
        condition = self.build.some(self.expanded(found[0], number)) if found else self.build.none()
        return self.expanded(function, number).toAggregateExpression(True, condition)

    def chosen(self, condition: Any) -> tuple[int, list[Any]]:
        """The number in ``gid = number [and condition]``, and the condition if there is one."""
        if class_name(condition) == "And":
            parts = self.catalyst.items(condition.children())
            numbers = [(self.chosen(p)[0], i) for i, p in enumerate(parts) if class_name(p) == "EqualTo"]
            number, at = numbers[0]
            return number, [p for i, p in enumerate(parts) if i != at]
        left, right = self.catalyst.items(condition.children())
        return int((right if class_name(right) == "Literal" else left).value()), []

    def expanded(self, expression: Any, number: int) -> Any:
        """The expression over the input of the pair."""
        if class_name(expression) == "AttributeReference":
            return self.columns[number].get(_id(expression), expression)
        return self.rebuilt(expression, lambda child: self.expanded(child, number))

    def rebuilt(self, expression: Any, change: Callable[[Any], Any]) -> Any:
        children = self.catalyst.items(expression.children())
        if not children:
            return expression
        return expression.withNewChildren(self.catalyst.seq([change(child) for child in children]))


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())
