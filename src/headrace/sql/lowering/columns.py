"""Columns and attributes that lowering makes itself, beside those of Spark's plan."""

from __future__ import annotations

from typing import Any

from pyspark.sql.classic.column import Column

from headrace.circuit.local import Reference
from headrace.circuit.node import Expression, Node
from headrace.sql.catalyst import Catalyst, singleton


def column(catalyst: Catalyst, child: Node, i: int) -> Expression:
    """Column ``i`` of a node as it is."""
    made = Column(catalyst.to_column(catalyst.attribute(f"c{i}")))
    return Expression(made, f"'c{i}:", child.types[i], child.nullables[i], Reference(f"c{i}"), frozenset({f"c{i}"}))


def columns(catalyst: Catalyst, child: Node, count: int) -> list[Expression]:
    """The first columns of a node as they are."""
    return [column(catalyst, child, i) for i in range(count)]


def null(catalyst: Catalyst, type_text: str) -> Expression:
    """NULL of a type."""
    return catalyst.expression(literal(catalyst, None, data_type(catalyst, type_text)), {})


def literal(catalyst: Catalyst, value: Any, of: Any) -> Any:
    """A Catalyst literal of a Catalyst type."""
    return singleton(catalyst.expressions, "Literal").create(value, of)


def true(catalyst: Catalyst) -> Any:
    """The Catalyst literal TRUE."""
    return singleton(catalyst.expressions, "Literal").TrueLiteral()


def data_type(catalyst: Catalyst, type_text: str) -> Any:
    return catalyst.jvm.org.apache.spark.sql.types.DataType.fromDDL(type_text)
