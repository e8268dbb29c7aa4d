"""Aggregates whose answer Spark leaves to the order of rows, rewritten so that the rows' contents determine it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sql.build import Build
from headrace.sql.catalyst import class_name, type_text
from headrace.sql.exact_sums import exact_mean, exact_sum
from headrace.sql.lowering.aggregate import ACCUMULATING, EXACT_INPUTS

_BITS = ("BitAndAgg", "BitOrAgg", "BitXorAgg", "BitmapAndAgg", "BitmapConstructAgg", "BitmapOrAgg")
UNTOUCHED = ("Count", "PivotFirst", *_BITS)
_INTEGRAL = ("tinyint", "smallint", "int", "bigint")


class Aggregates:
    """The rewriting of one aggregate expression. Bound to one session."""

    def __init__(self, build: Build) -> None:
        self.build, self.catalyst = build, build.catalyst
        self.made = build.expressions.aggregate
        self.rules: dict[str, Callable[[Any, Any, bool], Any]] = {
            **dict.fromkeys(UNTOUCHED, lambda aggregate, _, __: aggregate),
            "Max": self.normalized,
            "Min": self.normalized,
            "Percentile": self.normalized,
            "PercentileDisc": self.normalized,
            "CollectList": self.sorted,
            "CollectSet": self.sorted,
            "CollectUnion": self.sorted,
            "First": self.least,
            "Last": self.greatest,
            "MaxBy": self.by,
            "MinBy": self.by,
            "MaxMinByK": self.by,
            "Mode": self.mode,
            "ListAgg": self.listed,
            "Sum": self.sum,
            "Average": self.average,
        }

    def replace(self, aggregate: Any, exact: bool) -> Any:
        """An expression over aggregate expressions with the same type; the same object when nothing is open.

        ``exact``: sums and means too. Raises ``HeadraceError`` (sql.not_deterministic).
        """
        function = aggregate.aggregateFunction()
        rule = self.rules.get(class_name(function))
        if rule is None:
            raise HeadraceError(
                "sql.not_deterministic",
                f"the aggregate {function.prettyName()} is not admitted in a view",
                why="its answer is not shown to be independent of the order of the rows",
            )
        return rule(aggregate, function, exact)

    def of(self, function: Any, aggregate: Any) -> Any:
        """A new aggregate expression over the same rows: same DISTINCT, same FILTER."""
        return function.toAggregateExpression(aggregate.isDistinct(), aggregate.filter())

    def normalized(self, aggregate: Any, function: Any, _: bool) -> Any:
        children = self.catalyst.items(function.children())
        if not self.build.floating(children[0]):
            return aggregate
        return self.of(self.with_children(function, [self.build.normal(children[0]), *children[1:]]), aggregate)

    def sorted(self, aggregate: Any, function: Any, _: bool) -> Any:
        child = self.build.orderable(function.child(), function.prettyName())
        collected = self.of(self.with_children(function, [self.build.normal(child)]), aggregate)
        return self.build.expressions.SortArray(collected)

    def least(self, aggregate: Any, function: Any, _: bool) -> Any:
        child = self.build.normal(self.build.orderable(function.child(), function.prettyName()))
        if function.ignoreNulls() or not child.nullable():
            return self.of(self.made.Min(child), aggregate)
        return self.build.field(self.of(self.made.Min(self.build.struct(v=child)), aggregate), 0)

    def greatest(self, aggregate: Any, function: Any, _: bool) -> Any:
        # NULL is the least value, so it is the greatest only where there is no other.
        child = self.build.normal(self.build.orderable(function.child(), function.prettyName()))
        return self.of(self.made.Max(child), aggregate)

    def by(self, aggregate: Any, function: Any, _: bool) -> Any:
        value, order, *count = self.catalyst.items(function.children())
        name = function.prettyName()
        value, order = (self.build.normal(self.build.orderable(e, name)) for e in (value, order))
        pair = self.build.present(order, self.build.struct(o=order, v=value))
        return self.of(self.with_children(function, [value, pair, *count]), aggregate)

    def mode(self, aggregate: Any, function: Any, _: bool) -> Any:
        child = self.build.normal(self.build.orderable(function.child(), "mode"))
        if function.reverseOpt().isDefined():
            return self.of(self.with_children(function, [child]), aggregate)
        return self.of(self.made.Mode(child, 0, 0, self.build.some(True)), aggregate)

    def listed(self, aggregate: Any, function: Any, _: bool) -> Any:
        orders = self.catalyst.items(function.orderExpressions())
        if orders and aggregate.isDistinct():  # Spark admits no other order than the text's own
            return aggregate
        orders.append(self.build.ascending(function.child()))
        return self.of(
            self.made.ListAgg(function.child(), function.delimiter(), self.catalyst.seq(orders), 0, 0), aggregate
        )

    def sum(self, aggregate: Any, function: Any, exact: bool) -> Any:
        kind = type_text(function.child())
        if not exact:
            return aggregate
        if kind in ("float", "double"):
            return self.build.function(exact_sum, self.doubles(aggregate, function))
        if kind != "bigint":  # smaller integers cannot overflow on the way
            return aggregate
        mode = function.evalContext().evalMode()
        return self.build.cast(self.wide_sum(aggregate, function), function.dataType(), mode)

    def average(self, aggregate: Any, function: Any, exact: bool) -> Any:
        kind = type_text(function.child())
        if not exact or kind not in ("float", "double", *_INTEGRAL):
            return aggregate
        if kind in ("float", "double"):
            return self.build.function(exact_mean, self.doubles(aggregate, function))
        double = self.build.types.DataTypes.DoubleType
        total = self.build.cast(self.wide_sum(aggregate, function), double)
        count = self.of(self.made.Count(self.catalyst.seq([function.child()])), aggregate)
        context = self.build.expressions.NumericEvalContext(self.build.expressions.EvalMode.LEGACY(), True)
        return self.build.expressions.Divide(total, self.build.cast(count, double), context)

    def doubles(self, aggregate: Any, function: Any) -> Any:
        child = self.build.cast(function.child(), self.build.types.DataTypes.DoubleType)
        return self.of(self.made.CollectList(child), aggregate)

    def wide_sum(self, aggregate: Any, function: Any) -> Any:
        """The sum of integers as decimal: exact whatever it passes through on the way."""
        return self.of(self.made.Sum(self.build.cast(function.child(), self.build.types.DecimalType(20, 0))), aggregate)

    def with_children(self, function: Any, children: list[Any]) -> Any:
        return function.withNewChildren(self.catalyst.seq(children))


def accumulates(aggregate: Any) -> bool:
    """Whether the circuit adds and subtracts this aggregate, exactly by itself (as headrace.sql.plan lowers it)."""
    function = aggregate.aggregateFunction()
    kind = class_name(function)
    if aggregate.isDistinct() or kind not in ACCUMULATING:
        return False
    return kind == "Count" or type_text(function.child()).startswith(EXACT_INPUTS)
