"""Expressions that Arrow computes exactly as Spark does: rows that pass them need not leave the Python worker.

An expression has this second form only where both give the same bits: references, literals, comparisons of types
with one form of a value, three-valued logic, integer arithmetic under ANSI rules, floating-point arithmetic by
IEEE, and the hash of keys. Whatever else a query contains is left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit.xxhash import hashable, xxhash64
from headrace.formats.types.arrow import to_arrow
from headrace.state.rows import one_array

Datum: TypeAlias = "pa.Array | pa.ChunkedArray | pa.Scalar"
Rows: TypeAlias = "pa.RecordBatch | pa.Table"

Part: TypeAlias = Literal["quotient", "floor", "remainder"]
Field: TypeAlias = Literal["year", "month", "day"]

THROWING = frozenset({"add_checked", "subtract_checked", "multiply_checked"})


class Local(Protocol):
    """What a stage can evaluate over its rows."""

    @property
    def throws(self) -> bool:
        """Whether some rows make it raise: such an expression must see only the rows that Spark would show it."""

    def evaluate(self, rows: Rows) -> Datum: ...


@dataclass(frozen=True, slots=True)
class Reference:
    name: str

    @property
    def throws(self) -> bool:
        return False

    def evaluate(self, rows: Rows) -> Datum:
        return rows.column(self.name)


@dataclass(frozen=True)
class Constant:
    """``value`` as Arrow's Python conversion takes it, of a Spark SQL type."""

    value: Any
    type: str

    @property
    def throws(self) -> bool:
        return False

    @cached_property
    def scalar(self) -> pa.Scalar:
        return pa.scalar(self.value, to_arrow(self.type))

    def evaluate(self, rows: Rows) -> Datum:
        return self.scalar


@dataclass(frozen=True, slots=True)
class Call:
    """An Arrow compute function by name, its arguments cast to nothing: they have one type already."""

    function: str
    arguments: tuple[Local, ...]

    @property
    def throws(self) -> bool:
        return self.function in THROWING or any(a.throws for a in self.arguments)

    def evaluate(self, rows: Rows) -> Datum:
        values = [a.evaluate(rows) for a in self.arguments]
        try:
            return pc.call_function(self.function, values)
        except pa.ArrowInvalid as error:
            if self.function not in THROWING:
                raise
            operation = self.function.removesuffix("_checked")
            raise ArithmeticError(f"[ARITHMETIC_OVERFLOW] {operation}: the result does not fit its type") from error


@dataclass(frozen=True, slots=True)
class Widened:
    """An integer or decimal as one of another type that holds it (a double, to the nearest), a timestamp's date in UTC,
    or one without a zone as the same one in UTC."""

    argument: Local
    type: str

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        return pc.cast(self.argument.evaluate(rows), to_arrow(self.type), safe=self.type != "double")


@dataclass(frozen=True, slots=True)
class Divided:
    """An integer by a constant greater than 1: ``quotient`` towards zero, ``floor`` downwards, or the ``remainder``.

    A timestamp counts as its microseconds. The remainder has the type of the argument, the others are bigint.
    """

    argument: Local
    by: int
    part: Part

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        return divided(self.argument.evaluate(rows), self.by, self.part)


def divided(values: Datum, by: int, part: Part) -> Datum:
    """See ``Divided``."""
    whole = pc.cast(values, pa.int64())
    quotient = pc.divide(whole, by)
    if part == "quotient":
        return quotient
    rest = pc.subtract(whole, pc.multiply(quotient, by))
    if part == "remainder":
        return pc.cast(rest, values.type)
    return pc.subtract(quotient, pc.cast(pc.less(rest, 0), pa.int64()))


@dataclass(frozen=True, slots=True)
class Recounted:
    """A timestamp as its microseconds, or back: the same bits under another type."""

    argument: Local
    type: str

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        values = materialized(self.argument.evaluate(rows), rows.num_rows)
        return values.cast(pa.int64()).cast(to_arrow(self.type))


@dataclass(frozen=True, slots=True)
class Struct:
    """Values as the fields of one struct, which is never null itself."""

    fields: tuple[Local, ...]
    type: str

    @property
    def throws(self) -> bool:
        return any(f.throws for f in self.fields)

    def evaluate(self, rows: Rows) -> Datum:
        values = [materialized(f.evaluate(rows), rows.num_rows) for f in self.fields]
        return pa.StructArray.from_arrays(values, fields=list(to_arrow(self.type)))


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a struct by its place, null where the struct is."""

    argument: Local
    place: int

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        return pc.struct_field(self.argument.evaluate(rows), [self.place])


@dataclass(frozen=True, slots=True)
class Floored:
    """A timestamp at the start of its unit of so many microseconds, in UTC."""

    argument: Local
    unit: int

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        units = divided(self.argument.evaluate(rows), self.unit, "floor")
        return pc.cast(pc.multiply(units, self.unit), to_arrow("timestamp"))


@dataclass(frozen=True, slots=True)
class Quotient:
    """A bigint or double by another of its type; to divide by zero is an error."""

    left: Local
    right: Local

    @property
    def throws(self) -> bool:
        return True

    def evaluate(self, rows: Rows) -> Datum:
        above, below = self.left.evaluate(rows), self.right.evaluate(rows)
        if pc.any(pc.and_(pc.is_valid(above), pc.equal(below, pa.scalar(0, below.type)))).as_py():
            raise ArithmeticError("[DIVIDE_BY_ZERO] Division by zero. Use try_divide to tolerate divisor being 0.")
        try:
            return pc.divide_checked(above, below)
        except pa.ArrowInvalid as error:
            raise ArithmeticError("[ARITHMETIC_OVERFLOW] divide: the result does not fit its type") from error


@dataclass(frozen=True, slots=True)
class Conjunction:
    """AND of parts of which some may throw: each is looked at where none before it is false, as Spark does."""

    parts: tuple[Local, ...]

    @property
    def throws(self) -> bool:
        return True

    def evaluate(self, rows: Rows) -> Datum:
        result = materialized(self.parts[0].evaluate(rows), rows.num_rows)
        for part in self.parts[1:]:
            open_ = pc.fill_null(result, True)
            some = rows.filter(open_)
            value = materialized(part.evaluate(some), some.num_rows)
            is_open = open_.to_numpy(zero_copy_only=False)
            result = pc.and_kleene(result, value.take(pa.array(np.cumsum(is_open) - 1, mask=~is_open)))
        return result


@dataclass(frozen=True, slots=True)
class Formatted:
    """A timestamp as text, in UTC; each second, or day, is written once. ``parts``: fields and what is between them."""

    argument: Local
    parts: tuple[str, ...]

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        values = materialized(self.argument.evaluate(rows), rows.num_rows)
        unit = 86_400 if TIMES.isdisjoint(self.parts) else 1
        encoded = divided(values, unit * 1_000_000, "floor").dictionary_encode()
        texts = pa.array(map(self.text, (encoded.dictionary.to_numpy() * unit).tolist()), pa.string())
        return texts.take(encoded.indices)

    def text(self, seconds: int) -> str:
        days, rest = divmod(seconds, 86_400)
        year, month, day = _civil(days)
        fields = {"MM": month, "dd": day, "HH": rest // 3600, "mm": rest // 60 % 60, "ss": rest % 60}
        known = {"yyyy": _year(year), **{name: f"{value:02d}" for name, value in fields.items()}}
        return "".join(known.get(part, part) for part in self.parts)


TIMES = frozenset({"HH", "mm", "ss"})


def _year(year: int) -> str:
    """As Java prints it: with a sign beyond four digits."""
    return f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01, of years that ``datetime`` lacks too.

    Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    """
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year_of_era + era * 400 + (month <= 2), month, day


@dataclass(frozen=True, slots=True)
class DateField:
    """The ``year``, ``month`` or ``day`` of a date, an int."""

    argument: Local
    field: Field

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        values = materialized(self.argument.evaluate(rows), rows.num_rows)
        encoded = values.cast(pa.int32()).dictionary_encode()  # few days are many dates
        place = ("year", "month", "day").index(self.field)
        made = pa.array([_civil(day)[place] for day in encoded.dictionary.to_pylist()], pa.int32())
        return made.take(encoded.indices)


@dataclass(frozen=True, slots=True)
class Sliced:
    """The characters of a text from ``first``, counted from 0, up to ``last``."""

    argument: Local
    first: int
    last: int

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        return pc.utf8_slice_codeunits(self.argument.evaluate(rows), self.first, self.last)


@dataclass(frozen=True, slots=True)
class Searched:
    """An Arrow compute function of a text and a constant text: ``replacement`` is what takes its place."""

    function: str
    argument: Local
    pattern: str
    replacement: str | None = None

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        if self.replacement is None:
            options = pc.MatchSubstringOptions(self.pattern)
        else:
            options = pc.ReplaceSubstringOptions(self.pattern, self.replacement)
        return pc.call_function(self.function, [self.argument.evaluate(rows)], options)


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands between two delimiters, counted from 1, or from the end down from -1; empty beyond the last one."""

    argument: Local
    delimiter: str
    number: int

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        values = materialized(self.argument.evaluate(rows), rows.num_rows)
        lists = pc.split_pattern(values, self.delimiter)
        begins, ends = lists.offsets.to_numpy()[:-1], lists.offsets.to_numpy()[1:]
        at = begins + (self.number - 1) if self.number > 0 else ends + self.number
        pieces = lists.values.take(pa.array(at, mask=(at < begins) | (at >= ends)))
        return pc.if_else(pc.is_valid(values), pc.fill_null(pieces, ""), pa.scalar(None, pa.string()))


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a group of a regular expression matched first, empty where it did not. All groups have names."""

    argument: Local
    pattern: str
    group: str

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        values = materialized(self.argument.evaluate(rows), rows.num_rows)
        found = pc.struct_field(pc.extract_regex(values, self.pattern), self.group)
        return pc.if_else(pc.is_valid(values), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


@dataclass(frozen=True, slots=True)
class Lowered:
    """A text as compared with one of small ASCII letters: of all others only the Kelvin sign has such a small form."""

    argument: Local

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        return pc.ascii_lower(pc.replace_substring(self.argument.evaluate(rows), "\N{KELVIN SIGN}", "k"))


@dataclass(frozen=True, slots=True)
class Hash:
    """``xxhash64`` of keys as Spark computes it.

    ``strict``: null when a key is null (keys compared by ``=``); otherwise a null is a value like others (GROUP BY).
    """

    keys: tuple[Local, ...]
    types: tuple[str, ...]
    strict: bool

    @property
    def throws(self) -> bool:
        return any(k.throws for k in self.keys)

    def evaluate(self, rows: Rows) -> Datum:
        columns = [materialized(k.evaluate(rows), rows.num_rows) for k in self.keys]
        if self.strict:
            hashes = xxhash64(columns, self.types, rows.num_rows)
            absent = [pc.is_null(c) for c in columns if c.null_count]
            if not absent:
                return pa.array(hashes)
            missing = absent[0]
            for other in absent[1:]:
                missing = pc.or_(missing, other)
            return pa.array(hashes, mask=missing.to_numpy(zero_copy_only=False))
        if not columns:
            return pa.scalar(0, pa.int64())
        parts = [part for c in columns for part in (c, pc.is_null(c))]
        return pa.array(xxhash64(parts, [t for of in self.types for t in (of, "boolean")], rows.num_rows))


def hash_of(keys: Iterable[Local | None], types: Iterable[str], *, strict: bool) -> Local | None:
    """The hash in its local form, where every key and type has one."""
    chosen, names = tuple(keys), tuple(types)
    known = tuple(k for k in chosen if k is not None)
    if len(known) < len(chosen) or not hashable(names):
        return None
    return Hash(known, names, strict)


def materialized(value: Datum, rows: int) -> pa.Array:
    """A value as one array of ``rows`` values."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else one_array(value)
