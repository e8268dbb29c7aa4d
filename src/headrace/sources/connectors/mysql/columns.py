"""Values of a column -> a typed Arrow array, vectorised: from row images of the binary log, and from the server's text.

Both give the same array for the same value, whatever the column's type is as text or otherwise.
"""

from __future__ import annotations

import re
import socket
import uuid
from collections.abc import Callable
from datetime import MAXYEAR
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pymysqlreplication.constants import FIELD_TYPE

from headrace.formats import values as formats
from headrace.formats.types import arrow as arrow_types
from headrace.formats.types import decimals
from headrace.formats.types import mysql as types
from headrace.formats.values import UnfitValue
from headrace.sources.connectors.mysql import json_text
from headrace.sources.connectors.mysql.charsets import Charsets
from headrace.sources.connectors.mysql.images import DECIMAL_BYTES, Booleans, Bytes, Field, Integers, Values
from headrace.sources.connectors.mysql.introspect import SourceColumn

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEMPORAL = ("date", "datetime", "timestamp")
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_MEANT = {"''": "'", r"\\": "\\", r"\n": "\n", r"\r": "\r", r"\0": "\0"}  # all that the catalogue escapes in a label
_ESCAPED = re.compile("|".join(map(re.escape, _MEANT)))
_DAY_US = 86_400_000_000
_INT64_DIGITS = 18

_CODES: dict[str, tuple[int, ...]] = {
    "tinyint": (FIELD_TYPE.TINY,),
    "smallint": (FIELD_TYPE.SHORT,),
    "mediumint": (FIELD_TYPE.INT24,),
    "int": (FIELD_TYPE.LONG,),
    "bigint": (FIELD_TYPE.LONGLONG,),
    "float": (FIELD_TYPE.FLOAT,),
    "double": (FIELD_TYPE.DOUBLE,),
    "decimal": (FIELD_TYPE.NEWDECIMAL,),
    "year": (FIELD_TYPE.YEAR,),
    "bit": (FIELD_TYPE.BIT,),
    "date": (FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE),
    "time": (FIELD_TYPE.TIME, FIELD_TYPE.TIME2),
    "datetime": (FIELD_TYPE.DATETIME, FIELD_TYPE.DATETIME2),
    "timestamp": (FIELD_TYPE.TIMESTAMP, FIELD_TYPE.TIMESTAMP2),
    "enum": (FIELD_TYPE.ENUM,),
    "set": (FIELD_TYPE.SET,),
    "json": (FIELD_TYPE.JSON,),
    **dict.fromkeys(
        ("char", "varchar", "binary", "varbinary"), (FIELD_TYPE.STRING, FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING)
    ),
    **dict.fromkeys(("uuid", "inet4", "inet6"), (FIELD_TYPE.STRING,)),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), (FIELD_TYPE.BLOB,)),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), (FIELD_TYPE.BLOB,)),
}


def fits(column: SourceColumn, field: Field) -> bool:
    """Whether images that have ``field`` there hold values of the column as the catalogue describes it."""
    if field.type not in _CODES.get(column.data_type, (FIELD_TYPE.GEOMETRY,)):
        return False
    if column.data_type == "decimal":
        precision, _, scale = _arguments(column).partition(",")
        return field.digits == (int(precision or 10), int(scale or 0))
    if field.type in (FIELD_TYPE.TIME, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP):
        return not _arguments(column)  # the old form's fractions have no length in the log
    if field.type in (FIELD_TYPE.TIME2, FIELD_TYPE.DATETIME2, FIELD_TYPE.TIMESTAMP2):
        return field.fsp == int(_arguments(column) or 0)
    return True


def selected(column: SourceColumn, name: str) -> str:
    """What a copy selects of the column, so that ``from_text`` finds all of it. ``name``: quoted."""
    if column.data_type == "float":
        return f"{name} * 1e0"  # of a float the server prints six digits, of a double all; -0.0 stays
    return f"{name} + 0" if column.data_type == "bit" else name


def from_text(texts: pa.BinaryArray, column: SourceColumn, type_text: str) -> pa.Array:
    """The server's text of the column in UTF-8 and UTC -> an array of the Spark SQL type. Raises UnfitValue."""
    return _or_unfit(lambda some: _from_text(some, column, type_text), texts, type_text)


def from_images(values: Values, column: SourceColumn, field: Field, type_text: str, charsets: Charsets) -> pa.Array:
    """Values in row images -> an array of the Spark SQL type. Raises UnfitValue."""
    natural = types.to_spark(column.column_type)
    kind = column.data_type
    if kind in _TEMPORAL:
        return _temporal(values, field, type_text)
    if kind == "time":
        return pa.array([_time_text(v, field) if ok else None for v, ok in _times(values, field)], pa.string())
    if kind in _INTEGERS:
        found = _integers(values, field.width, column.unsigned, natural)
    elif kind == "decimal":
        found = _decimals(values, field)
    elif kind == "float":
        found = _numpy(np.ascontiguousarray(values.fixed(4)).view("<f4")[:, 0], values.valid)
    elif kind == "double":
        found = _numpy(np.ascontiguousarray(values.fixed(8)).view("<f8")[:, 0], values.valid)
    elif kind == "year":
        years = values.fixed(1)[:, 0].astype(np.int16)
        found = _numpy(np.where(years == 0, 0, years + 1900).astype(np.int16), values.valid)
    elif kind == "bit":
        found = _bits(values, field, natural)
    elif kind in ("enum", "set"):
        found = _labels(values, field, column)
    else:
        return _bytes(values, column, natural, type_text, charsets)
    return found if found.type == arrow_types.to_arrow(type_text) else found.cast(arrow_types.to_arrow(type_text))


# --- from text ------------------------------------------------------------------------------------------------------


def _from_text(texts: pa.BinaryArray, column: SourceColumn, type_text: str) -> pa.Array:
    natural, kind = types.to_spark(column.column_type), column.data_type
    wanted = arrow_types.to_arrow(type_text)
    if natural == "binary":
        return texts if type_text == "binary" else texts.cast(pa.string())
    strings = texts.cast(pa.string())
    if type_text == "string" and (natural == "string" or kind in _TEMPORAL):
        return strings
    if natural == "boolean":
        found = pc.equal(strings, "1")
    elif natural == "float":
        found = strings.cast(pa.float64()).cast(pa.float32())
    elif natural in ("date", "timestamp", "timestamp_ntz"):
        if pc.any(pc.starts_with(strings, "0000-")).as_py():
            raise ValueError("the year 0 and zero dates are no dates")
        found = strings.cast(pa.date32() if natural == "date" else pa.timestamp("us"))
    else:
        typed = arrow_types.to_arrow(natural)
        if pa.types.is_decimal(typed):  # the zero before the point would count as a digit
            found = decimals.from_text(pc.replace_substring_regex(strings, r"^(-?)0\.", r"\1."), typed)
        else:
            found = strings.cast(typed)
    return found if found.type == wanted else found.cast(wanted)


def _or_unfit(convert: Callable[[pa.BinaryArray], pa.Array], texts: pa.BinaryArray, type_text: str) -> pa.Array:
    try:
        return convert(texts)
    except (pa.ArrowInvalid, ValueError) as error:
        raise _first_unfit(convert, texts, type_text, error) from error


def _first_unfit(
    convert: Callable[[pa.BinaryArray], pa.Array], texts: pa.BinaryArray, type_text: str, error: Exception
) -> UnfitValue:
    """The first value that fails alone, by bisection."""
    low, high = 0, len(texts)  # it is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(texts.take(pa.array(range(low, middle))))
            low = middle
        except (pa.ArrowInvalid, ValueError) as found:
            high, error = middle, found
    shown = texts[low].as_py() or b""
    why = str(error).partition(". If these")[0]  # Arrow's advice to programmers
    return UnfitValue(low, shown.decode(errors="replace"), f"it does not fit {type_text} ({why})")


# --- numbers --------------------------------------------------------------------------------------------------------


def _numpy(numbers: npt.NDArray[Any], valid: Booleans) -> pa.Array:
    return pa.array(numbers, mask=None if valid.all() else ~valid)


def _integers(values: Values, width: int, unsigned: bool, natural: str) -> pa.Array:
    wide = np.zeros((len(values.valid), 8), dtype=np.uint8)
    wide[:, :width] = values.fixed(width)
    if unsigned and width == 8:
        return _decimal128(wide.view("<u8")[:, 0], np.zeros(len(wide), dtype=np.uint64), values.valid, 20, 0)
    numbers = wide.view("<i8")[:, 0]
    if not unsigned:
        shift = 64 - 8 * width
        numbers = (numbers << shift) >> shift
    return _numpy(numbers.astype(arrow_types.to_arrow(natural).to_pandas_dtype()), values.valid)


def _bits(values: Values, field: Field, natural: str) -> pa.Array:
    numbers = _big_endian(values.fixed(field.width))
    if natural == "boolean":
        return _numpy(numbers != 0, values.valid)
    if natural == "bigint":
        return _numpy(numbers.astype(np.int64), values.valid)
    return _decimal128(numbers, np.zeros(len(numbers), dtype=np.uint64), values.valid, 20, 0)


def _big_endian(matrix: Bytes) -> npt.NDArray[np.uint64]:
    numbers = np.zeros(len(matrix), dtype=np.uint64)
    for place in range(matrix.shape[1]):
        numbers = (numbers << np.uint64(8)) | matrix[:, place].astype(np.uint64)
    return numbers


def _decimals(values: Values, field: Field) -> pa.Array:
    """Groups of nine digits, big-endian; the first bit is 0 for negative numbers, whose bits are all turned."""
    precision, scale = field.digits
    matrix = values.fixed(field.width)
    matrix[~values.valid, 0] = 0x80
    matrix[:, 0] ^= 0x80
    negative = matrix[:, 0] >= 0x80
    matrix[negative] = ~matrix[negative]
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    large = precision > _INT64_DIGITS
    total: npt.NDArray[Any] = np.zeros(len(matrix), dtype=object if large else np.int64)
    at = 0
    for digits in groups:
        size = DECIMAL_BYTES[digits]
        group = _big_endian(matrix[:, at : at + size]).astype(np.int64)
        total = total * 10**digits + (group.astype(object) if large else group)
        at += size
    total = np.where(negative, -total, total)
    if precision > types.DECIMAL_DIGITS_MAX:
        return pa.array(
            [_plain(n, scale) if ok else None for n, ok in zip(total, values.valid, strict=True)], pa.string()
        )
    if not large:
        return _decimal128(total.view(np.uint64), (total >> 63).view(np.uint64), values.valid, precision, scale)
    raw = np.frombuffer(b"".join([number.to_bytes(16, "little", signed=True) for number in total]), dtype="<u8")
    return _decimal128(raw[0::2], raw[1::2], values.valid, precision, scale)


def _plain(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}d}"
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text


def _decimal128(
    low: npt.NDArray[np.uint64], high: npt.NDArray[np.uint64], valid: Booleans, precision: int, scale: int
) -> pa.Array:
    content = np.empty((len(low), 2), dtype="<u8")
    content[:, 0], content[:, 1] = low, high
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(low), [bits, pa.py_buffer(content.tobytes())])


# --- dates and times ------------------------------------------------------------------------------------------------


def _temporal(values: Values, field: Field, type_text: str) -> pa.Array:
    """date, datetime, timestamp. As text every value is one; else it has to be a day that there is."""
    year, month, day, clock_us, zero = _moment(values, field)
    if type_text == "string":
        parts = zip(*(part.tolist() for part in (year, month, day, clock_us, values.valid)), strict=True)
        return pa.array([_moment_text(y, m, d, c, field) if ok else None for y, m, d, c, ok in parts], pa.string())
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    length = (months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")
    there = (year > 0) & (year <= MAXYEAR) & (month > 0) & (month <= 12) & (day > 0) & (day <= length.astype(np.int64))
    unfit = np.flatnonzero(values.valid & (zero | ~there))
    if len(unfit):
        row = int(unfit[0])
        shown = _moment_text(int(year[row]), int(month[row]), int(day[row]), int(clock_us[row]), field)
        raise UnfitValue(row, shown, f"it does not fit {type_text} (there is no such day)")
    days = np.where(values.valid, days, 0)
    if type_text == "date":
        return _numpy(days.astype("datetime64[D]"), values.valid).cast(pa.date32())
    moments = (days * _DAY_US + np.where(values.valid, clock_us, 0)).astype("datetime64[us]")
    found = _numpy(moments, values.valid)
    return found.cast(arrow_types.to_arrow(type_text))


def _moment(values: Values, field: Field) -> tuple[Integers, Integers, Integers, Integers, Booleans]:
    """(year, month, day, microseconds of the day, whether it is a zero of TIMESTAMP)"""
    kind, nothing = field.type, np.zeros(len(values.valid), dtype=np.int64)
    never = np.zeros(len(values.valid), dtype=bool)
    if kind in (FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE):
        packed = _little(values.fixed(3))
        return packed >> 9, (packed >> 5) & 15, packed & 31, nothing, never
    if kind == FIELD_TYPE.DATETIME:
        packed = _little(values.fixed(8))
        packed, second = packed // 100, packed % 100
        packed, minute = packed // 100, packed % 100
        packed, hour = packed // 100, packed % 100
        packed, day = packed // 100, packed % 100
        return packed // 100, packed % 100, day, _clock(hour, minute, second, nothing), never
    if kind == FIELD_TYPE.DATETIME2:
        matrix = values.fixed(field.width)
        packed = _big_endian(matrix[:, :5]).astype(np.int64) - (1 << 39)
        months, fraction = packed >> 22, _fraction(matrix[:, 5:])
        clock = _clock((packed >> 12) & 31, (packed >> 6) & 63, packed & 63, fraction)
        return months // 13, months % 13, (packed >> 17) & 31, clock, never
    matrix = values.fixed(field.width)
    old = kind == FIELD_TYPE.TIMESTAMP
    seconds = _little(matrix) if old else _big_endian(matrix[:, :4]).astype(np.int64)
    fraction = nothing if old else _fraction(matrix[:, 4:])
    zero = (seconds == 0) & (fraction == 0)
    days = (seconds // 86_400).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    year = days.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + 1
    day = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
    clock = seconds % 86_400 * 1_000_000 + fraction
    return np.where(zero, 0, year), np.where(zero, 0, month), np.where(zero, 0, day), clock, zero


def _clock(hour: Integers, minute: Integers, second: Integers, fraction: Integers) -> Integers:
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction


def _fraction(matrix: Bytes) -> Integers:
    """Microseconds, from one byte for two digits."""
    size = matrix.shape[1]
    return _big_endian(matrix).astype(np.int64) * 100 ** (3 - size) if size else np.zeros(len(matrix), dtype=np.int64)


def _little(matrix: Bytes) -> Integers:
    return _big_endian(matrix[:, ::-1]).astype(np.int64)


def _moment_text(year: int, month: int, day: int, clock_us: int, field: Field) -> str:
    text = f"{year:04d}-{month:02d}-{day:02d}"
    if field.type in (FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE):
        return text
    return f"{text} {_clock_text(clock_us, field.fsp)}"


def _clock_text(clock_us: int, fsp: int) -> str:
    seconds, fraction = divmod(clock_us, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}"[: len(text) + 1 + fsp] if fsp else text


def _times(values: Values, field: Field) -> zip[tuple[int, bool]]:
    """TIME as signed microseconds."""
    matrix = values.fixed(field.width)
    if field.type == FIELD_TYPE.TIME:
        packed = _little(matrix)
        packed = np.where(packed >= 1 << 23, packed - (1 << 24), packed)
        size, fraction = np.abs(packed), np.zeros(len(packed), dtype=np.int64)
        clock = _clock(size // 10_000, size // 100 % 100, size % 100, fraction)
    else:
        bits = 8 * (field.width - 3)
        packed = _big_endian(matrix).astype(np.int64) - (1 << (23 + bits))
        size = np.abs(packed)
        fraction = (size & ((1 << bits) - 1)) * 100 ** (3 - bits // 8) if bits else np.zeros(len(size), dtype=np.int64)
        size = size >> bits
        clock = _clock((size >> 12) & 1023, (size >> 6) & 63, size & 63, fraction)
    return zip(np.where(packed < 0, -clock, clock).tolist(), values.valid.tolist(), strict=True)


def _time_text(microseconds: int, field: Field) -> str:
    text = _clock_text(abs(microseconds), field.fsp)
    return f"-{text}" if microseconds < 0 else text


# --- labels, texts, bytes -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _label_list(column_type: str) -> tuple[str, ...]:
    return tuple(_ESCAPED.sub(lambda mark: _MEANT[mark[0]], label) for label in _LABEL.findall(column_type))


def _arguments(column: SourceColumn) -> str:
    return column.column_type.partition("(")[2].partition(")")[0]


def _labels(values: Values, field: Field, column: SourceColumn) -> pa.Array:
    numbers = _big_endian(values.fixed(field.width)[:, ::-1])
    labels = _label_list(column.column_type)
    known, places = np.unique(numbers, return_inverse=True)
    if column.data_type == "enum":
        names = [labels[number - 1] if 0 < number <= len(labels) else "" for number in known.tolist()]
    else:
        names = [",".join(label for bit, label in enumerate(labels) if number >> bit & 1) for number in known.tolist()]
    indices = pa.array(places.astype(np.int32).reshape(-1), mask=~values.valid)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())


def _bytes(values: Values, column: SourceColumn, natural: str, type_text: str, charsets: Charsets) -> pa.Array:
    found = formats.gather(values.data, values.starts, values.lengths, values.valid)
    kind = column.data_type
    if kind == "binary":  # the log leaves zeros at its end out
        found = pc.binary_join_element_wise(found, _zeros(values, int(_arguments(column) or 1)), b"")
    if natural == "binary":
        return found if type_text == "binary" else _or_unfit(lambda some: some.cast(pa.string()), found, type_text)
    if kind in _SHOWN:
        width, shown = _SHOWN[kind]
        texts = [None if v is None else shown(v.ljust(width, b"\0")) for v in found.to_pylist()]
        return pa.array(texts, pa.string())
    if kind == "json":
        return pa.array([None if v is None else json_text.text(v) for v in found.to_pylist()], pa.string())
    return _or_unfit(lambda some: charsets.decode(some, column.charset or "utf8mb4"), found, type_text)


def _zeros(values: Values, length: int) -> pa.Array:
    return pa.array([bytes(length - n) for n in values.lengths.tolist()], pa.binary())


_SHOWN: dict[str, tuple[int, Callable[[bytes], str]]] = {
    "uuid": (16, lambda value: str(uuid.UUID(bytes=value))),
    "inet4": (4, lambda value: socket.inet_ntop(socket.AF_INET, value)),
    "inet6": (16, lambda value: socket.inet_ntop(socket.AF_INET6, value)),
}
