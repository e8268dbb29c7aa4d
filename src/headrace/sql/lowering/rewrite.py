"""Plan nodes of Spark's own that lowering puts in the place of others."""

from __future__ import annotations

from functools import reduce
from typing import Any

from headrace.sql.build import Build
from headrace.sql.catalyst import Catalyst, singleton
from headrace.sql.java_names import class_name


class Rewrite(Build):
    """Makers of resolved plan nodes. Bound to one session."""

    def __init__(self, catalyst: Catalyst) -> None:
        super().__init__(catalyst)
        self.logical = catalyst.logical
        self.plans = catalyst.jvm.org.apache.spark.sql.catalyst.plans

    def join(self, kind: Any, left: Any, right: Any, condition: Any | None = None) -> Any:
        """``kind``: the name of a join type, or one."""
        join_type = singleton(self.plans, kind) if isinstance(kind, str) else kind
        hint = singleton(self.logical, "JoinHint").NONE()
        return self.logical.Join(left, right, join_type, self.some(condition), hint)

    def existence(self, flag: Any) -> Any:
        """The join type that marks each row of the left with a flag."""
        return self.plans.ExistenceJoin(flag)

    def filter(self, condition: Any, child: Any) -> Any:
        return self.logical.Filter(condition, child)

    def project(self, entries: list[Any], child: Any) -> Any:
        return self.logical.Project(self.catalyst.seq(entries), child)

    def union(self, children: list[Any]) -> Any:
        return self.logical.Union(self.catalyst.seq(children), False, False)

    def aggregate(self, keys: list[Any], entries: list[Any], child: Any) -> Any:
        return self.logical.Aggregate(self.catalyst.seq(keys), self.catalyst.seq(entries), child, self.none())

    def one_row(self, plan: Any) -> Any:
        """Spark's mark of a subquery's plan, for one that has one row in any case: NULL stands for none."""
        return self.logical.Subquery(plan, False)

    def count(self, argument: Any) -> Any:
        function = self.expressions.aggregate.Count(self.catalyst.seq([argument]))
        return function.toAggregateExpression(False, self.none())

    def output(self, plan: Any) -> list[Any]:
        return self.catalyst.items(plan.output())

    def attribute(self, of: Any) -> Any:
        """An attribute of the type of a value, with an id of its own."""
        return self.alias(of, "made").toAttribute()

    def all_of(self, parts: list[Any]) -> Any:
        return reduce(self.expressions.And, parts)

    def any_of(self, parts: list[Any]) -> Any:
        return reduce(self.expressions.Or, parts)

    def conjuncts(self, condition: Any) -> list[Any]:
        """The parts of a condition that AND joins, in order."""
        if class_name(condition) != "And":
            return [condition]
        return [part for side in self.catalyst.items(condition.children()) for part in self.conjuncts(side)]
