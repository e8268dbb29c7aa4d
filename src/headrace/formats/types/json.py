"""JSON values -> Arrow, exactly: nothing is rounded or guessed; what does not fit is refused with the reason.

Every type has a *fast* rule (whole columns, for the spellings that Arrow reads as we mean them) and an *exact* rule
(one value). The exact rule is the definition; the fast one gives up whenever it is not sure to agree with it.
The values that Python itself has for a type (``Decimal``, ``date``, ``datetime``, ``bytes``) are taken as well.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import difflib
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import decimals, intervals
from headrace.formats.types.arrow import CALENDAR, DAYS, MICROSECONDS, MONTHS, YEAR_MONTH, from_arrow
from headrace.model.errors import HeadraceError

Exact = Callable[[Any], Any]  # one value, not None -> what Arrow takes; ValueError says why not
_Kinds = set[type]

DECIMAL_DIGITS_OF_DOUBLE = 15  # any decimal of so many digits survives the way through a double
_WIDE = decimal.Context(prec=120, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d)?)?)?)(\.\d+)?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)
_FLOAT32_MAX = 3.4028235677973366e38  # half a step beyond the largest float: rounds to infinity from here
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TRIED = (pa.ArrowException, ValueError, TypeError, OverflowError)


class ColumnRefused(Exception):
    """Values of a column that do not fit its type: ``bad`` holds (index, why) of each, in order."""

    def __init__(self, bad: list[tuple[int, str]]) -> None:
        super().__init__(f"{len(bad)} values do not fit")
        self.bad = bad


def column(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """An array of ``arrow`` type with one element a value; None is null. Raises ``ColumnRefused``."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    array = _fast(values, kinds, arrow)
    if array is not None:
        return array
    exact, taken, bad = exact_rule(arrow), [], []
    for index, value in enumerate(values):
        try:
            taken.append(None if value is None else exact(value))
        except ValueError as error:
            bad.append((index, str(error)))
    if bad:
        raise ColumnRefused(bad)
    return pa.array(taken, arrow)


def text_column(texts: pa.Array, arrow: pa.DataType) -> pa.Array | None:
    """The fast rule for a column of strings that spell decimals, dates or timestamps; None: use the exact rule."""
    try:
        if pa.types.is_decimal(arrow):
            return decimals.from_text(texts, arrow)
        if pa.types.is_date(arrow):
            return _within(texts.cast(arrow), pa.int32(), _DAYS)
        if pa.types.is_timestamp(arrow):
            return _within(_timestamps(texts, arrow), pa.int64(), _MICROS)
    except _TRIED:
        return None
    return None


@lru_cache(maxsize=1024)
def exact_rule(arrow: pa.DataType) -> Exact:
    """The exact rule of a type. Raises ``HeadraceError`` (config.invalid) for a type that JSON cannot spell."""
    if pa.types.is_integer(arrow):
        return _whole(arrow)
    if pa.types.is_floating(arrow):
        return _float32 if arrow.bit_width == 32 else _double
    if pa.types.is_decimal(arrow):
        return _decimal(arrow)
    if pa.types.is_timestamp(arrow):
        return _timestamp(arrow.tz is not None)
    if pa.types.is_list(arrow):
        return _list(exact_rule(arrow.value_type))
    if pa.types.is_map(arrow):
        return _map(_key_rule(arrow.key_type), exact_rule(arrow.item_type))
    if arrow in _PLAIN:
        return _PLAIN[arrow]
    if pa.types.is_struct(arrow):
        return _struct({arrow.field(i).name: exact_rule(arrow.field(i).type) for i in range(arrow.num_fields)})
    raise HeadraceError("config.invalid", f"the type {from_arrow(arrow)} has no spelling in JSON, CSV or HTTP")


def needs_exact_numbers(arrow: pa.DataType) -> bool:
    """Whether the type holds decimals of more digits than a double keeps, so that a parser must not make doubles."""
    if pa.types.is_decimal(arrow):
        return bool(arrow.precision > DECIMAL_DIGITS_OF_DOUBLE)
    if pa.types.is_map(arrow):
        return needs_exact_numbers(arrow.key_type) or needs_exact_numbers(arrow.item_type)
    if pa.types.is_list(arrow):
        return needs_exact_numbers(arrow.value_type)
    if pa.types.is_struct(arrow):
        return any(needs_exact_numbers(arrow.field(index).type) for index in range(arrow.num_fields))
    return False


# --- fast rules ---------------------------------------------------------------------------------------------------


def _fast(values: Sequence[Any], kinds: _Kinds, arrow: pa.DataType) -> pa.Array | None:
    """The whole column at once, or None when the exact rule must decide."""
    try:
        if not kinds:
            return pa.nulls(len(values), arrow)
        if kinds == {_NATIVE.get(arrow)} or (arrow == pa.float64() and kinds <= {int, float}):
            return pa.array(values, arrow)
        if pa.types.is_decimal(arrow):
            if kinds <= {int, decimal.Decimal}:
                return pa.array(values, arrow)
            if kinds <= {int, float}:
                return _decimals_of_doubles(pa.array(values, pa.float64()), arrow)
        if kinds == {str}:
            return text_column(pa.array(values, pa.string()), arrow)
    except _TRIED:
        return None
    return None


def _decimals_of_doubles(doubles: pa.Array, arrow: pa.DataType) -> pa.Array | None:
    """Decimals that the doubles are the nearest to; None when one has no such decimal of this type.

    The test is exact: below 2**53 both the unscaled value and the power of ten (up to 10**22) are doubles, so their
    quotient is correctly rounded and equals the double that the decimal's digits are read as.
    """
    power = 10.0**arrow.scale
    null = doubles.is_null().to_numpy(zero_copy_only=False)
    numbers = np.where(null, 0.0, doubles.to_numpy(zero_copy_only=False))
    unscaled = np.rint(numbers * power)
    limit = min(2.0**53, 10.0**arrow.precision)
    if arrow.scale > 22 or not np.all((np.abs(unscaled) < limit) & (unscaled / power == numbers)):
        return None
    words = np.empty((len(numbers), 2), dtype="<i8")
    words[:, 0] = unscaled
    words[:, 1] = words[:, 0] >> 63
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(arrow, len(numbers), [validity, pa.py_buffer(words)])


def _timestamps(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    if arrow.tz is None:
        return texts.cast(arrow)
    try:
        return texts.cast(arrow)
    except pa.ArrowInvalid:  # Arrow wants a zone in every text; texts without any are UTC
        return texts.cast(pa.timestamp("us")).cast(arrow)


def _within(array: pa.Array, integer: pa.DataType, bounds: tuple[int, int]) -> pa.Array | None:
    """The array when every date or time is in the years 1 to 9999, else None."""
    ends = pc.min_max(array.cast(integer)).as_py()
    return array if ends["min"] is None or (ends["min"] >= bounds[0] and ends["max"] <= bounds[1]) else None


# --- exact rules --------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value in an error: short, as JSON spells it where that is another way than Python's."""
    try:
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    except RecursionError:  # Python spells what is nested by recursion
        return "..."
    text = f"'{text}'" if isinstance(value, str) else text
    return text if len(text) <= 60 else text[:57] + "..."


def _not(value: Any, expected: str) -> ValueError:
    names = {bool: "boolean", int: "number", float: "number", decimal.Decimal: "number", str: "text", dict: "object"}
    kind = names.get(type(value), "array" if isinstance(value, list) else type(value).__name__)
    return ValueError(f"must be {expected}, not {kind} {shown(value)}")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _not(value, "true or false")


def _whole(arrow: pa.DataType) -> Exact:
    limit, name = 1 << (arrow.bit_width - 1), from_arrow(arrow)

    def rule(value: Any) -> int:
        if isinstance(value, float | decimal.Decimal) and math.isfinite(value) and -(2**53) < value < 2**53:
            value = int(value) if value == int(value) else value
        if not isinstance(value, int) or isinstance(value, bool):
            raise _not(value, "a whole number")
        if not -limit <= value < limit:
            raise ValueError(f"{value} is outside the range of {name}")
        return value

    return rule


def _double(value: Any) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if not isinstance(value, int | float | decimal.Decimal) or isinstance(value, bool):
        raise _not(value, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and not (isinstance(value, float) and math.isinf(value)):
        raise ValueError(f"{shown(value)} is outside the range of double")
    return number


def _float32(value: Any) -> float:
    number = _double(value)
    if math.isfinite(number) and abs(number) >= _FLOAT32_MAX:
        raise ValueError(f"{shown(value)} is outside the range of float")
    return number


def _decimal(arrow: pa.DataType) -> Exact:
    unit, whole_digits = decimal.Decimal((0, (1,), -arrow.scale)), arrow.precision - arrow.scale

    def rule(value: Any) -> decimal.Decimal:
        number = _as_decimal(value)
        if number and number.adjusted() >= whole_digits:
            raise ValueError(f"{shown(value)} has more than {whole_digits} digits before the point")
        rounded = number.quantize(unit, context=_WIDE)
        if rounded != number:
            raise ValueError(f"{shown(value)} has more than {arrow.scale} digits after the point")
        return rounded

    return rule


def _as_decimal(value: Any) -> decimal.Decimal:
    number = None
    if isinstance(value, decimal.Decimal):
        number = value
    elif isinstance(value, float):
        number = decimal.Decimal(repr(value))
    elif isinstance(value, int) and not isinstance(value, bool):
        number = decimal.Decimal(value)
    elif isinstance(value, str) and NUMBER.fullmatch(value):
        try:
            number = decimal.Decimal(value)
        except decimal.InvalidOperation:  # an exponent beyond all limits
            raise ValueError(f"{shown(value)} is outside the range of decimals") from None
    if number is None or not number.is_finite():
        raise _not(value, "a decimal number")
    return number


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _not(value, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode; a surrogate stands alone") from None
    return value


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise _not(value, "bytes in base64")


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            pass
    raise _not(value, "a date such as '2025-01-31'")


def _duration(value: Any) -> dt.timedelta:
    length: dt.timedelta = value
    if not isinstance(value, dt.timedelta):
        months, days, microseconds = _interval(value)
        if months:
            raise ValueError(f"must be an interval without months, not {shown(value)}")
        try:
            length = dt.timedelta(days=days, microseconds=microseconds)
        except OverflowError:
            length = dt.timedelta.max
    if not _LONGEST[0] <= length <= _LONGEST[1]:
        raise ValueError(f"{shown(value)} is too long")
    return length


def _year_month(value: Any) -> dict[str, int]:
    months, days, microseconds = _interval(value)
    if days or microseconds:
        raise ValueError(f"must be an interval of years and months, not {shown(value)}")
    return {MONTHS: months}


def _calendar(value: Any) -> dict[str, int]:
    return dict(zip((MONTHS, DAYS, MICROSECONDS), _interval(value), strict=True))


def _interval(value: Any) -> tuple[int, int, int]:
    """(months, days, microseconds) of a text, or of what Arrow has of an interval with months."""
    parts = None
    if isinstance(value, dict) and value.keys() <= {MONTHS, DAYS, MICROSECONDS}:
        parts = (value.get(MONTHS, 0), value.get(DAYS, 0), value.get(MICROSECONDS, 0))
    elif isinstance(value, str):
        parts = intervals.parts(value)
    if parts is None or not all(type(part) is int for part in parts):
        raise _not(value, "an interval such as 'P1Y2M' or 'P3DT4H'")
    for part, limit in zip(parts, (1 << 31, 1 << 31, 1 << 63), strict=True):
        if not -limit <= part < limit:
            raise ValueError(f"{shown(value)} is too long")
    return parts


def _timestamp(zoned: bool) -> Exact:
    expected = f"a timestamp such as '2025-01-31T12:00:00{'Z' if zoned else ''}'"

    def rule(value: Any) -> dt.datetime:
        time = value if isinstance(value, dt.datetime) else _parsed_time(value) if isinstance(value, str) else None
        if time is None:
            raise _not(value, expected)
        if not zoned:
            if time.tzinfo is not None:
                raise ValueError(f"must be a timestamp without a zone, not {shown(value)}")
            return time
        try:
            return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
        except OverflowError:
            raise ValueError(f"{shown(value)} is outside the years 1 to 9999") from None

    return rule


def _parsed_time(text: str) -> dt.datetime | None:
    """ISO 8601 in the extended form; digits beyond microseconds are cut off, as Spark does."""
    match = _TIMESTAMP.fullmatch(text.upper())
    if match is None or (match[2] and match[1].count(":") < 2) or (match[3] and len(match[1]) == 10):
        return None
    try:
        return dt.datetime.fromisoformat(
            match[1] + (match[2] or "")[:7].ljust(7 if match[2] else 0, "0") + (match[3] or "")
        )
    except ValueError:
        return None


def _void(value: Any) -> None:
    raise _not(value, "null")


def _list(element: Exact) -> Exact:
    def rule(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _not(value, "an array")
        return [_inside(element, item, f"element {number}") for number, item in enumerate(value, 1)]

    return rule


def _struct(fields: dict[str, Exact]) -> Exact:
    def rule(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _not(value, f"an object with the fields {', '.join(fields)}")
        for name in value:
            if name not in fields:
                raise ValueError(f"has no field '{name}'; {nearest(name, list(fields))}")
        return {name: _inside(field, value.get(name), f"field '{name}'") for name, field in fields.items()}

    return rule


def _map(key: Exact, item: Exact) -> Exact:
    def rule(value: Any) -> list[tuple[Any, Any]]:
        pairs = list(value.items()) if isinstance(value, dict) else value
        if not isinstance(pairs, list) or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
            raise _not(value, "an object, or an array of [key, value]")
        if any(k is None for k, _ in pairs):
            raise ValueError("a key of a map must not be null")
        read = [(_inside(key, k, f"key {shown(k)}"), _inside(item, v, f"key {shown(k)}")) for k, v in pairs]
        if len({repr(k) for k, _ in read}) < len(read):
            raise ValueError("a key of a map occurs twice")
        return read

    return rule


def _key_rule(arrow: pa.DataType) -> Exact:
    """Keys of a JSON object are text: numbers and booleans are read from it."""
    exact, words = exact_rule(arrow), {"true": True, "false": False}

    def rule(value: Any) -> Any:
        if isinstance(value, str) and pa.types.is_integer(arrow) and _WHOLE.fullmatch(value):
            return exact(int(value))
        if isinstance(value, str) and pa.types.is_floating(arrow) and NUMBER.fullmatch(value):
            return exact(float(value))
        return exact(words.get(value, value) if pa.types.is_boolean(arrow) and isinstance(value, str) else value)

    return rule


def _inside(rule: Exact, value: Any, place: str) -> Any:
    if value is None:
        return None
    try:
        return rule(value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def nearest(name: str, known: Sequence[str]) -> str:
    """The next step for a name that does not exist; none where there is no name at all."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}" if known else ""


_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAYS = (1 - _EPOCH, dt.date.max.toordinal() - _EPOCH)
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
# Of 64 bits of microseconds; Arrow turns the seconds of a timedelta, which are rounded down, into them first.
_LONGEST = (dt.timedelta(seconds=-((1 << 63) // 1_000_000)), dt.timedelta(microseconds=(1 << 63) - 1))
_PLAIN: dict[pa.DataType, Exact] = {
    pa.bool_(): _boolean,
    pa.string(): _string,
    pa.binary(): _binary,
    pa.date32(): _date,
    pa.null(): _void,
    pa.duration("us"): _duration,
    YEAR_MONTH: _year_month,
    CALENDAR: _calendar,
}
_NATIVE: dict[pa.DataType, type] = {
    pa.bool_(): bool,
    pa.int8(): int,
    pa.int16(): int,
    pa.int32(): int,
    pa.int64(): int,
    pa.string(): str,
    pa.date32(): dt.date,
}
