"""Spark's ``xxhash64`` of fixed-size columns in numpy, bit for bit: a key is hashed where it is, without the JVM.

Source: the XXH64 algorithm as Spark's XXH64 class applies it, value by value, each hash the next one's seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
INTS = frozenset({"tinyint", "smallint", "int", "date"})
LONGS = frozenset({"bigint", "timestamp", "timestamp_ntz"})


def hashable(types: Sequence[str]) -> bool:
    """Whether columns of these types can be hashed here."""
    return all(t in INTS or t in LONGS for t in types)


def xxhash64(columns: Sequence[pa.ChunkedArray | pa.Array], types: Sequence[str]) -> np.ndarray:
    """int64 hashes of rows, equal to Spark's ``xxhash64(c0, c1, ...)``; a null leaves the hash as it is."""
    rows = len(columns[0])
    hashes = np.full(rows, SEED, np.uint64)
    for column, type_text in zip(columns, types, strict=True):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        wide = type_text in LONGS
        if not pa.types.is_integer(array.type):
            array = array.cast(pa.int64() if wide else pa.int32())
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        hashed = _long(values, hashes) if wide else _int(values, hashes)
        hashes = (
            np.where(array.is_null().to_numpy(zero_copy_only=False), hashes, hashed) if array.null_count else hashed
        )
    return hashes.view(np.int64)


def _long(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    mixed = seeds + _P5 + np.uint64(8)
    mixed ^= _rotated(values.astype(np.int64).view(np.uint64) * _P2, 31) * _P1
    return _final(_rotated(mixed, 27) * _P1 + _P4)


def _int(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    mixed = seeds + _P5 + np.uint64(4)
    mixed ^= values.astype(np.int32).view(np.uint32).astype(np.uint64) * _P1
    return _final(_rotated(mixed, 23) * _P2 + _P3)


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    rotated: np.ndarray = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return rotated


def _final(values: np.ndarray) -> np.ndarray:
    values ^= values >> np.uint64(33)
    values *= _P2
    values ^= values >> np.uint64(29)
    values *= _P3
    values ^= values >> np.uint64(32)
    return values
