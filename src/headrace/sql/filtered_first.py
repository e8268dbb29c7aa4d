"""HAVING before what may throw: the values that a query makes of its aggregates are made of the groups that it keeps.

Spark's Aggregate says both, ``sum(x) / sum(y)`` and the ``sum(y)`` that a Filter above it asks for; it evaluates them
as late as it can, so that a row that the filter takes away is never divided. A circuit evaluates what a node says.
"""

from __future__ import annotations

from typing import Any

from headrace.sql.build import Build
from headrace.sql.java_names import class_name
from headrace.sql.tree import Tree


class FilteredFirst:
    """Bound to one session."""

    def __init__(self, build: Build, tree: Tree) -> None:
        self.build, self.tree, self.catalyst = build, tree, build.catalyst

    def plan(self, plan: Any) -> Any:
        """A Filter over an Aggregate as a Project over the same Filter over plain aggregates; another plan as it is."""
        if class_name(plan) != "Filter" or class_name(plan.child()) != "Aggregate":
            return plan
        aggregate = plan.child()
        results = self.catalyst.items(aggregate.aggregateExpressions())
        if not any(map(_made, results)):
            return plan
        inner, known, values, shown = list[Any](), dict[str, Any](), dict[int, Any](), list[Any]()

        def below(part: Any) -> Any:
            """The expression with each aggregate as the column of the new Aggregate that has it."""
            kind = class_name(part)
            if kind not in ("AggregateExpression", "AttributeReference"):
                children = self.catalyst.items(part.children())
                changed = [below(child) for child in children]
                same = all(a is b for a, b in zip(children, changed, strict=True))
                return part if same else part.withNewChildren(self.catalyst.seq(changed))
            name = str(part.canonicalized().toString())
            if name not in known:
                column = part if kind == "AttributeReference" else self.build.alias(part, "made")
                inner.append(column)
                known[name] = column.toAttribute()
            return known[name]

        for result in results:
            if _made(result):
                changed = below(result)
                values[result.exprId().id()] = changed.child()
                shown.append(changed)
            else:
                inner.append(result)
                known.setdefault(str(_value(result).canonicalized().toString()), result.toAttribute())
                shown.append(result.toAttribute())

        def above(part: Any) -> Any:
            is_value = class_name(part) == "AttributeReference" and part.exprId().id() in values
            return values[part.exprId().id()] if is_value else part

        condition = self.tree.transformed(plan.condition(), above)
        groups = self.catalyst.logical.Aggregate(
            aggregate.groupingExpressions(), self.catalyst.seq(inner), aggregate.child(), aggregate.hint()
        )
        kept = self.catalyst.logical.Filter(condition, groups)
        return self.catalyst.logical.Project(self.catalyst.seq(shown), kept)


def _value(result: Any) -> Any:
    return result.child() if class_name(result) == "Alias" else result


def _made(result: Any) -> bool:
    """Whether it is more than a grouping column or an aggregate."""
    return class_name(result) == "Alias" and class_name(result.child()) not in ("AggregateExpression", "Literal")
