"""Catalyst expressions in their local form, for the few kinds whose every bit Arrow computes as Spark does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.circuit.local import (
    Call,
    Constant,
    Divided,
    Extracted,
    Formatted,
    Local,
    Lowered,
    Part,
    Piece,
    Reference,
    Searched,
    Widened,
)
from headrace.sql.patterns import in_re2

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
FLOORED = {"UnixMillis": 1_000, "UnixSeconds": 1_000_000}
CLOCK = {"Hour": "hour", "Minute": "minute", "Second": "second"}
FIELDS = re.compile("yyyy|MM|dd|HH|mm|ss|[-/:. ]")
SEARCHED = {"Contains": "match_substring", "StartsWith": "starts_with", "EndsWith": "ends_with"}
CHOICES_MAX = 16
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
        if kind in ("EqualTo", "In") and _kind(children[0]) == "Lower":
            return self.lowered(*children)
        if kind in COMPARISONS:
            return self.call(COMPARISONS[kind], children) if _type(children[0]) in COMPARED else None
        if kind in ("IsNull", "IsNotNull"):
            return self.call("is_null" if kind == "IsNull" else "is_valid", children)
        if kind in ("And", "Or", "Not"):
            return self.logic(kind, children)
        if kind == "If":
            return self.choice(children)
        if kind == "CaseWhen":
            return self.cases(expression)
        if kind == "In":
            return self.among(*children)
        if kind in FLOORED:
            return self.divided(children[0], FLOORED[kind], "floor")
        if kind in ("Remainder", "IntegralDivide") and _type(children[0]) in INTEGERS:
            return self.divided(children[0], _constant(children[1]), "remainder" if kind == "Remainder" else "quotient")
        if kind == "DateFormatClass":
            return self.formatted(expression, *children)
        if kind in CLOCK:
            return self.clock(expression, children[0])
        if kind == "Length" and _type(children[0]) == "string":
            return self.call("utf8_length", children)
        if kind in SEARCHED or kind == "StringReplace":
            return self.searched(kind, children)
        if kind == "ElementAt" and _kind(children[0]) == "StringSplitSQL":
            return self.piece(children[1], *self.catalyst.items(children[0].children()))
        if kind in ("RLike", "RegExpExtract"):
            return self.matched(*children)
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

    def cases(self, expression: Any) -> Local | None:
        """CASE: the first condition that is true; what follows it is not looked at, so none of it may throw."""
        last = expression.elseValue()
        made = self.of(last.get()) if last.isDefined() else _null(_type(expression))
        for branch in reversed(self.catalyst.items(expression.branches())):
            condition, value = self.of(branch._1()), self.of(branch._2())
            if made is None or condition is None or value is None:
                return None
            made = Call("if_else", (Call("coalesce", (condition, Constant(False, "boolean"))), value, made))
        return None if made is None or made.throws else made

    def among(self, value: Any, *choices: Any) -> Local | None:
        """IN a few values: equal to the one or the other."""
        if _type(value) not in COMPARED or len(choices) > CHOICES_MAX:
            return None
        made = [self.call("equal", [value, choice]) for choice in choices]
        known = [m for m in made if m is not None and not m.throws]
        return _any(known) if len(known) == len(made) else None

    def lowered(self, value: Any, *choices: Any) -> Local | None:
        """lower(text) is one of a few constants of ASCII: no other constant is told exactly without Spark's tables."""
        made = [self.of(choice) for choice in choices]
        constants = [m for m in made if isinstance(m, Constant) and str(m.value).isascii() and m.value is not None]
        argument = self.of(value.child())
        if argument is None or argument.throws or len(constants) < len(made) or len(made) > CHOICES_MAX:
            return None
        return _any([Call("equal", (Lowered(argument), constant)) for constant in constants])

    def divided(self, child: Any, by: int | None, part: Part) -> Local | None:
        argument = None if by is None or by < 2 else self.of(child)
        return None if argument is None or by is None else Divided(argument, by, part)

    def formatted(self, expression: Any, time: Any, pattern: Any) -> Local | None:
        """date_format of a pattern of whole fields and what stands between them, in UTC."""
        if _kind(pattern) != "Literal" or pattern.value() is None or not self.in_utc(expression, time):
            return None
        text = str(pattern.value().toString())
        parts = tuple(FIELDS.findall(text))
        argument = self.of(time) if "".join(parts) == text else None
        return None if argument is None else Formatted(argument, parts)

    def in_utc(self, expression: Any, time: Any) -> bool:
        return _type(time) == "timestamp" and str(expression.zoneId().getId()) in ("UTC", "Z")

    def clock(self, expression: Any, child: Any) -> Local | None:
        """The hour, minute or second of a timestamp, in UTC."""
        argument = self.of(child) if self.in_utc(expression, child) else None
        return None if argument is None else Widened(Call(CLOCK[_kind(expression)], (argument,)), "int")

    def searched(self, kind: str, children: list[Any]) -> Local | None:
        text, *constants = children
        known = [str(c.value().toString()) for c in constants if _kind(c) == "Literal" and c.value() is not None]
        argument = self.of(text) if _type(text) == "string" and len(known) == len(constants) else None
        if argument is None or not known[0]:
            return None
        return Searched(SEARCHED.get(kind, "replace_substring"), argument, *known)

    def piece(self, number: Any, text: Any, delimiter: Any) -> Local | None:
        """split_part of a constant delimiter and number."""
        if _kind(delimiter) != "Literal" or delimiter.value() is None or not str(delimiter.value().toString()):
            return None
        at, argument = _constant(number), self.of(text) if _type(text) == "string" else None
        return None if argument is None or not at else Piece(argument, str(delimiter.value().toString()), at)

    def matched(self, text: Any, pattern: Any, group: Any = None) -> Local | None:
        """rlike, or with ``group`` regexp_extract, of a constant pattern that means the same to Arrow's RE2."""
        if _kind(pattern) != "Literal" or pattern.value() is None or _type(text) != "string":
            return None
        known, argument = in_re2(str(pattern.value().toString())), self.of(text)
        if known is None or argument is None:
            return None
        if group is None:
            return Searched("match_substring_regex", argument, known.pattern)
        number = _constant(group)
        if number is None or not 0 <= number <= known.groups:
            return None
        return Extracted(argument, known.pattern, known.name(number))

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


def _any(conditions: list[Local]) -> Local | None:
    return reduce(lambda a, b: Call("or_kleene", (a, b)), conditions) if conditions else None


def literal(expression: Any) -> Local | None:
    """Literals whose value crosses the bridge as it is."""
    type_text, value = _type(expression), expression.value()
    if value is None:
        return _null(type_text)
    if type_text not in LITERALS:
        return None
    return Constant(str(value.toString()) if type_text == "string" else value, type_text)


def _null(type_text: str) -> Local | None:
    return Constant(None, type_text) if type_text in COMPARED | {"double"} else None


def _constant(expression: Any) -> int | None:
    """The value of an integer literal."""
    value = expression.value() if _kind(expression) == "Literal" else None
    return value if isinstance(value, int) else None


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _type(expression: Any) -> str:
    return str(expression.dataType().catalogString())
