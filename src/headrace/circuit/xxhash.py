"""Spark's ``xxhash64`` in numpy, bit for bit: a key is hashed where it is, without the JVM.

Source: the XXH64 algorithm as Spark's XXH64 class applies it, value by value, each hash the next one's seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.formats.types.arrow import from_arrow, to_arrow
from headrace.state.rows import one_array
from headrace.state.sorting import stable_order

SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
INTS = frozenset({"boolean", "tinyint", "smallint", "int", "date", "float"})
LONGS = frozenset({"bigint", "timestamp", "timestamp_ntz", "double"})
BYTES = frozenset({"string", "binary"})
LONG_DIGITS = 18  # a decimal of no more is hashed as the long it is kept in


def hashable(types: Sequence[str]) -> bool:
    """Whether columns of these types can be hashed here."""
    return all(
        t in INTS or t in LONGS or t in BYTES or t.startswith("decimal(")
        or (t.startswith("struct<") and hashable([from_arrow(field.type) for field in to_arrow(t)]))
        for t in types
    )  # fmt: skip


def xxhash64(columns: Sequence[pa.ChunkedArray | pa.Array], types: Sequence[str], rows: int) -> np.ndarray:
    """int64 hashes of ``rows`` rows, equal to Spark's ``xxhash64(c0, c1, ...)``; a null leaves the hash as it is."""
    return xxhash64_onto(np.full(rows, SEED, np.int64), columns, types)


def xxhash64_onto(
    hashes: np.ndarray, columns: Sequence[pa.ChunkedArray | pa.Array], types: Sequence[str]
) -> np.ndarray:
    """The same of rows whose first columns have these int64 ``hashes`` already."""
    return _folded(columns, types, hashes.view(np.uint64)).view(np.int64)


def _folded(columns: Sequence[pa.ChunkedArray | pa.Array], types: Sequence[str], hashes: np.ndarray) -> np.ndarray:
    """Each column hashed onto what there is; a struct is its fields in turn."""
    for column, type_text in zip(columns, types, strict=True):
        array = one_array(column)
        if pa.types.is_struct(array.type):
            hashes = _folded(array.flatten(), [from_arrow(field.type) for field in array.type], hashes)
            continue
        if type_text in BYTES:
            hashed = _bytes(array, hashes)
        elif pa.types.is_decimal(array.type) and array.type.precision > LONG_DIGITS:
            hashed = _bytes(_shortest(array), hashes)
        elif type_text in INTS:
            hashed = _int(_words(array, type_text, np.int32), hashes)
        else:
            hashed = _long(_words(array, type_text, np.int64), hashes)
        if array.null_count:
            hashed = np.where(array.is_null().to_numpy(zero_copy_only=False), hashes, hashed)
        hashes = hashed
    return hashes


def _words(array: pa.Array, type_text: str, width: type[np.signedinteger]) -> np.ndarray:
    """The bits that are hashed of a value of fixed size; anything for a null."""
    if type_text in ("float", "double"):
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        one_form = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))  # -0.0 is 0.0
        bits: np.ndarray = one_form.view(width)
        return bits
    if pa.types.is_decimal(array.type):
        words: np.ndarray = np.frombuffer(array.buffers()[1], np.int64)
        return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    arrow = pa.int32() if width is np.int32 else pa.int64()
    whole: np.ndarray = array.cast(arrow).fill_null(0).to_numpy(zero_copy_only=False)
    return whole


def _shortest(array: pa.Array) -> pa.Array:
    """The unscaled values of decimals as Java's BigInteger writes them: the fewest bytes, the highest first."""
    words = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, 16)[array.offset : array.offset + len(array)]
    matrix = words[:, ::-1]
    sign = np.where(matrix[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
    # A byte is needed from the first on that is not the sign's, or from the one before, which must show the sign.
    other = matrix != sign
    first = np.where(other.any(axis=1), other.argmax(axis=1), 15)
    shows = (matrix[np.arange(len(matrix)), first] ^ sign[:, 0]) & 0x80 == 0
    begin = np.where(shows, first, first - 1)
    offsets = np.zeros(len(matrix) + 1, np.int32)
    np.cumsum(16 - begin, out=offsets[1:])
    packed = matrix[np.arange(16) >= begin[:, None]]
    return pa.Array.from_buffers(pa.binary(), len(matrix), [None, pa.py_buffer(offsets), pa.py_buffer(packed)])


def _long(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    mixed = seeds + _P5 + np.uint64(8)
    return _final(_with_long(mixed, values.view(np.uint64)))


def _int(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    mixed = seeds + _P5 + np.uint64(4)
    return _final(_with_int(mixed, values.view(np.uint32).astype(np.uint64)))


def _bytes(array: pa.Array, seeds: np.ndarray) -> np.ndarray:
    """Values of one length are hashed together: as many passes as there are lengths."""
    if len(array) == 0:
        return seeds
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    hashes = np.empty(len(array), np.uint64)
    order = stable_order(lengths)
    bounds = np.flatnonzero(np.r_[True, np.diff(lengths[order]) != 0, True])
    for first, last in pairwise(bounds):
        rows = order[first:last]
        length = int(lengths[rows[0]])
        matrix = content[starts[rows][:, None] + np.arange(length)]
        hashes[rows] = _final(_of_length(matrix, length, seeds[rows]))
    return hashes


def _of_length(matrix: np.ndarray, length: int, seeds: np.ndarray) -> np.ndarray:
    """``matrix``: rows x length bytes."""
    mixed: np.ndarray
    words = length // 8
    longs = np.ascontiguousarray(matrix[:, : words * 8]).view(np.uint64)
    if length >= 32:
        lanes: list[np.ndarray] = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
        stripes = length // 32
        for stripe in range(stripes):
            for i in range(4):
                lanes[i] = _rotated(lanes[i] + longs[:, 4 * stripe + i] * _P2, 31) * _P1
        mixed = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
        for lane in lanes:
            mixed = (mixed ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
        done = stripes * 4
    else:
        mixed, done = seeds + _P5, 0
    mixed = mixed + np.uint64(length)
    for word in range(done, words):
        mixed = _with_long(mixed, longs[:, word])
    at = words * 8
    if length - at >= 4:
        part = np.ascontiguousarray(matrix[:, at : at + 4]).view(np.uint32)[:, 0]
        mixed, at = _with_int(mixed, part.astype(np.uint64)), at + 4
    for byte in range(at, length):
        mixed = _rotated(mixed ^ (matrix[:, byte].astype(np.uint64) * _P5), 11) * _P1
    return mixed


def _with_long(mixed: np.ndarray, words: np.ndarray) -> np.ndarray:
    mixed = mixed ^ (_rotated(words * _P2, 31) * _P1)
    hashed: np.ndarray = _rotated(mixed, 27) * _P1 + _P4
    return hashed


def _with_int(mixed: np.ndarray, words: np.ndarray) -> np.ndarray:
    mixed = mixed ^ (words * _P1)
    hashed: np.ndarray = _rotated(mixed, 23) * _P2 + _P3
    return hashed


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    rotated: np.ndarray = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return rotated


def _final(values: np.ndarray) -> np.ndarray:
    values = values ^ (values >> np.uint64(33))
    values *= _P2
    values ^= values >> np.uint64(29)
    values *= _P3
    values ^= values >> np.uint64(32)
    return values
