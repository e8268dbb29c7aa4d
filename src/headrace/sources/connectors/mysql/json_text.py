"""MySQL's binary JSON -> the text that the server prints of it, character by character.

A document is a byte for its type and then, for objects and arrays, counts, offsets from its own start, and the values;
layout: MySQL's source, "json_binary.h". Small documents have offsets of 2 bytes, large ones of 4.
"""

from __future__ import annotations

import base64
import re
import struct
from decimal import Decimal

from pymysqlreplication.constants import FIELD_TYPE

from headrace.sources.connectors.mysql.images import DECIMAL_BYTES, decimal_bytes

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INTEGERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_DOUBLE, _STRING, _OPAQUE = 0x0B, 0x0C, 0x0F
_LITERALS = ("null", "true", "false")
_WIDTHS = {_LITERAL: 1, 5: 2, 6: 2, 7: 4, 8: 4}  # of values that may stand where others have their offset

_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLACES_MAX = 15  # digits before the point, or zeros after it, with which a double is printed without an exponent


def text(document: bytes) -> str:
    """Raises ``ValueError`` for what is no document."""
    if not document:
        return "null"  # what a column of rows from before it was added holds
    try:
        return _text(document[0], memoryview(document)[1:])
    except (IndexError, struct.error) as error:
        raise ValueError(f"a JSON document ends early ({error})") from error


def _text(kind: int, data: memoryview) -> str:
    """``data``: from where the value begins; what offsets in it count from."""
    if kind <= _LARGE_ARRAY:
        return _members(kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind in (_SMALL_OBJECT, _LARGE_OBJECT), data)
    if kind == _LITERAL:
        return _LITERALS[data[0]]
    if kind in _INTEGERS:
        return str(struct.unpack_from(_INTEGERS[kind], data)[0])
    if kind == _DOUBLE:
        return _double(struct.unpack_from("<d", data)[0])
    if kind == _STRING:
        return _quoted(str(_sized(data), "utf-8"))
    if kind == _OPAQUE:
        return _opaque(data[0], bytes(_sized(data[1:])))
    raise ValueError(f"a JSON value has the type {kind}, which is not known")


def _members(large: bool, is_object: bool, data: memoryview) -> str:
    size, number = (4, "<I") if large else (2, "<H")
    (count,) = struct.unpack_from(number, data)
    entries = 2 * size + (count * (size + 2) if is_object else 0)
    found = []
    for at in range(entries, entries + count * (size + 1), size + 1):
        kind = data[at]
        if _WIDTHS.get(kind, size + 1) <= size:
            found.append(_text(kind, data[at + 1 :]))
        else:
            found.append(_text(kind, data[struct.unpack_from(number, data, at + 1)[0] :]))
    if not is_object:
        return f"[{', '.join(found)}]"
    keys = []
    for at in range(2 * size, entries, size + 2):
        start, length = struct.unpack_from(number + "H", data, at)
        keys.append(_quoted(str(data[start : start + length], "utf-8")))
    return "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, found, strict=True)) + "}"


def _sized(data: memoryview) -> memoryview:
    """The bytes after a length of which each byte has seven bits, the lowest first."""
    length = at = 0
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << (7 * at)
        at += 1
        if byte < 0x80:
            break
    if at + length > len(data):
        raise IndexError("a value is longer than it")
    return data[at : at + length]


def _quoted(string: str) -> str:
    return '"' + _ESCAPED.sub(lambda match: _ESCAPES.get(match[0], f"\\u{ord(match[0]):04x}"), string) + '"'


def _double(number: float) -> str:
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    minus = "-" if sign else ""
    if not shown:
        return f"{minus}0.0"
    before = len(digits) + int(exponent)  # digits before the point
    if before <= -_PLACES_MAX or (before > _PLACES_MAX and before >= len(shown)):
        point = "." if len(shown) > 1 else ""
        return f"{minus}{shown[0]}{point}{shown[1:]}e{before - 1}"
    if before <= 0:
        return f"{minus}0.{'0' * -before}{shown}"
    return f"{minus}{shown[:before].ljust(before, '0')}.{shown[before:] or '0'}"


def _opaque(kind: int, value: bytes) -> str:
    if kind == FIELD_TYPE.NEWDECIMAL:
        return _decimal(value)
    if kind in (FIELD_TYPE.DATE, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP, FIELD_TYPE.TIME):
        return f'"{_moment(kind, value)}"'
    text = base64.encodebytes(value).decode().strip()  # in lines of 76 characters, as the server breaks it
    return f'"base64:type{kind}:{text}"'.replace("\n", "\\n")


def _decimal(value: bytes) -> str:
    """Precision, scale, then groups of nine digits; the first bit is 0 of negative numbers, whose bits are turned."""
    whole, scale = value[0] - value[1], value[1]
    packed = bytearray(value[2 : 2 + decimal_bytes(whole) + decimal_bytes(scale)])
    negative = packed[0] < 0x80
    packed[0] ^= 0x80
    if negative:
        packed = bytearray(byte ^ 0xFF for byte in packed)
    digits, at = "", 0
    for count in (whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9):
        size = DECIMAL_BYTES[count]
        if count:
            digits += f"{int.from_bytes(packed[at : at + size], 'big'):0{count}d}"
        at += size
    before = digits[:whole].lstrip("0") or "0"
    return ("-" if negative else "") + before + (f".{digits[whole:]}" if scale else "")


def _moment(kind: int, value: bytes) -> str:
    packed = int.from_bytes(value[:8], "little", signed=True)
    size = abs(packed)
    microseconds, clock = size & 0xFFFFFF, (size >> 24) & 0x1FFFF
    minute, second = (clock >> 6) & 63, clock & 63
    if kind == FIELD_TYPE.TIME:
        sign = "-" if packed < 0 else ""
        return f"{sign}{(size >> 36) & 1023:02d}:{minute:02d}:{second:02d}.{microseconds:06d}"
    days = size >> 41
    months = days >> 5
    day = f"{months // 13:04d}-{months % 13:02d}-{days & 31:02d}"
    if kind == FIELD_TYPE.DATE:
        return day
    return f"{day} {clock >> 12:02d}:{minute:02d}:{second:02d}.{microseconds:06d}"
