"""Lowering of a row's value compared with one that is the same for all rows."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Threshold
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, projected
from headrace.sql.lowering.clock import grows
from headrace.sql.lowering.rewrite import Rewrite

SIGNS = {"LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
# Types that an ordered arrangement orders as Spark compares them.
_ORDERED = frozenset(
    {
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
        "binary",
    }
)
# What throws on no value, if its arguments do not (but on times beyond the year 290,000).
_TOTAL = frozenset(
    {
        "Alias",
        "AttributeReference",
        "CaseWhen",
        "Coalesce",
        "DateAdd",
        "DateAddInterval",
        "DateSub",
        "GetStructField",
        "Greatest",
        "If",
        "KnownFloatingPointNormalized",
        "KnownNotNull",
        "Least",
        "Literal",
        "NormalizeNaNAndZero",
        "TimestampAddInterval",
        "TimestampAddYMInterval",
    }
)


def comparable(expression: Any) -> bool:
    """Whether rows can be kept in the order of the expression's values."""
    type_name = type_text(expression)
    return type_name in _ORDERED or type_name.startswith("decimal(")


def total(make: Rewrite, expression: Any) -> bool:
    """Whether a value can be computed before it is known that some row is compared with it: it does not throw."""
    kind = class_name(expression)
    if kind == "Cast":
        cast, given, wanted = make.expressions.Cast, expression.child().dataType(), expression.dataType()
        fits = bool(cast.canUpCast(given, wanted)) or _rounds(given, wanted)
    elif kind in ("Add", "Subtract", "Multiply", "UnaryMinus"):
        fits = type_text(expression) in ("float", "double") or _uncut(make, expression)
    else:
        fits = kind in _TOTAL
    return fits and all(total(make, child) for child in make.catalyst.items(expression.children()))


def _rounds(given: Any, wanted: Any) -> bool:
    """Whether a decimal only loses places to another type: rounding may add a digit before the point."""
    if class_name(given) != "DecimalType" or class_name(wanted) != "DecimalType":
        return False
    return bool(wanted.precision() - wanted.scale() > given.precision() - given.scale())


def _uncut(make: Rewrite, expression: Any) -> bool:
    """Whether every result of a decimal operation fits the type that Spark gives it."""
    if not type_text(expression).startswith("decimal("):
        return False
    sizes = [(c.dataType().precision(), c.dataType().scale()) for c in make.catalyst.items(expression.children())]
    if len(sizes) == 1:
        return True
    (p, s), (q, t) = sizes
    if class_name(expression) == "Multiply":
        wanted = (p + q + 1, s + t)
    else:
        wanted = (max(p - s, q - t) + max(s, t) + 1, max(s, t))
    made = expression.dataType()
    return (made.precision(), made.scale()) == wanted


def threshold(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered | None:
    """A semi join with one row by ``a row's value < its column`` (<=, >, >=), or None for every other join."""
    if class_name(plan.joinType()) != "LeftSemi" or class_name(plan.right()) != "Subquery":
        return None
    condition = plan.condition().get()
    if class_name(condition) not in SIGNS:
        return None
    value, bound = lowering.catalyst.items(condition.children())
    rows, bounds = ({id_of(a) for a in lowering.catalyst.items(p.output())} for p in (plan.left(), plan.right()))
    plain = class_name(bound) == "AttributeReference" and id_of(bound) in bounds
    if not plain or not lowering.references([value]) <= rows or not comparable(value):
        return None
    make = Rewrite(lowering.catalyst)
    left, ids = lowering.node(plan.left(), needed | lowering.references([value]))
    if class_name(value) == "AttributeReference":
        at = ids.index(id_of(value))
    else:
        kept = [i for i in ids if i in needed]
        attributes = {id_of(a): a for a in lowering.catalyst.items(plan.left().output())}
        names = names_of(ids)
        left = projected(left, [lowering.catalyst.expression(e, names) for e in (*map(attributes.get, kept), value)])
        at, ids = len(kept), [*kept, id_of(make.alias(value, "value"))]
    right = lowering.ordered(lowering.node(plan.right(), {id_of(bound)}), plan.right(), [id_of(bound)])
    passes = grows(make, plan.right())
    made = Threshold(left.types, left.nullables, left, right, at, SIGNS[class_name(condition)], passes)
    return made, ids
