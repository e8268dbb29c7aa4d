"""Lowering of windows whose functions a change reaches only near it, or from it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.circuit.node import Expression, Node, Running
from headrace.circuit.operators.recompute import NEXT, VERSION
from headrace.sql.build import Build
from headrace.sql.catalyst import class_name, type_text
from headrace.sql.lowering.base import Lowered, Lowering, names_of
from headrace.sql.lowering.limit import sort_keys

INTEGERS = ("tinyint", "smallint", "int", "bigint")
WIDEST = 37  # digits of a sum to which another can be added without losing a digit
NUMBERS = ("RowNumber", "Rank")
Made = Callable[[tuple[str, ...], tuple[bool, ...]], Node]


def running(
    lowering: Lowering, plan: Any, entries: list[Any], given: Lowered, keys: tuple[Expression, ...]
) -> Made | None:
    """What makes the node from its output's types, or None where some function needs whole partitions."""
    order = lowering.catalyst.items(plan.orderSpec())
    if not order or any(" collate " in type_text(o.child()) for o in order):
        return None
    child, ids = given
    window = _Window(lowering, names_of(ids))
    if not all(window.takes(entry.child()) for entry in entries):
        return None
    functions = tuple(lowering.catalyst.expression(e, window.names, window.over_stretch) for e in entries)
    sorts, sums = sort_keys(lowering, order, window.names), tuple(window.sums)
    reach = (window.back, window.forward, window.growing)
    return lambda types, nullables: Running(types, nullables, child, keys, sorts, functions, sums, *reach)


class _Window:
    """The functions of one window node, made functions of a stretch of its rows."""

    def __init__(self, lowering: Lowering, names: dict[int, str]) -> None:
        self.lowering, self.names = lowering, names
        self.catalyst, self.build = lowering.catalyst, Build(lowering.catalyst)
        self.expressions = lowering.catalyst.expressions
        self.back = self.forward = 0
        self.growing = False
        self.sums: list[Expression] = []
        self.places: dict[str, int] = {}

    def takes(self, expression: Any) -> bool:
        """Whether the function is maintained by the order; what it needs is noted."""
        if class_name(expression) != "WindowExpression":
            return False
        function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
        lower, upper = class_name(frame.lower()), class_name(frame.upper())
        rows = class_name(frame.frameType()) == "RowFrame"
        if lower == "UnboundedPreceding" and upper == "CurrentRow":
            self.growing = True
            return self.grows(function)
        if class_name(function) in ("Lag", "Lead") and function.ignoreNulls():
            return False
        if not rows or "Unbounded" in lower or "Unbounded" in upper:
            return False
        self.back = max(self.back, -self.offset(frame.lower()))
        self.forward = max(self.forward, self.offset(frame.upper()))
        return True

    def offset(self, bound: Any) -> int:
        return 0 if class_name(bound) == "CurrentRow" else int(bound.eval(None))

    def grows(self, function: Any) -> bool:
        """Whether what lies before a stretch is known of the function: notes what must be summed up for it."""
        if class_name(function) in NUMBERS:
            return True
        if class_name(function) != "AggregateExpression" or function.isDistinct() or function.filter().isDefined():
            return False
        inner = function.aggregateFunction()
        if class_name(inner) == "Count":
            tested = [c for c in self.catalyst.items(inner.children()) if c.nullable()]
            if tested:
                self.place(self.present(tested))
            return True
        if class_name(inner) != "Sum" or not self.summable(type_text(inner.child())):
            return False
        self.place(self.summed(inner.child()))
        return True

    def summable(self, of: str) -> bool:
        return of in INTEGERS or (of.startswith("decimal(") and int(of[8:].split(",", maxsplit=1)[0]) + 10 <= WIDEST)

    def summed(self, argument: Any) -> Any:
        """What is summed up: an integer itself where it was made a decimal."""
        if class_name(argument) == "Cast" and type_text(argument) == "decimal(20,0)":
            inner = argument.child()
            return inner if type_text(inner) in INTEGERS else argument
        return argument

    def present(self, tested: list[Any]) -> Any:
        """1 where no value is null, else null."""
        condition = self.expressions.IsNotNull(tested[0])
        for other in tested[1:]:
            condition = self.expressions.And(condition, self.expressions.IsNotNull(other))
        one = self.build.literal(1)
        return self.expressions.If(condition, one, self.build.null(one.dataType()))

    def place(self, argument: Any) -> int:
        """The number of a summed expression, each once."""
        bound = self.catalyst.expression(argument, self.names)
        if bound.text not in self.places:
            self.places[bound.text] = len(self.sums)
            self.sums.append(bound)
        return self.places[bound.text]

    def over_stretch(self, expression: Any) -> Any | None:
        """A window expression over the stretch, with what lies before it added."""
        if class_name(expression) != "WindowExpression":
            return None
        function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
        if class_name(frame.lower()) != "UnboundedPreceding":
            return self.rebound(expression, function)
        if class_name(function) in NUMBERS:
            return self.added(self.rebound(expression, function), Running.BEFORE, "int")
        inner = function.aggregateFunction()
        if class_name(inner) == "Count":
            tested = [c for c in self.catalyst.items(inner.children()) if c.nullable()]
            before = f"_n{self.place(self.present(tested))}" if tested else Running.BEFORE
            return self.added(self.rebound(expression, function), before, "bigint")
        return self.sum(expression, function, inner)

    def sum(self, expression: Any, function: Any, inner: Any) -> Any:
        """NULL over no value, else both sums added without losing a digit, then as Spark's own type."""
        argument = inner.child()
        number = self.place(self.summed(argument))
        result = self.type(type_text(inner))
        made = self.expressions.aggregate
        scale = type_text(inner).rstrip(")").split(",")[1] if type_text(inner).startswith("decimal") else "0"
        wide = self.type(f"decimal({WIDEST},{scale})")
        whole = self.summed(argument) is not argument or type_text(argument) in INTEGERS
        summand = self.cast(self.summed(argument), "decimal(20,0)") if whole else argument
        given = made.Sum(summand).toAggregateExpression(False, self.build.none())
        here = self.expressions.Cast(self.rebound(expression, given), wide, self.zone, self.ansi)
        before = self.expressions.Cast(self.catalyst.attribute(f"_s{number}"), wide, self.zone, self.ansi)
        zero = self.cast(self.build.literal(0), f"decimal({WIDEST},{scale})")
        total = self.expressions.Cast(
            self.add(before, self.expressions.Coalesce(self.catalyst.seq([here, zero]))), result, self.zone, self.ansi
        )
        none = self.expressions.And(
            self.expressions.IsNull(here),
            self.expressions.EqualTo(
                self.catalyst.attribute(f"_n{number}"), self.cast(self.build.literal(0), "bigint")
            ),
        )
        return self.expressions.If(none, self.build.null(result), total)

    def added(self, windowed: Any, before: str, of: str) -> Any:
        known = self.expressions.Cast(self.catalyst.attribute(before), self.type(of), self.zone, self.ansi)
        return self.add(windowed, known)

    def add(self, left: Any, right: Any) -> Any:
        return self.expressions.Add(left, right, self.expressions.NumericEvalContext(self.ansi, True))

    def rebound(self, expression: Any, function: Any) -> Any:
        """The function over the same frame of the stretch's rows."""
        rebind, items = self.catalyst.rebind, self.catalyst.items
        spec = expression.windowSpec()
        marks = [self.catalyst.attribute(n) for n in (VERSION, NEXT, Running.STRETCH)]
        by = [rebind(e, self.names) for e in items(spec.partitionSpec())]
        order = [rebind(e, self.names) for e in items(spec.orderSpec())]
        over = self.expressions.WindowSpecDefinition(
            self.catalyst.seq(by + marks), self.catalyst.seq(order), rebind(spec.frameSpecification(), self.names)
        )
        return self.expressions.WindowExpression(rebind(function, self.names), over)

    @property
    def ansi(self) -> Any:
        return self.expressions.EvalMode.ANSI()

    @property
    def zone(self) -> Any:
        return self.build.some(str(self.catalyst.spark.conf.get("spark.sql.session.timeZone")))

    def type(self, text: str) -> Any:
        return self.build.types.DataType.fromDDL(text)

    def cast(self, child: Any, of: str) -> Any:
        return self.build.cast(child, self.type(of))
