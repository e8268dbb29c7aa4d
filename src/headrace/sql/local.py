"""Catalyst expressions in their local form, for the few kinds whose every bit Arrow computes as Spark does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.circuit.decimals import Arithmetic, Ratio, Rounded, fitting
from headrace.circuit.local import (
    Call,
    Conjunction,
    Constant,
    DateField,
    Divided,
    Extracted,
    Field,
    Floored,
    Formatted,
    Local,
    Lowered,
    Part,
    Piece,
    Quotient,
    Recounted,
    Reference,
    Searched,
    Sliced,
    Struct,
    StructField,
    Widened,
)
from headrace.formats.types.arrow import to_arrow
from headrace.sql.java_names import class_name, type_text
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
MOST = {"int": (1 << 31) - 1, "bigint": (1 << 63) - 1}
CHECKED = tuple(MOST)  # narrower ones overflow to another error text
# Types whose equal values have equal bytes, and whose order Arrow has as Spark has it.
COMPARED = frozenset({*INTEGERS, "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"})
FLOORED = {"UnixMillis": 1_000, "UnixSeconds": 1_000_000}
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}  # that Arrow wants a decimal to have for them
FIELDS_OF_DATES: dict[str, Field] = {"Year": "year", "Month": "month", "DayOfMonth": "day"}
UNITS = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000, "DD": 86_400_000_000}
CLOCK = {"Hour": "hour", "Minute": "minute", "Second": "second"}
# A field is all of its letters that stand together: MMMM is the name of a month, not its number twice.
FIELDS = re.compile("yyyy(?!y)|MM(?!M)|dd(?!d)|HH(?!H)|mm(?!m)|ss(?!s)|[-/:. ]")
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
        kind = class_name(expression)
        if self.replace is not None:
            taken = self.replace(expression)
            if taken is not None:
                return Reference(str(taken.name())) if class_name(taken) == "UnresolvedAttribute" else None
        if kind == "AttributeReference":
            return Reference(self.names[expression.exprId().id()])
        if kind in ("Alias", "KnownNullable"):
            return self.of(expression.child())
        if kind == "Literal":
            return literal(expression)
        children = self.catalyst.items(expression.children())
        for family in (self.condition, self.number, self.time, self.text, self.struct):
            made = family(kind, expression, children)
            if made is not None:
                return made
        return None

    def condition(self, kind: str, expression: Any, children: list[Any]) -> Local | None:
        """What is true or false, and what is chosen by that."""
        if kind in ("EqualTo", "In") and class_name(children[0]) == "Lower":
            return self.lowered(*children)
        if kind in COMPARISONS:
            return self.call(COMPARISONS[kind], children) if _compared(children) else None
        if kind in ("IsNull", "IsNotNull"):
            return self.call("is_null" if kind == "IsNull" else "is_valid", children)
        if kind in ("And", "Or", "Not"):
            return self.logic(kind, children)
        if kind == "If":
            return self.choice(children)
        if kind == "CaseWhen":
            return self.cases(expression)
        if kind == "Coalesce":
            return self.calm("coalesce", children)
        return self.among(*children) if kind == "In" else None

    def number(self, kind: str, expression: Any, children: list[Any]) -> Local | None:
        """Arithmetic and casts."""
        if kind in FLOORED:
            return self.divided(children[0], FLOORED[kind], "floor")
        if kind in ("Remainder", "IntegralDivide") and type_text(children[0]) in INTEGERS:
            by = _constant(children[1])
            if kind == "Remainder" or (by is not None and by > 1):
                return self.divided(children[0], by, "remainder" if kind == "Remainder" else "quotient")
        if kind in ("IntegralDivide", "Divide") and type_text(children[0]) in (*INTEGERS, "double"):
            return self.quotient(expression, children)
        if kind == "Divide" and _is_decimal(expression):
            return self.ratio(expression, *children)
        if kind in ARITHMETIC and _is_decimal(expression):
            return self.decimal(ARITHMETIC[kind], expression, *children)
        if kind in ARITHMETIC:
            return self.arithmetic(kind, expression, children)
        return self.widened(expression, children[0]) if kind == "Cast" else None

    def time(self, kind: str, expression: Any, children: list[Any]) -> Local | None:
        """Of timestamps and dates."""
        if kind == "PreciseTimestampConversion":
            argument = self.of(children[0])
            return None if argument is None else Recounted(argument, type_text(expression))
        if kind == "TruncTimestamp":
            return self.floored(expression, *children)
        if kind == "DateFormatClass":
            return self.formatted(expression, *children)
        if kind in CLOCK:
            return self.clock(expression, children[0])
        if kind in FIELDS_OF_DATES and type_text(children[0]) == "date":
            argument = self.of(children[0])
            return None if argument is None else DateField(argument, FIELDS_OF_DATES[kind])
        return self.shifted(expression, *children) if kind == "TimestampAddInterval" else None

    def text(self, kind: str, expression: Any, children: list[Any]) -> Local | None:
        """Of texts."""
        if kind == "Substring" and type_text(children[0]) == "string":
            return self.sliced(*children)
        if kind == "Like":
            return self.like(expression, *children)
        if kind == "Length" and type_text(children[0]) == "string":
            return self.call("utf8_length", children)
        if kind in SEARCHED or kind == "StringReplace":
            return self.searched(kind, children)
        if kind == "ElementAt" and class_name(children[0]) == "StringSplitSQL":
            return self.piece(children[1], *self.catalyst.items(children[0].children()))
        return self.matched(*children) if kind in ("RLike", "RegExpExtract") else None

    def struct(self, kind: str, expression: Any, children: list[Any]) -> Local | None:
        """Structs and their fields."""
        if kind == "GetStructField":
            argument = self.of(children[0])
            return None if argument is None else StructField(argument, int(expression.ordinal()))
        if kind == "CreateNamedStruct":
            fields = [self.of(child) for child in children[1::2]]
            known = tuple(f for f in fields if f is not None)
            return Struct(known, type_text(expression)) if len(known) == len(fields) else None
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
        made = self.of(last.get()) if last.isDefined() else _null(type_text(expression))
        for branch in reversed(self.catalyst.items(expression.branches())):
            condition, value = self.of(branch._1()), self.of(branch._2())
            if made is None or condition is None or value is None:
                return None
            made = Call("if_else", (Call("coalesce", (condition, Constant(False, "boolean"))), value, made))
        return None if made is None or made.throws else made

    def among(self, value: Any, *choices: Any) -> Local | None:
        """IN a few values: equal to the one or the other."""
        if not _compared([value, *choices]) or len(choices) > CHOICES_MAX:
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

    def quotient(self, expression: Any, children: list[Any]) -> Local | None:
        left, right = (self.of(child) for child in children)
        if left is None or right is None or not _ansi(expression):
            return None
        if type_text(expression) == "bigint":
            left, right = Widened(left, "bigint"), Widened(right, "bigint")
        return Quotient(left, right)

    def floored(self, expression: Any, unit: Any, time: Any) -> Local | None:
        """date_trunc to a unit that is always as long, in UTC."""
        if class_name(unit) != "Literal" or unit.value() is None or not self.in_utc(expression, time):
            return None
        micros, argument = UNITS.get(str(unit.value().toString()).upper()), self.of(time)
        return None if argument is None or micros is None else Floored(argument, micros)

    def formatted(self, expression: Any, time: Any, pattern: Any) -> Local | None:
        """date_format of a pattern of whole fields and what stands between them, in UTC."""
        if class_name(pattern) != "Literal" or pattern.value() is None or not self.in_utc(expression, time):
            return None
        text = str(pattern.value().toString())
        parts = tuple(FIELDS.findall(text))
        argument = self.of(time) if "".join(parts) == text else None
        return None if argument is None else Formatted(argument, parts)

    def in_utc(self, expression: Any, time: Any) -> bool:
        return type_text(time) == "timestamp" and self.is_utc(expression)

    def is_utc(self, expression: Any) -> bool:
        return str(expression.zoneId().getId()) in ("UTC", "Z")

    def clock(self, expression: Any, child: Any) -> Local | None:
        """The hour, minute or second of a timestamp, in UTC."""
        argument = self.of(child) if self.in_utc(expression, child) else None
        return None if argument is None else Widened(Call(CLOCK[class_name(expression)], (argument,)), "int")

    def searched(self, kind: str, children: list[Any]) -> Local | None:
        text, *constants = children
        known = [str(c.value().toString()) for c in constants if class_name(c) == "Literal" and c.value() is not None]
        argument = self.of(text) if type_text(text) == "string" and len(known) == len(constants) else None
        if argument is None or not known[0]:
            return None
        return Searched(SEARCHED.get(kind, "replace_substring"), argument, *known)

    def piece(self, number: Any, text: Any, delimiter: Any) -> Local | None:
        """split_part of a constant delimiter and number."""
        if class_name(delimiter) != "Literal" or delimiter.value() is None or not str(delimiter.value().toString()):
            return None
        at, argument = _constant(number), self.of(text) if type_text(text) == "string" else None
        return None if argument is None or not at else Piece(argument, str(delimiter.value().toString()), at)

    def matched(self, text: Any, pattern: Any, group: Any = None) -> Local | None:
        """rlike, or with ``group`` regexp_extract, of a constant pattern that means the same to Arrow's RE2."""
        if class_name(pattern) != "Literal" or pattern.value() is None or type_text(text) != "string":
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
        made = self.calm("and_kleene" if kind == "And" else "or_kleene", children)
        return made if made is not None or kind == "Or" else self.conjunction(children)

    def conjunction(self, children: list[Any]) -> Local | None:
        parts: list[Local] = []
        for child in children:
            part = self.of(child)
            if part is None:
                return None
            parts += part.parts if isinstance(part, Conjunction) else [part]
        return Conjunction(tuple(parts))

    def arithmetic(self, kind: str, expression: Any, children: list[Any]) -> Local | None:
        kind_of = type_text(expression)
        if kind_of == "double":
            return self.call(ARITHMETIC[kind], children)
        if kind_of in CHECKED and _ansi(expression):
            made = self.call(ARITHMETIC[kind] + "_checked", children)
            return calmed(kind, made, MOST[kind_of]) if isinstance(made, Call) else None
        return None

    def decimal(self, function: str, expression: Any, *children: Any) -> Local | None:
        left, right = (self.of(child) for child in children)
        fits = fitting(function, *(to_arrow(type_text(e)) for e in (*children, expression)))
        if left is None or right is None or fits is None or not (fits or _ansi(expression)):
            return None
        return Arithmetic(function, left, right, type_text(expression), fits)

    def ratio(self, expression: Any, *children: Any) -> Local | None:
        left, right = (self.of(child) for child in children)
        if left is None or right is None or not _ansi(expression):
            return None
        return Ratio(left, right, type_text(expression))

    def sliced(self, text: Any, begin: Any, length: Any) -> Local | None:
        """substring from a constant place that counts from 1, of a constant length."""
        first, count, argument = _constant(begin), _constant(length), self.of(text)
        if argument is None or first is None or count is None or first < 1 or count < 0:
            return None
        return Sliced(argument, first - 1, min(first - 1 + count, (1 << 31) - 1))

    def like(self, expression: Any, text: Any, pattern: Any) -> Local | None:
        """LIKE of a constant pattern in which nothing is escaped."""
        if class_name(pattern) != "Literal" or pattern.value() is None or type_text(text) != "string":
            return None
        known, argument = str(pattern.value().toString()), self.of(text)
        if argument is None or "\\" in known or str(expression.escapeChar()) in known:
            return None
        return Searched("match_like", argument, known)

    def shifted(self, expression: Any, time: Any, interval: Any) -> Local | None:
        """A timestamp and a constant interval of days or less; where a day may have 23 hours, only Spark knows."""
        if (
            class_name(interval) != "Literal"
            or not type_text(interval).startswith("interval ")
            or interval.value() is None
        ):
            return None
        if not isinstance(interval.value(), int) or type_text(interval).split()[-1] not in _SHORT:
            return None
        if not expression.zoneId().getRules().isFixedOffset():
            return None
        argument = self.of(time)
        by = Constant(timedelta(microseconds=interval.value()), "interval day to second")
        return None if argument is None else Call("add_checked", (argument, by))

    def widened(self, expression: Any, child: Any) -> Local | None:
        source, target = type_text(child), type_text(expression)
        if (source, target) == ("timestamp", "date") and self.is_utc(expression):
            argument = self.of(child)
            return None if argument is None else Widened(argument, target)
        if (target == "double" and source in INTEGERS) or (source, target) == ("timestamp_ntz", "timestamp"):
            argument = self.of(child) if target == "double" or self.is_utc(expression) else None
            return None if argument is None else Widened(argument, target)
        rounds = _rounds(target, source)
        argument = self.of(child) if rounds or _holds(target, source) else None
        if argument is None:
            return None
        return Rounded(argument, target) if rounds else Widened(argument, target)


def calmed(kind: str, made: Call, most: int) -> Local:
    """The same without a check where none can fail, ``most`` being the type's: of windows of time as Spark has them."""
    left, right = made.arguments
    if kind != "Multiply" and isinstance(right, Constant) and right.value == 0:
        return left
    if kind == "Add" and isinstance(left, Divided) and left.part == "remainder" and isinstance(right, Constant):
        by = right.value
        if isinstance(by, int) and 0 <= by < most - left.by:
            return Call("add", made.arguments)
    return made


def _any(conditions: list[Local]) -> Local | None:
    return reduce(lambda a, b: Call("or_kleene", (a, b)), conditions) if conditions else None


def literal(expression: Any) -> Local | None:
    """Literals whose value crosses the bridge as it is."""
    kind, value = type_text(expression), expression.value()
    if value is None:
        return _null(kind)
    if kind.startswith("decimal("):
        return Constant(Decimal(str(value.toString())), kind)
    if kind not in LITERALS:
        return None
    return Constant(str(value.toString()) if kind == "string" else value, kind)


def _null(type_text: str) -> Local | None:
    known = type_text in COMPARED | {"double"} or type_text.startswith("decimal(")
    return Constant(None, type_text) if known else None


def _compared(expressions: list[Any]) -> bool:
    """Whether Arrow compares values of their type as Spark does."""
    types = {type_text(e) for e in expressions}
    return types <= COMPARED or (len(types) == 1 and _is_decimal(expressions[0]))


def _is_decimal(expression: Any) -> bool:
    return type_text(expression).startswith("decimal(")


def _holds(target: str, source: str) -> bool:
    """Whether a numeric type has every value of another one."""
    if target in INTEGERS:
        return source in INTEGERS and INTEGERS.index(source) <= INTEGERS.index(target)
    if not target.startswith("decimal("):
        return False
    wide = to_arrow(target)
    if source in INTEGERS:
        return bool(wide.precision - wide.scale >= DIGITS[source])
    if not source.startswith("decimal("):
        return False
    narrow = to_arrow(source)
    return bool(wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale)


def _rounds(target: str, source: str) -> bool:
    """Whether a decimal type has fewer digits behind the point than another, and room before it for a carry."""
    if not (target.startswith("decimal(") and source.startswith("decimal(")):
        return False
    to, of = to_arrow(target), to_arrow(source)
    return bool(to.scale < of.scale and to.precision - to.scale > of.precision - of.scale)


def _ansi(expression: Any) -> bool:
    """Whether what does not fit is an error."""
    return str(expression.evalMode().toString()) == "ANSI"


def _constant(expression: Any) -> int | None:
    """The value of an integer literal."""
    value = expression.value() if class_name(expression) == "Literal" else None
    return value if isinstance(value, int) else None
