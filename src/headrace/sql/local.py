"""Catalyst expressions in their local form, for the few kinds whose every bit Arrow computes as Spark does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.circuit.local import Call, Constant, Local, Reference, Widened

if TYPE_CHECKING:
    from headrace.sql.catalyst import Catalyst

COMPARISONS = {
    "EqualTo": "equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
}
ARITHMETIC = {"Add": "add", "Subtract": "subtract", "Multiply": "multiply"}
INTEGERS = ("tinyint", "smallint", "int", "bigint")
CHECKED = ("int", "bigint")  # narrower ones overflow to another error text
# Types whose equal values have equal bytes, and whose order Arrow has as Spark has it.
COMPARED = frozenset({*INTEGERS, "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"})
_SHORT = ("day", "hour", "minute", "second")  # the last field of an interval that is a number of microseconds
LITERALS = frozenset({*INTEGERS, "boolean", "string", "double", "date", "timestamp", "timestamp_ntz"})


def local(
    catalyst: Catalyst, expression: Any, names: Mapping[int, str], replace: Callable[[Any], Any | None] | None
) -> Local | None:
    """The local form, or None. Arguments as of ``Catalyst.rebind``."""
    return _Forms(catalyst, names, replace).of(expression)


class _Forms:
    def __init__(
        self, catalyst: Catalyst, names: Mapping[int, str], replace: Callable[[Any], Any | None] | None
    ) -> None:
        self.catalyst, self.names, self.replace = catalyst, names, replace

    def of(self, expression: Any) -> Local | None:
        kind = _kind(expression)
        if self.replace is not None:
            taken = self.replace(expression)
            if taken is not None:
                return Reference(str(taken.name())) if _kind(taken) == "UnresolvedAttribute" else None
        if kind == "AttributeReference":
            return Reference(self.names[expression.exprId().id()])
        if kind == "Alias":
            return self.of(expression.child())
        if kind == "Literal":
            return literal(expression)
        children = self.catalyst.items(expression.children())
        if kind in COMPARISONS:
            return self.call(COMPARISONS[kind], children) if _type(children[0]) in COMPARED else None
        if kind in ("IsNull", "IsNotNull"):
            return self.call("is_null" if kind == "IsNull" else "is_valid", children)
        if kind in ("And", "Or", "Not"):
            return self.logic(kind, children)
        if kind == "If":
            return self.choice(children)
        if kind in ARITHMETIC:
            return self.arithmetic(kind, expression, children)
        if kind == "Cast":
            return self.widened(expression, children[0])
        if kind == "TimestampAddInterval":
            return self.shifted(expression, *children)
        return None

    def call(self, function: str, children: list[Any]) -> Local | None:
        arguments = [self.of(child) for child in children]
        known = tuple(a for a in arguments if a is not None)
        return Call(function, known) if len(known) == len(arguments) else None

    def calm(self, function: str, children: list[Any]) -> Local | None:
        """A call that Spark may leave half done: what it would not have looked at must not throw here."""
        made = self.call(function, children)
        return None if made is None or made.throws else made

    def choice(self, children: list[Any]) -> Local | None:
        """IF: a condition that is null is false to Spark, and nothing to Arrow."""
        made = self.calm("if_else", children)
        if not isinstance(made, Call):
            return None
        condition, *others = made.arguments
        return Call("if_else", (Call("coalesce", (condition, Constant(False, "boolean"))), *others))

    def logic(self, kind: str, children: list[Any]) -> Local | None:
        if kind == "Not":
            return self.call("invert", children)
        return self.calm("and_kleene" if kind == "And" else "or_kleene", children)

    def arithmetic(self, kind: str, expression: Any, children: list[Any]) -> Local | None:
        type_text = _type(expression)
        if type_text == "double":
            return self.call(ARITHMETIC[kind], children)
        if type_text in CHECKED and str(expression.evalMode().toString()) == "ANSI":
            return self.call(ARITHMETIC[kind] + "_checked", children)
        return None

    def shifted(self, expression: Any, time: Any, interval: Any) -> Local | None:
        """A timestamp and a constant interval of days or less; where a day may have 23 hours, only Spark knows."""
        if _kind(interval) != "Literal" or not _type(interval).startswith("interval ") or interval.value() is None:
            return None
        if not isinstance(interval.value(), int) or _type(interval).split()[-1] not in _SHORT:
            return None
        if not expression.zoneId().getRules().isFixedOffset():
            return None
        argument = self.of(time)
        by = Constant(timedelta(microseconds=interval.value()), "interval day to second")
        return None if argument is None else Call("add_checked", (argument, by))

    def widened(self, expression: Any, child: Any) -> Local | None:
        source, target = _type(child), _type(expression)
        if (source, target) == ("timestamp", "date") and str(expression.zoneId().getId()) in ("UTC", "Z"):
            argument = self.of(child)
            return None if argument is None else Widened(argument, target)
        if source not in INTEGERS or target not in INTEGERS or INTEGERS.index(source) > INTEGERS.index(target):
            return None
        argument = self.of(child)
        return None if argument is None else Widened(argument, target)


def literal(expression: Any) -> Local | None:
    """Literals whose value crosses the bridge as it is."""
    type_text, value = _type(expression), expression.value()
    if value is None:
        return Constant(None, type_text) if type_text in COMPARED | {"double"} else None
    if type_text not in LITERALS:
        return None
    return Constant(str(value.toString()) if type_text == "string" else value, type_text)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _type(expression: Any) -> str:
    return str(expression.dataType().catalogString())
