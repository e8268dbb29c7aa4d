"""Calls that make much of little, such as ``repeat(x, 2000000000)``: beyond a bound they raise, so that a view fails by
the row that asked for it. Made in one piece, it would end the process that all views live in.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from headrace.sql.build import Build
from headrace.sql.java_names import class_name, type_text
from headrace.sql.template import Templates
from headrace.sql.tree import Tree

BYTES_MAX = 16 << 20  # of one value
STEPS_MAX = 100_000_000  # in which one value is found: some tenths of a second
GROWTH_MAX = 64  # times what a call is given: so much is no excess, whatever the row
NAMES = "abcdef"  # of a call's arguments in the conditions below


@dataclass(frozen=True, slots=True)
class Excess:
    """``when``: a condition in SQL over the call's arguments; ``what`` it would be then."""

    when: str
    what: str = "a value of more than 16 MiB"


def _bytes(size: str) -> Excess:
    return Excess(f"{size} > {BYTES_MAX}L")


_STEPS = Excess(f"CAST(char_length(a) AS BIGINT) * char_length(b) > {STEPS_MAX}L", "a comparison that takes very long")
_PADDED = _bytes("b")
# Class of a call -> when it makes too much. Digits that are the width of a field stand after a percent sign.
EXCESSES = {
    "ArrayInsert": _bytes("8L * abs(CAST(b AS BIGINT))"),
    "ArrayJoin": _bytes("CAST(size(a) AS BIGINT) * octet_length(b)"),
    "ArrayRepeat": _bytes("8L * b"),
    "BinaryPad": _PADDED,
    "FormatNumber": _bytes("b"),
    "FormatString": Excess(r"a RLIKE '%[^%a-zA-Z]*[0-9]{6}'"),
    "JaroWinklerSimilarity": _STEPS,
    "Levenshtein": _STEPS,
    "RegExpReplace": _bytes("(1L + octet_length(a)) * octet_length(c)"),
    "StringLPad": _PADDED,
    "StringRPad": _PADDED,
    "StringRepeat": _bytes("CAST(octet_length(a) AS BIGINT) * b"),
    "StringReplace": _bytes("octet_length(a) div greatest(octet_length(b), 1) * CAST(octet_length(c) AS BIGINT)"),
    "StringSpace": _bytes("a"),
}

# Class of a call -> the argument that says how many times larger than the first what it makes can be.
GROWTH = {"ArrayJoin": 1, "RegExpReplace": 2, "StringRepeat": 1, "StringReplace": 2}


class Sizes:
    """Bound to one session."""

    def __init__(self, build: Build, tree: Tree) -> None:
        self.build, self.templates = build, Templates(build.catalyst, tree)

    def bounded(self, expression: Any, kind: str) -> Any:
        """The call, of that class, or an error where it would make too much; itself where it never does."""
        if kind != "Sequence" and kind not in EXCESSES:
            return expression
        arguments = self.build.catalyst.items(expression.children())
        excess = self._excess(kind, arguments)
        if excess is None:
            return expression
        values = {name: value for name, value in zip(NAMES, arguments, strict=False) if name in excess.when}
        condition = self.templates.filled(excess.when, values)
        raised = self.build.raised(
            f"{expression.prettyName()}() would make {excess.what} of this row", expression.dataType()
        )
        if condition.foldable():  # the optimizer would compute both branches
            return raised if condition.eval(None) else expression
        if not expression.nullable():
            raised = self.build.expressions.KnownNotNull(raised)
        return self.build.expressions.If(condition, raised, expression)

    def _excess(self, kind: str, arguments: list[Any]) -> Excess | None:
        if kind in GROWTH and _times(arguments[GROWTH[kind]]) <= GROWTH_MAX:
            return None
        if kind == "Sequence":
            return _elements([type_text(argument) for argument in arguments])
        if kind == "ArrayRepeat" and type_text(arguments[0]) in ("string", "binary"):
            return _bytes("(8L + octet_length(a)) * b")
        if kind == "FormatNumber" and type_text(arguments[1]) == "string":
            return None
        return EXCESSES.get(kind)


def _times(argument: Any) -> float:
    """A constant number, or the length of a constant text; infinity for what is no constant."""
    value = argument.value() if class_name(argument) == "Literal" else None
    if value is None:
        return math.inf
    return value if isinstance(value, int) else len(str(value.toString()))


def _elements(types: list[str]) -> Excess:
    """A sequence from ``a`` to ``b`` by ``c``. Times count in seconds, and a month has 28 days."""
    place, step = "CAST({} AS DOUBLE)", "1D"
    if types[0] == "date":
        place, step = "86400D * unix_date({})", "86400D"
    elif "timestamp" in types[0]:
        place, step = "CAST(CAST({} AS TIMESTAMP) AS DOUBLE)", "86400D"
    if len(types) == 3:
        step = " + ".join(_STEP[part] for part in _STEP if part in _parts(types[2])) or "CAST(c AS DOUBLE)"
    return Excess(f"8 * abs({place.format('b')} - {place.format('a')}) > {BYTES_MAX}D * abs({step})")


_STEP = {
    "year": "29030400D * extract(YEAR FROM c)", "month": "2419200D * extract(MONTH FROM c)",
    "day": "86400D * extract(DAY FROM c)", "hour": "3600D * extract(HOUR FROM c)",
    "minute": "60D * extract(MINUTE FROM c)", "second": "extract(SECOND FROM c)",
}  # fmt: skip


def _parts(interval: str) -> tuple[str, ...]:
    """The units that an interval of this type has."""
    if interval == "interval":
        return tuple(_STEP)
    units = re.findall("year|month|day|hour|minute|second", interval)
    return tuple(_STEP)[list(_STEP).index(units[0]) : list(_STEP).index(units[-1]) + 1] if units else ()
