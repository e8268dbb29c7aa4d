"""Row images as the binary log has them: where each value of many rows lies; no connection, no clock.

An image is a bitmap of its NULLs, then the values one after the other, some with their length before them. Where one
ends shows only when its variable values have been walked over; after that one pass per *column* finds that column's
values in all rows at once. Layout: MariaDB's and MySQL's manuals, "Rows event" and "Table map event".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pymysqlreplication.column import Column
from pymysqlreplication.constants import FIELD_TYPE

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_PADDING = bytes(16)  # lets a read of a fixed width at the last position stay inside
_FIXED = {
    FIELD_TYPE.TINY: 1,
    FIELD_TYPE.YEAR: 1,
    FIELD_TYPE.SHORT: 2,
    FIELD_TYPE.INT24: 3,
    FIELD_TYPE.DATE: 3,
    FIELD_TYPE.NEWDATE: 3,
    FIELD_TYPE.TIME: 3,
    FIELD_TYPE.LONG: 4,
    FIELD_TYPE.FLOAT: 4,
    FIELD_TYPE.TIMESTAMP: 4,
    FIELD_TYPE.LONGLONG: 8,
    FIELD_TYPE.DOUBLE: 8,
    FIELD_TYPE.DATETIME: 8,
}
_FRACTIONAL = {FIELD_TYPE.TIME2: 3, FIELD_TYPE.TIMESTAMP2: 4, FIELD_TYPE.DATETIME2: 5}
DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # by the number of digits of an incomplete group of nine


@dataclass(frozen=True, slots=True)
class Field:
    """One column of an image. ``width``: its bytes, or -n where the length stands before it in n bytes.

    ``name`` is "" where the server does not write names. ``digits``: of a decimal, (precision, scale).
    """

    name: str
    type: int
    width: int
    fsp: int = 0
    digits: tuple[int, int] = (0, 0)
    length_max: int = 0

    @classmethod
    def of(cls, column: Column) -> Field:
        """As a table map event describes it. Raises ``ValueError`` for a type that is not known."""
        kind, name = column.type, column.name or ""
        if kind in _FIXED:
            return cls(name, kind, _FIXED[kind])
        if kind in _FRACTIONAL:
            return cls(name, kind, _FRACTIONAL[kind] + (column.fsp + 1) // 2, fsp=column.fsp)
        if kind == FIELD_TYPE.NEWDECIMAL:
            precision, scale = column.precision, column.decimals
            return cls(name, kind, decimal_bytes(precision - scale) + decimal_bytes(scale), digits=(precision, scale))
        if kind in (FIELD_TYPE.ENUM, FIELD_TYPE.SET):
            return cls(name, kind, column.size)
        if kind == FIELD_TYPE.BIT:
            return cls(name, kind, column.bytes)
        if kind in (FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING):
            return cls(name, kind, -2 if column.max_length > 255 else -1, length_max=column.max_length)
        if kind in (FIELD_TYPE.BLOB, FIELD_TYPE.GEOMETRY, FIELD_TYPE.JSON):
            return cls(name, kind, -column.length_size)
        raise ValueError(f"the type {kind} of column {name} is not known")


def decimal_bytes(digits: int) -> int:
    return digits // 9 * 4 + DECIMAL_BYTES[digits % 9]


@dataclass(frozen=True, slots=True)
class Values:
    """Where the values of one column lie in ``data``, one entry a row; NULL where not ``valid``."""

    data: Bytes
    starts: Integers
    lengths: Integers
    valid: Booleans

    def take(self, rows: Integers) -> Values:
        return Values(self.data, self.starts[rows], self.lengths[rows], self.valid[rows])

    def fixed(self, width: int) -> Bytes:
        """The bytes of values that all have that width, of shape (rows, width); zeros for NULL."""
        found = self.data[np.where(self.valid, self.starts, 0)[:, None] + np.arange(width)]
        found[~self.valid] = 0
        return found


class Images:
    """Images of one layout laid end to end."""

    def __init__(self, bodies: Iterable[bytes], fields: tuple[Field, ...]) -> None:
        """Raises ``ValueError`` where images do not end where their body does."""
        self._fields = fields
        self._bitmap = (len(fields) + 7) // 8
        plans: dict[bytes, _Plan] = {}
        starts: list[int] = []
        counts, size, kept = [], 0, []
        for body in bodies:
            before = len(starts)
            starts += [size + start for start in _image_starts(body, fields, self._bitmap, plans)]
            counts.append(len(starts) - before)
            size += len(body)
            kept.append(body)
        self.counts: Integers = np.asarray(counts, dtype=np.int64)  # the images of each body
        self._starts: Integers = np.asarray(starts, dtype=np.int64)
        self._data = np.frombuffer(b"".join([*kept, _PADDING]), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self._starts)

    def values(self, wanted: frozenset[int]) -> dict[int, Values]:
        """The values of the columns at these places."""
        data, at = self._data, self._starts + self._bitmap
        bitmaps = data[self._starts[:, None] + np.arange(self._bitmap)]
        nulls = np.unpackbits(bitmaps, axis=1, bitorder="little")
        found: dict[int, Values] = {}
        for place, field in enumerate(self._fields):
            if len(found) == len(wanted):
                break
            valid = nulls[:, place] == 0
            if field.width >= 0:
                starts, lengths = at, np.full(len(at), field.width, dtype=np.int64)
            else:
                lengths = np.zeros(len(at), dtype=np.int64)
                for number in range(-field.width):
                    lengths |= data[np.where(valid, at + number, 0)].astype(np.int64) << (8 * number)
                starts = at - field.width
            lengths = np.where(valid, lengths, 0)
            if place in wanted:
                found[place] = Values(data, starts, lengths, valid)
            at = np.where(valid, starts + lengths, at)
        return found


_Plan = tuple[tuple[tuple[int, int], ...], int]


def _image_starts(body: bytes, fields: tuple[Field, ...], bitmap: int, plans: dict[bytes, _Plan]) -> list[int]:
    """Where each image begins. For each set of NULLs there is one list of jumps from one length to the next."""
    found: list[int] = []
    at, end, number = 0, len(body), int.from_bytes
    while at < end:
        found.append(at)
        nulls = body[at : at + bitmap]
        plan = plans.get(nulls)
        if plan is None:
            plan = plans[nulls] = _plan(nulls, fields)
        at += bitmap
        for skip, size in plan[0]:
            at += skip
            at += 1 + body[at] if size == 1 else size + number(body[at : at + size], "little")
        at += plan[1]
    if at != end:
        raise ValueError("rows do not end where their event does")
    return found


def _plan(nulls: bytes, fields: tuple[Field, ...]) -> _Plan:
    """(bytes to pass over, bytes of the length that stands there) for each variable value, and the bytes after."""
    jumps, skip = [], 0
    for place, field in enumerate(fields):
        if nulls[place // 8] >> (place % 8) & 1:
            continue
        if field.width >= 0:
            skip += field.width
        else:
            jumps.append((skip, -field.width))
            skip = 0
    return tuple(jumps), skip
