"""Lowering of windows whose functions a change reaches only near it, or from it on."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Accumulation, Expression, Growing, Running
from headrace.circuit.operators.recompute import NEXT, VERSION
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.aggregate_functions import EXTREMES, accumulation, adds_up, maintained
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of
from headrace.sql.lowering.limit import sort_keys

NUMBERS = {"RowNumber": False, "Rank": True}  # whether peers have one number


def takes(catalyst: Catalyst, entry: Any) -> bool:
    """Whether a window's entry is maintained by the order of its partitions."""
    expression = entry.child()
    if class_name(expression) != "WindowExpression":
        return False
    specification = expression.windowSpec()
    order = catalyst.items(specification.orderSpec())
    if not order or any(" collate " in type_text(o.child()) for o in order):
        return False
    return grows(catalyst, expression) or _is_near(expression)


def grows(catalyst: Catalyst, expression: Any) -> bool:
    """Whether a window expression is over the rows up to its own, and what lies before some row is known of it."""
    function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
    if _bounds(frame) != ("UnboundedPreceding", "CurrentRow"):
        return False
    if class_name(function) in NUMBERS or _carried(catalyst, function, frame) is not None:
        return True
    return class_name(function) == "AggregateExpression" and adds_up(catalyst, function)


def _carried(catalyst: Catalyst, function: Any, frame: Any) -> str | None:
    """What a function that goes on from its value at the row before is called; None for another one."""
    rows = class_name(frame.frameType()) == "RowFrame"
    if class_name(function) == "NthValue":  # Spark's own form of the first value
        return _end("first", function) if rows and int(function.offset().eval(None)) == 1 else None
    if class_name(function) != "AggregateExpression":
        return None
    inner = function.aggregateFunction()
    kind = class_name(inner)
    if kind in EXTREMES:
        return EXTREMES[kind] if maintained(catalyst, function) else None
    if kind not in ("First", "Last") or function.filter().isDefined() or not rows:
        return None
    return _end(kind.lower(), inner)


def _end(name: str, function: Any) -> str:
    return f"{name}_present" if function.ignoreNulls() else name


def _is_near(expression: Any) -> bool:
    function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
    if class_name(function) in ("Lag", "Lead") and function.ignoreNulls():
        return False
    return class_name(frame.frameType()) == "RowFrame" and not any("Unbounded" in bound for bound in _bounds(frame))


def _bounds(frame: Any) -> tuple[str, str]:
    return class_name(frame.lower()), class_name(frame.upper())


def running(
    lowering: Lowering, plan: Any, entries: list[Any], given: Lowered, keys: tuple[Expression, ...]
) -> Lowered | None:
    """The node and the ids of its columns, or None where some function needs whole partitions."""
    catalyst = lowering.catalyst
    if not all(takes(catalyst, entry) for entry in entries):
        return None
    child, ids = given
    names = names_of(ids)
    growing = [e for e in entries if grows(catalyst, e.child())]
    near = [e for e in entries if not grows(catalyst, e.child())]
    made = [*growing, *near]
    reach = [(0, 0), *(_reach(e.child()) for e in near)]
    return Running(
        child.types + tuple(type_text(e) for e in made),
        child.nullables + tuple(bool(e.nullable()) for e in made),
        child,
        keys,
        sort_keys(lowering, catalyst.items(plan.orderSpec()), names),
        tuple(Growing(*_grown(catalyst, e.child(), names), type_text(e)) for e in growing),
        tuple(catalyst.expression(e, names, _OverStretch(catalyst, names)) for e in near),
        max(-lower for lower, _ in reach),
        max(upper for _, upper in reach),
    ), [*ids, *(id_of(e) for e in made)]


def _grown(catalyst: Catalyst, expression: Any, names: dict[int, str]) -> tuple[Accumulation | None, bool]:
    function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
    if class_name(function) in NUMBERS:
        return None, NUMBERS[class_name(function)]
    inner = function if class_name(function) == "NthValue" else function.aggregateFunction()
    if class_name(inner) in ("NthValue", "First", "Last"):
        argument = catalyst.expression(catalyst.items(inner.children())[0], names)
        return Accumulation(str(_carried(catalyst, function, frame)), (argument,), argument.type), False
    return accumulation(catalyst, function, names), class_name(frame.frameType()) != "RowFrame"


def _reach(expression: Any) -> tuple[int, int]:
    frame = expression.windowSpec().frameSpecification()
    return _offset(frame.lower()), _offset(frame.upper())


def _offset(bound: Any) -> int:
    return 0 if class_name(bound) == "CurrentRow" else int(bound.eval(None))


class _OverStretch:
    """A window expression as one over the same frame of a stretch's rows."""

    def __init__(self, catalyst: Catalyst, names: dict[int, str]) -> None:
        self.catalyst, self.names = catalyst, names

    def __call__(self, expression: Any) -> Any | None:
        if class_name(expression) != "WindowExpression":
            return None
        rebind, items, spec = self.catalyst.rebind, self.catalyst.items, expression.windowSpec()
        marks = [self.catalyst.attribute(n) for n in (VERSION, NEXT, Running.STRETCH)]
        with self.catalyst.deciding():
            by = [rebind(e, self.names) for e in items(spec.partitionSpec())]
            order = [rebind(e, self.names) for e in items(spec.orderSpec())]
        over = self.catalyst.expressions.WindowSpecDefinition(
            self.catalyst.seq(by + marks), self.catalyst.seq(order), rebind(spec.frameSpecification(), self.names)
        )
        return self.catalyst.expressions.WindowExpression(rebind(expression.windowFunction(), self.names), over)
