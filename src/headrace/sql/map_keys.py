"""Maps that rows are grouped by, and those that count(DISTINCT ..) takes, as the arrays of their entries.

An array has a hash, an equality and an order, in Spark as in what is kept. Maps lie in the order of their keys, so
equal ones have equal entries. Left to itself Spark's optimizer puts its MapSort around such a key: see SortedMaps.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import MapType

from headrace.sql.build import Build
from headrace.sql.java_names import class_name
from headrace.sql.per_type import PerType, holds_map, with_values

_NAME = "_entries"


class MapKeys:
    """The rewriting of analyzed plans. Bound to one session."""

    def __init__(self, build: Build, per_type: PerType) -> None:
        self.build, self.catalyst, self.per_type = build, build.catalyst, per_type

    def counted(self, aggregate: Any) -> Any:
        """An aggregate expression over entries where it counts distinct maps."""
        function = aggregate.aggregateFunction()
        if not aggregate.isDistinct() or class_name(function) != "Count":
            return aggregate
        arguments = self.catalyst.items(function.children())
        if not any(map(holds_map, arguments)):
            return aggregate
        new = [self.per_type.changed(a, a.dataType(), entries) if holds_map(a) else a for a in arguments]
        return function.withNewChildren(self.catalyst.seq(new)).toAggregateExpression(True, aggregate.filter())

    def grouped(self, plan: Any) -> Any:
        """An Aggregate by entries in the place of one by maps; names and ids of the output stay."""
        groups = self.catalyst.items(plan.groupingExpressions())
        maps = [g for g in groups if holds_map(g)]
        if not maps:
            return plan
        keys = [self.build.alias(self.per_type.changed(m, m.dataType(), entries), _NAME) for m in maps]
        again = [
            self.per_type.changed(key.toAttribute(), m.dataType(), entries, of_entries)
            for key, m in zip(keys, maps, strict=True)
        ]

        def shown(expression: Any) -> Any:
            for group, made in zip(maps, again, strict=True):
                if group.semanticEquals(expression):
                    return made
            children = self.catalyst.items(expression.children())
            if not children or class_name(expression) == "AggregateExpression":
                return expression
            return expression.withNewChildren(self.catalyst.seq([shown(child) for child in children]))

        seq, by_entries = self.catalyst.seq, iter(keys)
        new = [next(by_entries).toAttribute() if holds_map(g) else g for g in groups]
        results = [
            self.build.named(shown(e), e) if class_name(e) == "AttributeReference" else shown(e)
            for e in self.catalyst.items(plan.aggregateExpressions())
        ]
        below = self.catalyst.logical.Project(seq([*self.catalyst.items(plan.child().output()), *keys]), plan.child())
        return self.catalyst.logical.Aggregate(seq(new), seq(results), below, plan.hint())


def entries(kind: MapType, value: str) -> str:
    """SQL for a map's entries, in which maps are their entries too."""
    return with_values(kind, f"map_entries({value})", entries)


def of_entries(kind: MapType, value: str) -> str:
    """SQL for the map that has such entries."""
    return f"map_from_entries({with_values(kind, value, of_entries)})"
