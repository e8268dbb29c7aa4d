"""Lowering of a filter by one comparison with a subquery's value: the rows lie in the order of what is compared."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Expression, Node, Threshold
from headrace.sql.catalyst import class_name, type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, projected
from headrace.sql.lowering.columns import columns

COMPARISONS = frozenset({"LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"})
ORDERED = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz",
                     "string", "binary"})  # fmt: skip


def threshold(lowering: Lowering, condition: Any, left: Lowered, right: Lowered, bound: Expression) -> Threshold | None:
    """The filter of the left's rows, or None where ``condition`` is more than one comparison of the two sides."""
    if class_name(condition) not in COMPARISONS:
        return None
    sides = lowering.catalyst.items(condition.children())
    read = [lowering.references([side]) for side in sides]
    if read[0] <= set(right[1]):
        sides, read = sides[::-1], read[::-1]
    types = {type_text(side) for side in sides}
    known = len(types) == 1 and all(t in ORDERED or t.startswith("decimal") for t in types)
    if not known or not all(read) or not read[0] <= set(left[1]) or not read[1] <= set(right[1]):
        return None
    (lefts, value), (rights, other) = with_value(lowering, left, sides[0]), with_value(lowering, right, sides[1])
    of = left[0]
    return Threshold(of.types, of.nullables, "filter", lefts, rights, (), (), bound, value, other)


def with_value(lowering: Lowering, lowered: Lowered, expression: Any) -> tuple[Node, int]:
    """The node, with the expression as its last column unless it is one of its columns; and that column's ordinal."""
    node, ids = lowered
    if class_name(expression) == "AttributeReference":
        return node, ids.index(id_of(expression))
    value = lowering.catalyst.expression(expression, names_of(ids))
    return projected(node, [*columns(lowering.catalyst, node, len(ids)), value]), len(ids)
