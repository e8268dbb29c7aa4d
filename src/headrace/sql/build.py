"""Catalyst expressions made by hand: the pieces that the canonical form is built of."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.functions import arrow_udf

from headrace.model.errors import HeadraceError
from headrace.sql.catalyst import Catalyst
from headrace.sql.clock import TIME_ONLY
from headrace.sql.java_names import class_name, type_name, type_text

_FLOATING = re.compile(r"\b(float|double)\b")


class Build:
    """Makers of resolved expressions. Bound to one session."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self.expressions = catalyst.expressions
        self.types = catalyst.jvm.org.apache.spark.sql.types
        self._functions: dict[str, Any] = {}

    def single(self, name: str) -> Any:
        """A Scala object of the expressions package, such as ``Ascending``."""
        return getattr(getattr(self.expressions, f"{name}$"), "MODULE$")

    def some(self, value: Any) -> Any:
        return self.catalyst.jvm.scala.Option.apply(value)

    def none(self) -> Any:
        return self.catalyst.jvm.scala.Option.empty()

    def literal(self, value: Any) -> Any:
        return self.single("Literal").apply(value)

    def null(self, data_type: Any) -> Any:
        return self.single("Literal").create(None, data_type)

    def cast(self, child: Any, data_type: Any, mode: Any = None) -> Any:
        """``mode``: one of Catalyst's EvalMode; by default an overflow or bad text is an error."""
        if type_text(child) == type_name(data_type):
            return child
        zone = self.some(str(self.catalyst.spark.conf.get("spark.sql.session.timeZone")))
        return self.expressions.Cast(child, data_type, zone, mode or self.expressions.EvalMode.ANSI())

    def struct(self, **fields: Any) -> Any:
        named = [part for name, value in fields.items() for part in (self.literal(name), value)]
        return self.expressions.CreateNamedStruct(self.catalyst.seq(named))

    def field(self, struct: Any, ordinal: int) -> Any:
        return self.expressions.GetStructField(struct, ordinal, self.none())

    def raised(self, text: str, data_type: Any) -> Any:
        """An expression of the type that throws, as ``raise_error(text)`` does."""
        named = self.catalyst.seq([self.literal("errorMessage"), self.literal(text)])
        parameters = self.expressions.CreateMap(named, False)
        return self.expressions.RaiseError(self.literal("USER_RAISED_EXCEPTION"), parameters, data_type)

    def present(self, tested: Any, value: Any) -> Any:
        """``value`` where ``tested`` is not null, else null."""
        if not tested.nullable():
            return value
        return self.expressions.If(self.expressions.IsNull(tested), self.null(value.dataType()), value)

    def ascending(self, child: Any) -> Any:
        ascending, nulls_first = self.single("Ascending"), self.single("NullsFirst")
        return self.expressions.SortOrder(child, ascending, nulls_first, self.catalyst.seq([]))

    def alias(self, child: Any, name: str) -> Any:
        fresh = self.expressions.NamedExpression.newExprId()
        nothing = self.catalyst.seq([])
        return self.expressions.Alias(child, name, fresh, nothing, self.none(), nothing)

    def named(self, value: Any, column: Any) -> Any:
        """The value under the name and id of a column."""
        if class_name(value) == "AttributeReference" and value.exprId().id() == column.exprId().id():
            return value
        nothing = self.catalyst.seq([])
        return self.expressions.Alias(value, column.name(), column.exprId(), nothing, self.none(), nothing)

    def floating(self, expression: Any) -> bool:
        """Whether values of the type contain floating numbers, where equal values may differ: -0.0 and 0.0."""
        return bool(_FLOATING.search(type_text(expression)))

    def normal(self, expression: Any) -> Any:
        """The expression with -0.0 as 0.0 and one NaN, at any depth of its value."""
        if not self.floating(expression):
            return expression
        rule = getattr(self.catalyst.jvm.org.apache.spark.sql.catalyst.optimizer, "NormalizeFloatingNumbers$")
        return getattr(rule, "MODULE$").normalize(expression)

    def orderable(self, expression: Any, use: str) -> Any:
        """The expression, if its type has an order. Raises ``HeadraceError`` (sql.not_deterministic) naming ``use``."""
        # As a sequence: a struct type is one too, and the bridge might take the other method of that name for it.
        if not self.expressions.RowOrdering.isOrderable(self.catalyst.seq([expression])):
            named = class_name(expression) in ("AttributeReference", "Alias")
            name = f"the column {expression.name()}" if named else str(expression.sql())
            if name.startswith("the column _"):  # one of Spark's or of Headrace's own making
                name = "such a value"
            raise HeadraceError(
                "sql.not_deterministic",
                f"{use} is not admitted over {name}",
                why=f"values of type {type_text(expression)} have no order, so ties stay open",
                next="leave the column out of the query below, or take a field of it",
            )
        return expression

    def guarded(self, expression: Any) -> Any:
        """A cast of text to timestamp in which a time without a date is malformed, instead of today's."""
        if type_text(expression) != "timestamp" or not type_text(expression.child()).startswith("string"):
            return expression
        child = expression.child()
        if "time without a date" in child.toString():
            return expression
        known = self.expressions.RLike(child, self.literal(TIME_ONLY))
        malformed = self.expressions.If(known, self.literal("a time without a date"), child)
        return expression.withNewChildren(self.catalyst.seq([malformed]))

    def function(self, body: Callable[[pa.Array], pa.Array], argument: Any, result: str = "double") -> Any:
        """A call of a Python function over Arrow arrays; the same text at every planning."""
        name = body.__name__
        if name not in self._functions:
            self._functions[name] = arrow_udf(body, result)._unwrapped._judf
        made = self._functions[name].builder(self.catalyst.seq([argument]))
        fixed = self.expressions.ExprId.apply(0)
        return self.expressions.PythonUDF(
            name, made.func(), made.dataType(), made.children(), made.evalType(), made.udfDeterministic(), fixed
        )
