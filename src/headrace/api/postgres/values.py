"""Columns of Arrow as PostgreSQL's text or binary values, and parameters back: a column at a time."""

from __future__ import annotations

import datetime as dt
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader, PyFormat, Transformer
from psycopg.pq import Format
from psycopg.types.datetime import DateLoader

from headrace.api.postgres import types
from headrace.api.postgres.types import PostgresType
from headrace.model.errors import HeadraceError

TEXT, BINARY = 0, 1
_EPOCH_DAYS = 10_957  # from 1970 to 2000, where PostgreSQL's binary dates begin
_EPOCH_US = _EPOCH_DAYS * 86_400_000_000
# Numbers that PostgreSQL writes without an exponent; Arrow has one from a smaller number on.
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, {pa.float32(): 1e6, pa.float64(): 1e15}
_ARROW_PLAIN_BELOW = 1e10
_WIDTHS = {"oid": ">u4", "int2": ">i2", "int4": ">i4", "int8": ">i8", "float4": ">f4", "float8": ">f8"}
_DATE = re.compile(rb"\s*(\d+-\d\d-\d\d)([T ] *\d\d?:[\d:.]+)? *(Z|[+-]\d\d(:?\d\d){0,2})?\s*")
_AROUND_ELEMENTS = re.compile(rb'("(?:[^"\\]|\\.)*+")|\s*([,{}])\s*')  # spaces, which a server does not write

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Values:
    """The bytes of a column: value i is ``bytes[starts[i]:][:lengths[i]]``, or NULL."""

    bytes: npt.NDArray[np.uint8]
    starts: Numbers
    lengths: Numbers
    null: npt.NDArray[np.bool_]


def encoded(column: pa.Array, kind: PostgresType, form: int) -> Values:
    """A column of a result (as ``PostgresType.text`` gives it, for the text form) in that form."""
    return _of_binary(column, kind) if form == BINARY else of_texts(texts(column, kind))


def texts(column: pa.Array, kind: PostgresType) -> pa.Array:
    """A column in PostgreSQL's text form, as strings."""
    arrow = column.type
    if pa.types.is_boolean(arrow):
        return pc.if_else(column, "t", "f")
    if pa.types.is_floating(arrow):
        return _float_texts(column)
    if pa.types.is_timestamp(arrow):
        texts = _moments(column.cast(pa.timestamp("us"), safe=False))
        return pc.binary_join_element_wise(texts, "+00", "") if arrow.tz else texts
    if pa.types.is_time(arrow):
        return _trimmed(column.cast(pa.string()))
    if pa.types.is_decimal(arrow):
        return _decimal_texts(column)
    return column.cast(pa.string())


def parameter(value: bytes | None, oid: int, form: int) -> Any:
    """A bound value as Python's. One of an undeclared type stays text. Raises ``query.parameter``."""
    if value is None:
        return None
    try:
        if oid in (0, types.TEXT.oid, types.JSON.oid, 705, 1042, 1043, 19):
            return value.decode()
        if oid == types.JSONB.oid:
            return value.removeprefix(b"\x01" if form == BINARY else b"").decode()
        if form == TEXT and types.DECLARED.get(oid, "").endswith("[]"):
            value = _AROUND_ELEMENTS.sub(rb"\1\2", value)
        return Transformer(_PARAMETERS).get_loader(oid, Format(form)).load(value)
    except (psycopg.Error, ValueError, struct.error, IndexError, OverflowError) as error:
        raise HeadraceError("query.parameter", f"a parameter does not fit its type: {error}") from error


class _Boolean(Loader):
    """Every spelling that PostgreSQL takes; psycopg's own loader knows those that it writes."""

    def load(self, data: Buffer) -> bool:
        word = bytes(data).decode().strip().lower()
        for truth, words in ((True, ("true", "yes", "on", "1")), (False, ("false", "no", "off", "0"))):
            if word not in ("", "o") and any(each.startswith(word) for each in words):
                return truth
        raise ValueError(f"'{word}' is no boolean")


class _Date(DateLoader):
    """The time and the zone after a date, which drivers write that know no type for it, change nothing."""

    def load(self, data: Buffer) -> dt.date:
        found = _DATE.fullmatch(data)
        return super().load(found[1] if found else data)


class _Parameters:
    """How parameters are read: as psycopg reads values, but for what clients write in other ways than a server."""

    def __init__(self) -> None:
        self.connection = None
        self.adapters = AdaptersMap(psycopg.adapters)
        self.adapters.register_loader("bool", _Boolean)
        self.adapters.register_loader("date", _Date)


_PARAMETERS = _Parameters()


def of_texts(strings: pa.Array) -> Values:
    """Strings, or bytes, as they are."""
    if isinstance(strings, pa.ChunkedArray):
        strings = strings.combine_chunks()
    null = pc.is_null(strings).to_numpy(zero_copy_only=False)
    strings = strings.cast(pa.large_binary())
    buffers, count, first = strings.buffers(), len(strings), strings.offset
    if not count:
        return Values(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64), null)
    offsets = np.frombuffer(buffers[1], np.int64)[first : first + count + 1]
    content = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.empty(0, np.uint8)
    return Values(content, offsets[:-1], np.where(null, 0, np.diff(offsets)), null)


def _of_binary(column: pa.Array, kind: PostgresType) -> Values:
    if kind.short in _WIDTHS:
        numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(_WIDTHS[kind.short])
        return _fixed(column, numbers)
    if kind == types.BOOL:
        return _fixed(column, pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(np.uint8))
    if kind == types.DATE:
        return _fixed(column, (_integers(column, pa.int32()) - _EPOCH_DAYS).astype(">i4"))
    if kind in (types.TIMESTAMP, types.TIMESTAMPTZ):
        us = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return _fixed(column, (_integers(us, pa.int64()) - _EPOCH_US).astype(">i8"))
    if kind == types.TIME:
        return _fixed(column, _integers(column.cast(pa.time64("us")), pa.int64()).astype(">i8"))
    if kind.short == "numeric" or kind in (types.INTERVAL, types.UUID) or kind.element is not None:
        return of_texts(pa.array([_one(value, kind) for value in _python(column, kind)], pa.binary()))
    if kind == types.JSONB:
        return of_texts(pc.binary_join_element_wise(pa.scalar("\x01"), column.cast(pa.string()), ""))
    return of_texts(column.cast(pa.binary()))


def _one(value: Any, kind: PostgresType) -> bytes | None:
    """One value of a type that has no form for a whole column at once."""
    if value is None:
        return None
    if kind.element is not None:
        return _array(value, kind.element)
    if kind == types.INTERVAL:
        return struct.pack("!qii", value.nanoseconds // 1000, value.days, value.months)
    if kind == types.UUID:
        return bytes.fromhex(str(value).replace("-", ""))
    dumper = Transformer().get_dumper(value, PyFormat.BINARY)
    return bytes(cast(bytes, dumper.dump(value)))


def _array(values: list[Any], element: PostgresType) -> bytes:
    parts = [_element(value, element) for value in values]
    if not parts:
        return struct.pack("!iii", 0, 0, element.oid)
    head = struct.pack("!iiiii", 1, int(None in parts), element.oid, len(parts), 1)
    sized = (struct.pack("!i", -1) if part is None else struct.pack("!i", len(part)) + part for part in parts)
    return head + b"".join(sized)


def _element(value: Any, element: PostgresType) -> bytes | None:
    found = _of_binary(pa.array([value], _ARROW.get(element.short)), element)
    return None if found.null[0] else found.bytes[found.starts[0] :][: found.lengths[0]].tobytes()


_ARROW = {
    "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(), "float8": pa.float64(),
    "bool": pa.bool_(), "text": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "time": pa.time64("us"), "bytea": pa.binary(),
}  # fmt: skip


def _python(column: pa.Array, kind: PostgresType) -> list[Any]:
    if pa.types.is_uint64(column.type):
        column = column.cast(pa.decimal128(20, 0))
    return cast(list[Any], column.to_pylist())


def _integers(column: pa.Array, kind: pa.DataType) -> Numbers:
    return cast(Numbers, pc.fill_null(column.cast(kind), 0).to_numpy(zero_copy_only=False).astype(np.int64))


def _fixed(column: pa.Array, numbers: npt.NDArray[Any]) -> Values:
    width, count = numbers.dtype.itemsize, len(numbers)
    null = pc.is_null(column).to_numpy(zero_copy_only=False)
    lengths = np.where(null, 0, width).astype(np.int64)
    return Values(np.ascontiguousarray(numbers).view(np.uint8), np.arange(count, dtype=np.int64) * width, lengths, null)


def _moments(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.timestamp("s")).cast(pa.string())
    except pa.ArrowInvalid:  # some have a fraction
        return _trimmed(column.cast(pa.string()))


def _trimmed(clock: pa.Array) -> pa.Array:
    """Times of microseconds without the zeros that end their fractions."""
    return pc.replace_substring_regex(clock, r"\.?0+$", "")


def _float_texts(column: pa.Array) -> pa.Array:
    """The shortest text that gives the number back, with an exponent where PostgreSQL has one."""
    numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    size, limit = np.abs(numbers), _PLAIN_BELOW[column.type]
    odd = ~((size >= _PLAIN_FROM) & (size < limit) | (size == 0))
    strings = column.cast(pa.string())
    wide = odd | (size >= _ARROW_PLAIN_BELOW)
    if not wide.any():
        return strings
    spelled = np.full(len(numbers), None, object)
    spelled[wide] = [
        _float_text(number, bool(exponent)) for number, exponent in zip(numbers[wide], odd[wide], strict=True)
    ]
    return pc.if_else(pa.array(wide), pc.if_else(column.is_valid(), pa.array(spelled, pa.string()), None), strings)


def _float_text(number: np.floating[Any], exponent: bool) -> str:
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    shortest = Decimal(str(number)).normalize()
    if not exponent:
        return f"{shortest:f}"
    sign, digits, _ = shortest.as_tuple()
    fraction = "".join(map(str, digits[1:]))
    power = shortest.adjusted()
    return f"{'-' * sign}{digits[0]}{'.' * bool(fraction)}{fraction}e{'+-'[power < 0]}{abs(power):02d}"


def _decimal_texts(column: pa.Array) -> pa.Array:
    """Plain digits: Arrow writes some with an exponent."""
    strings = column.cast(pa.string())
    odd = pc.match_substring(strings, "E")
    if pc.any(odd).as_py():
        plain = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        strings = pc.if_else(odd, pa.array(plain, pa.string()), strings)
    return strings
