"""Aggregates whose answer Spark leaves to the order of rows, rewritten so that the rows' contents determine it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sql.build import Build
from headrace.sql.exact_statistics import STATISTICS
from headrace.sql.exact_sums import decimal_mean, decimal_sum, exact_mean, exact_sum
from headrace.sql.grouped_function import over_lists
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.aggregate_functions import STATISTICS as STATISTIC_NAMES
from headrace.sql.lowering.aggregate_functions import forgives
from headrace.sql.user_functions import whole

_BITS = ("BitAndAgg", "BitOrAgg", "BitXorAgg", "BitmapAndAgg", "BitmapConstructAgg", "BitmapOrAgg")
UNTOUCHED = ("Count", *_BITS)
_INTEGRAL = ("tinyint", "smallint", "int", "bigint")
_SAFE_DIGITS = 28  # Spark's own sum of decimals of more may overflow on the way to a result that fits


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
            "HyperLogLogPlusPlus": self.normalized,  # the greatest of each register, in whichever order
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
            "PivotFirst": self.pivot,
            "Sum": self.sum,
            "Average": self.average,
            "PythonUDAF": self.user,
            **dict.fromkeys(STATISTIC_NAMES, self.statistic),
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
        if count:
            return self.of(self.with_children(function, [value, pair, *count]), aggregate)
        extreme = self.made.Min(pair) if class_name(function) == "MinBy" else self.made.Max(pair)
        return self.build.field(self.of(extreme, aggregate), 1)

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

    def listed_once(self, aggregate: Any) -> Any:
        """LISTAGG(DISTINCT text) by the set of the texts, for an analyzed plan; another aggregate as it is.

        Beside another DISTINCT Spark's optimizer tears its order. Spark admits no other order than the text's own.
        """
        function = aggregate.aggregateFunction()
        listed = class_name(function) == "ListAgg" and aggregate.isDistinct()
        if not listed or type_text(function.child()) != "string":
            return aggregate
        made, orders = self.build.expressions, self.catalyst.items(function.orderExpressions())
        ascending = not orders or class_name(orders[0].direction()) == "Ascending"
        known = self.made.CollectSet(function.child()).toAggregateExpression(False, aggregate.filter())
        return self.joined(made.SortArray(known, self.build.literal(ascending)), function)

    def joined(self, texts: Any, listed: Any) -> Any:
        """What a LISTAGG makes of these texts, a list: NULL of none."""
        made, delimiter = self.build.expressions, listed.delimiter()
        nothing = class_name(delimiter) == "Literal" and delimiter.value() is None
        joined = made.ArrayJoin(texts, self.build.literal("") if nothing else delimiter, self.build.none())
        none = made.EqualTo(made.Size(texts, False), self.build.literal(0))
        return made.If(none, self.build.null(listed.dataType()), joined)

    def pivot(self, aggregate: Any, function: Any, _: bool) -> Any:
        """The one value there is of each pivoted value, as the greatest: an array in their order."""
        column, value = function.pivotColumn(), self.build.orderable(function.valueColumn(), "PIVOT")
        types, values = self.build.types, function.pivotColumnValues()
        # As one literal of all: a value by itself would not cross the bridge with its type.
        known = self.catalyst.jvm.org.apache.spark.sql.catalyst.util.GenericArrayData(values)
        listed = self.build.expressions.Literal(known, types.DataTypes.createArrayType(column.dataType()))
        elements = []
        for i in range(values.size()):
            wanted = self.build.expressions.GetArrayItem(listed, self.build.literal(i), False)
            mine = self.build.expressions.EqualNullSafe(column, wanted)
            chosen = self.build.expressions.If(mine, value, self.build.null(value.dataType()))
            elements.append(self.of(self.made.Max(chosen), aggregate))
        return self.build.expressions.CreateArray(self.catalyst.seq(elements), False)

    def sum(self, aggregate: Any, function: Any, exact: bool) -> Any:
        kind = type_text(function.child())
        if not exact:
            return aggregate
        if kind in ("float", "double"):
            return self.build.function(exact_sum, self.doubles(aggregate, function))
        if kind.startswith("decimal") and _digits(kind) > _SAFE_DIGITS:
            return self.of_decimals(decimal_sum, aggregate, function)
        if kind != "bigint":  # smaller integers cannot overflow on the way
            return aggregate
        mode = function.evalContext().evalMode()
        return self.build.cast(self.wide_sum(aggregate, function), function.dataType(), mode)

    def average(self, aggregate: Any, function: Any, exact: bool) -> Any:
        kind = type_text(function.child())
        if exact and kind.startswith("decimal") and _digits(kind) > _SAFE_DIGITS:
            return self.of_decimals(decimal_mean, aggregate, function)
        if not exact or kind not in ("float", "double", *_INTEGRAL):
            return aggregate
        if kind in ("float", "double"):
            return self.build.function(exact_mean, self.doubles(aggregate, function))
        double = self.build.types.DataTypes.DoubleType
        total = self.build.cast(self.wide_sum(aggregate, function), double)
        count = self.of(self.made.Count(self.catalyst.seq([function.child()])), aggregate)
        context = self.build.expressions.NumericEvalContext(self.build.expressions.EvalMode.LEGACY(), True)
        return self.build.expressions.Divide(total, self.build.cast(count, double), context)

    def statistic(self, aggregate: Any, function: Any, exact: bool) -> Any:
        """A variance, correlation or regression over the list of the values, or of pairs without a NULL."""
        if not exact:
            return aggregate
        children = self.catalyst.items(function.children())
        body = STATISTICS[STATISTIC_NAMES[class_name(function)]]
        if len(children) == 1:
            return self.build.function(body, self.of(self.made.CollectList(children[0]), aggregate))
        pair = self.build.struct(x=children[0], y=children[1])
        for child in children:
            pair = self.build.present(child, pair)
        return self.build.function(body, self.of(self.made.CollectList(pair), aggregate))

    def user(self, aggregate: Any, function: Any, _: bool) -> Any:
        """A function of users over the sorted list of the group's rows."""
        children = self.catalyst.items(function.children())
        name = str(function.name())
        if not children or any(class_name(child) == "NamedArgumentExpression" for child in children):
            how = "with named arguments" if children else "without an argument"
            raise HeadraceError(
                "sql.refused", f"{name} is not admitted in a view {how}", next="give it its arguments by place"
            )
        known = [self.build.normal(self.build.orderable(child, name)) for child in children]
        row = self.build.struct(**{f"_{i}": child for i, child in enumerate(known)})
        rows = self.build.expressions.SortArray(self.of(self.made.CollectList(row), aggregate))
        called = self.catalyst.functions.known[name.lower()]
        zone = str(self.catalyst.spark.conf.get("spark.sql.session.timeZone"))
        with whole(called.made.func):
            return self.build.function(over_lists(called, zone), rows, type_text(function))

    def doubles(self, aggregate: Any, function: Any) -> Any:
        child = self.build.cast(function.child(), self.build.types.DataTypes.DoubleType)
        return self.of(self.made.CollectList(child), aggregate)

    def of_decimals(self, body: Callable[..., Any], aggregate: Any, function: Any) -> Any:
        """``body(precision, scale, forgiving)`` over the list of the values."""
        values = self.of(self.made.CollectList(function.child()), aggregate)
        result = function.dataType()
        made = body(int(result.precision()), int(result.scale()), forgives(function))
        return self.build.function(made, values, type_text(function))

    def wide_sum(self, aggregate: Any, function: Any) -> Any:
        """The sum of integers as decimal: exact whatever it passes through on the way."""
        return self.of(self.made.Sum(self.build.cast(function.child(), self.build.types.DecimalType(20, 0))), aggregate)

    def with_children(self, function: Any, children: list[Any]) -> Any:
        return function.withNewChildren(self.catalyst.seq(children))


def _digits(kind: str) -> int:
    return int(kind.removeprefix("decimal(").split(",")[0])
