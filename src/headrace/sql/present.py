"""The present time in a query: one value in the place of every ``current_timestamp()`` and its like.

For a view it is a subquery over the clock's relation, which moves; in batch a literal. It goes in before the
optimizer, which would put its own time there.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.circuit.node import Expression
from headrace.formats.types.arrow import to_arrow
from headrace.model.clock import CLOCK
from headrace.sql.build import Build
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name
from headrace.sql.tree import Tree

FUNCTIONS = frozenset({"CurrentTimestamp", "Now", "CurrentDate", "LocalTimestamp"})
Present = Callable[[], Any]  # makes the value, an expression of type timestamp


def replaced_by(build: Build, function: Any, present: Present) -> Any:
    """The value in the type of the function that it stands for; dates and local timestamps are the session's zone's."""
    return build.cast(present(), function.dataType())


def last_tick(catalyst: Catalyst) -> Any:
    """The one value of the clock's relation, which the session must have as a temporary view."""
    session: Any = catalyst.spark
    plan = session.table(f"`{CLOCK.name}`").select("now")._jdf.queryExecution().analyzed()
    nothing, none = catalyst.seq([]), catalyst.jvm.scala.Option.empty()
    fresh = catalyst.expressions.NamedExpression.newExprId()
    return catalyst.expressions.ScalarSubquery(plan, nothing, fresh, nothing, none, none, none)


class Value:
    """An expression over the clock's relation, at any time. No job runs for it, and nothing is planned."""

    def __init__(self, catalyst: Catalyst, expression: Expression) -> None:
        types = catalyst.jvm.org.apache.spark.sql.types.DataTypes
        given = catalyst.expressions.BoundReference(0, types.TimestampType, False)
        found = catalyst.jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(expression.column._jc)
        self._bound = Tree(catalyst).transformed(
            found, lambda part: given if class_name(part) == "UnresolvedAttribute" else part
        )
        self._row = catalyst.expressions.SpecificInternalRow(catalyst.seq([types.TimestampType]))
        self._type = expression.type

    def at(self, at_us: int) -> pa.Array:
        """The one value, at a time in microseconds since the epoch."""
        self._row.setLong(0, at_us)
        value = self._bound.eval(self._row)
        if value is not None and (self._type == "string" or self._type.startswith("decimal")):
            text = str(value.toString())
            value = text if self._type == "string" else Decimal(text)
        return pa.array([value], to_arrow(self._type))


def literal(catalyst: Catalyst, at_us: int) -> Any:
    """A time in microseconds since the epoch."""
    instant = catalyst.jvm.java.time.Instant.ofEpochSecond(at_us // 1_000_000, at_us % 1_000_000 * 1_000)
    return Build(catalyst).literal(instant)
