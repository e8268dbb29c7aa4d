"""Order-preserving encodings: values of a sort as bytes or numbers whose plain comparison is Spark's ORDER BY.

A column is a flag (NULL before or after all values; absent where a column cannot be NULL) and its value:
numbers big-endian with the sign turned, floats by their bits (-0.0 as 0.0, every NaN alike and greatest), text and
binary with zero bytes escaped and an end mark, parts of arrays and structs one after another, NULL parts first.
Descending inverts the value's bytes. No encoding is the beginning of another one of the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.rows import canonical

Bytes: TypeAlias = npt.NDArray[np.uint8]
Column: TypeAlias = pa.Array | pa.ChunkedArray

_NULL_FIRST, _VALUE, _NULL_LAST = 1, 2, 3  # flags: above 0x00, which ends an array, and below 0xFF, which ends a bound
_TEXT_LIMIT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One sort expression. ``nullable=False`` promises that no NULL comes, and saves the flag."""

    type: pa.DataType
    descending: bool = False
    nulls_last: bool = False
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    """Cuts through an order, one a query: ``after[i]`` says whether rows equal to ``values[i]`` lie before the cut."""

    values: pa.Array
    after: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Order:
    """The sort of an ordered arrangement. ``type`` is how a place in it is stored:

    ``uint64`` when all columns together are at most 8 bytes (a ``bigint``, ``timestamp`` or ``double`` that is not
    nullable; a nullable ``int`` or ``date``), a fixed-size binary for other numbers, ``binary`` with text in it.
    """

    columns: tuple[SortColumn, ...]

    @cached_property
    def width(self) -> int | None:
        """Bytes of a place, or None when they vary."""
        widths = [fixed_width(column.type) for column in self.columns]
        if not widths or None in widths:
            return None
        return sum(w for w in widths if w is not None) + sum(column.nullable for column in self.columns)

    @cached_property
    def type(self) -> pa.DataType:
        if self.width is None:
            return pa.binary()
        return pa.uint64() if self.width <= 8 else pa.binary(self.width)

    def encode(self, columns: Sequence[Column]) -> pa.Array:
        """The place of each row, of ``type``; ``columns`` are those of the order, of equal lengths.

        Raises ``TypeError`` for columns of another type, ``ValueError`` for a NULL where none may be.
        """
        if len(columns) != len(self.columns):
            raise ValueError(f"{len(columns)} columns for an order of {len(self.columns)}")
        return self.bounds(columns).values

    def bounds(self, columns: Sequence[Column], after: bool | npt.NDArray[np.bool_] = False) -> Bounds:
        """Cuts just before (or ``after``) all rows that begin with the given values of the first columns."""
        if not columns:
            raise ValueError("a bound needs the value of at least one column")
        if len(columns) > len(self.columns):
            raise ValueError(f"{len(columns)} columns for an order of {len(self.columns)}")
        for column, wanted in zip(columns, self.columns, strict=False):
            if column.type != wanted.type:
                raise TypeError(f"a value of type {column.type} in an order by {wanted.type}")
        sides = np.broadcast_to(np.asarray(after, np.bool_), (len(columns[0]),))
        chosen = self.columns[: len(columns)]
        if self.width is None:
            parts = [part for c, s in zip(columns, chosen, strict=True) for part in _flagged(canonical(c), s)]
            ends = _Ragged(sides.astype(np.int64), np.full(int(sides.sum()), 0xFF, np.uint8))
            return Bounds(_binary(_joined([*parts, ends] if sides.any() else parts)), sides)
        words = [word for c, s in zip(columns, chosen, strict=True) for word in _fixed(canonical(c), s)]
        return Bounds(self._numbers(words, sides) if self.width <= 8 else self._fixed_bytes(words, sides), sides)

    def leading(self, columns: Sequence[Column]) -> tuple[list[npt.NDArray[Any]], bool]:
        """Arrays of numbers that compare, the first array first, as the leading columns of fixed width do; and whether
        those are all columns. An array in which all are equal is left out.
        """
        words: list[npt.NDArray[Any]] = []
        for column, sort in zip(columns, self.columns, strict=True):
            if fixed_width(sort.type) is None:
                return words, False
            found = _fixed(canonical(column), sort)
            words += [word for word in found if len(word) and word.min() != word.max()]
        return words, True

    def _numbers(self, words: list[npt.NDArray[Any]], after: npt.NDArray[np.bool_]) -> pa.Array:
        assert self.width is not None
        code, used = np.zeros(len(after), np.uint64), 0
        for word in words:
            bits = 8 * word.dtype.itemsize
            code = word.astype(np.uint64) if bits == 64 else (code << np.uint64(bits)) | word.astype(np.uint64)
            used += word.dtype.itemsize
        left = 8 * (self.width - used)
        if left:
            fill = np.where(after, np.uint64((1 << left) - 1), np.uint64(0))
            code = fill if left == 64 else (code << np.uint64(left)) | fill
        return pa.array(code)

    def _fixed_bytes(self, words: list[npt.NDArray[Any]], after: npt.NDArray[np.bool_]) -> pa.Array:
        assert self.width is not None
        out = np.empty((len(after), self.width), np.uint8)
        used = 0
        for word in words:
            size = word.dtype.itemsize
            out[:, used : used + size] = _big_endian(word)
            used += size
        out[:, used:] = np.where(after, 0xFF, 0)[:, None]
        return pa.Array.from_buffers(self.type, len(after), [None, pa.py_buffer(out)])


def encode(columns: Sequence[Column], descending: Sequence[bool], nulls_last: Sequence[bool]) -> pa.Array:
    """One ``binary`` value a row: their order by bytes is that of the rows by the columns, as Spark sorts them.

    Spark's own defaults are NULLs first ascending, last descending. Equal values give equal bytes and unequal
    values others, as Spark's sort sees it, so this is also a form in which to compare keys. Maps, which Spark does
    not sort, get some order in which equal maps are equal. Raises ``TypeError`` for a type without order and
    ``OverflowError`` beyond 2 GiB.
    """
    sorts = [SortColumn(c.type, down, last) for c, down, last in zip(columns, descending, nulls_last, strict=True)]
    return _binary(_joined([part for c, s in zip(columns, sorts, strict=True) for part in _flagged(canonical(c), s)]))


def fixed_width(arrow: pa.DataType) -> int | None:
    """Bytes of an encoded value of the type, without its flag; None where they vary with the value."""
    if pa.types.is_null(arrow):
        return 0
    if pa.types.is_boolean(arrow):
        return 1
    if pa.types.is_decimal(arrow):
        return 4 if arrow.precision <= 9 else 8 if arrow.precision <= 18 else int(arrow.bit_width // 8)
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        return int(arrow.bit_width // 8)
    if pa.types.is_temporal(arrow) and not pa.types.is_interval(arrow):
        return int(arrow.bit_width // 8)
    return None


def sortable(array: pa.Array) -> list[npt.NDArray[Any]]:
    """A plain array of fixed width as unsigned numbers, the highest first, in its order; anything under a NULL."""
    arrow, count = array.type, len(array)
    if pa.types.is_null(arrow):
        return []
    if count == 0:
        width = fixed_width(arrow) or 0
        return [np.empty(0, np.uint64)] * (width // 8) if width > 8 else [np.empty(0, f"u{width}")]
    if pa.types.is_boolean(arrow):
        return [np.asarray(array.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False))]
    if pa.types.is_decimal(arrow):
        return _decimal(array)
    size = arrow.bit_width // 8
    bits = np.frombuffer(array.buffers()[1], f"u{size}")[array.offset : array.offset + count]
    if pa.types.is_unsigned_integer(arrow):
        return [bits]
    sign = bits.dtype.type(1 << (8 * size - 1))
    if pa.types.is_floating(arrow):
        bits = np.where(bits == sign, bits.dtype.type(0), bits)  # -0.0; NaN has one form already, a positive one
        return [np.where(bits & sign != 0, ~bits, bits | sign)]
    return [bits ^ sign]


def _decimal(array: pa.Array) -> list[npt.NDArray[Any]]:
    width = array.type.bit_width // 8
    if width <= 8:
        bits = np.frombuffer(array.buffers()[1], f"i{width}")[array.offset : array.offset + len(array), None]
    else:
        count = width // 8
        bits = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, count)[array.offset : array.offset + len(array)]
    needed = fixed_width(array.type) or 0
    if needed <= 8:  # the rest only repeats the sign
        number = bits[:, 0].astype(f"i{needed}").view(f"u{needed}")
        return [number ^ number.dtype.type(1 << (8 * needed - 1))]
    words = [bits[:, place].astype(np.int64).view(np.uint64) for place in reversed(range(bits.shape[1]))]
    return [words[0] ^ np.uint64(1 << 63), *words[1:]]


def _fixed(array: pa.Array, sort: SortColumn) -> list[npt.NDArray[Any]]:
    """Flag (where there is one) and value of a column of fixed width, as unsigned numbers."""
    words = [~word if sort.descending else word for word in sortable(array)]
    if array.null_count:
        if not sort.nullable:
            raise ValueError("a NULL in a sort column that was declared to have none")
        valid = _valid(array)
        words = [np.where(valid, word, word.dtype.type(0)) for word in words]
    return [_flags(array, sort.nulls_last), *words] if sort.nullable else words


def _flags(array: pa.Array, nulls_last: bool) -> Bytes:
    if array.null_count == 0:
        return np.full(len(array), _VALUE, np.uint8)
    return np.where(_valid(array), _VALUE, _NULL_LAST if nulls_last else _NULL_FIRST).astype(np.uint8)


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _big_endian(word: npt.NDArray[Any]) -> Bytes:
    swapped = word.astype(f">u{word.dtype.itemsize}")
    return swapped.view(np.uint8).reshape(len(word), word.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class _Ragged:
    """Byte strings end to end: the length of each, and all their bytes."""

    lengths: npt.NDArray[np.int64]
    bytes: Bytes


_Part: TypeAlias = _Ragged | Bytes  # as a matrix: one row of bytes a value


def _flagged(array: pa.Array, sort: SortColumn) -> list[_Part]:
    """A column where some column of the order varies in width: always with its flag."""
    if fixed_width(array.type) is not None:
        words = _fixed(array, SortColumn(array.type, sort.descending, sort.nulls_last))
        return [_big_endian(word) for word in words]
    value = _value(array)
    if sort.descending:
        value = _Ragged(value.lengths, ~value.bytes)
    return [_flags(array, sort.nulls_last)[:, None], value]


def _value(array: pa.Array) -> _Ragged:
    """Values of varying width, ascending; some constant where there is a NULL."""
    arrow = array.type
    if pa.types.is_struct(arrow):
        return _joined([part for child in array.flatten() for part in _flagged(child, SortColumn(child.type))], array)
    if pa.types.is_map(arrow) or pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return _list(array)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        return _text(array.cast(pa.binary()).cast(pa.large_binary()))
    if pa.types.is_large_string(arrow) or pa.types.is_large_binary(arrow):
        return _text(array.cast(pa.large_binary()))
    raise TypeError(f"values of type {arrow} have no order")


def _list(array: pa.Array) -> _Ragged:
    """The elements, each with its flag, and 0x00 after the last: a shorter array comes before its continuations."""
    if pa.types.is_map(array.type):
        entry = pa.struct([array.type.key_field, array.type.item_field])
        array = array.view(pa.list_(pa.field("entries", entry, nullable=False)))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = canonical(array.flatten())
    encoded = _joined(_flagged(elements, SortColumn(elements.type)))
    places = np.r_[0, np.cumsum(encoded.lengths)]
    ends = np.cumsum(lengths)
    return _spread(places[ends] - places[ends - lengths], encoded.bytes, 1)


def _text(array: pa.Array) -> _Ragged:
    """Zero bytes become 00 FF; 00 00 ends the text."""
    if array.null_count:
        array = array.fill_null(b"")
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    if len(array) == 0 or offsets[-1] == offsets[0]:
        return _Ragged(np.full(len(array), 2, np.int64), np.zeros(2 * len(array), np.uint8))
    text = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    zeros = np.flatnonzero(text == 0)
    if len(zeros) == 0:
        return _spread(np.diff(offsets), text, 2)
    escaped = np.insert(text, zeros + 1, 0xFF)
    offsets = offsets + np.searchsorted(zeros, offsets, "left")
    return _spread(np.diff(offsets), escaped, 2)


def _spread(lengths: npt.NDArray[np.int64], packed: Bytes, room: int) -> _Ragged:
    """Strings that lie end to end, each followed by ``room`` zero bytes."""
    return _by_row([_large_binary(lengths, packed), pa.scalar(bytes(room), pa.large_binary())])


def _joined(parts: Sequence[_Part], rows: pa.Array | None = None) -> _Ragged:
    """The parts of each row one after another; ``rows`` gives the number of rows where there may be no part."""
    count = _rows(parts[0]) if parts else len(rows) if rows is not None else 0
    if len(parts) == 1 and isinstance(parts[0], _Ragged):
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        matrix = np.hstack([part for part in parts if isinstance(part, np.ndarray)]) if parts else np.empty((count, 0))
        return _Ragged(np.full(count, matrix.shape[1], np.int64), matrix.astype(np.uint8, copy=False).reshape(-1))
    return _by_row([
        _large_binary(part.lengths, part.bytes) if isinstance(part, _Ragged)
        else _large_binary(np.full(count, part.shape[1], np.int64), np.ascontiguousarray(part).reshape(-1))
        for part in parts
    ])  # fmt: skip


def _large_binary(lengths: npt.NDArray[np.int64], packed: Bytes) -> pa.LargeBinaryArray:
    """Strings that lie end to end, nothing copied."""
    offsets = pa.py_buffer(np.r_[0, np.cumsum(lengths)])
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lengths), [None, offsets, pa.py_buffer(packed)])


def _by_row(parts: Sequence[pa.LargeBinaryArray | pa.LargeBinaryScalar]) -> _Ragged:
    """The parts of each row one after another; a scalar is one of each row."""
    made = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))
    _, offsets, packed = made.buffers()
    lengths = np.diff(np.frombuffer(offsets, np.int64)[: len(made) + 1])
    return _Ragged(lengths, np.frombuffer(packed or b"", np.uint8)[: int(lengths.sum())])


def _rows(part: _Part) -> int:
    return len(part.lengths) if isinstance(part, _Ragged) else part.shape[0]


def _binary(ragged: _Ragged) -> pa.Array:
    if len(ragged.bytes) > _TEXT_LIMIT:
        raise OverflowError("the encoded values of a sort exceed 2 GiB")
    offsets = np.zeros(len(ragged.lengths) + 1, np.int32)
    np.cumsum(ragged.lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(ragged.bytes))]
    return pa.Array.from_buffers(pa.binary(), len(ragged.lengths), buffers)
