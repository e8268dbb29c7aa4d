"""A 64-bit hash of a row's contents. It tells apart rows that tie in an order; it never decides equality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.state.order import encode, fixed_width, sortable
from headrace.state.places import byte_words
from headrace.state.rows import canonical

Words = npt.NDArray[np.uint64]
BLOCK = 1 << 15  # rows at a time: what is made on the way stays in the processor's cache, and no new pages are cleared
_STEP, _FIRST, _SECOND = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def row_hashes(columns: Sequence[pa.ChunkedArray | pa.Array], rows: int) -> Words:
    """One hash a row, the same wherever and whenever it is computed: equal rows (bit by bit) have equal hashes."""
    total = np.zeros(rows, np.uint64)
    arrays = [canonical(column) for column in columns]
    for begin in range(0, rows, BLOCK):
        block = total[begin : begin + BLOCK]
        for array in arrays:
            block[:] = _mixed(block * _SECOND + _hashes(array.slice(begin, BLOCK)))
    return total


def _hashes(array: pa.Array) -> Words:
    if len(array) == 0:
        return np.empty(0, np.uint64)
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        total = _text_hashes(array.fill_null(b"" if pa.types.is_binary(array.type) else ""))
    elif fixed_width(array.type) is None:
        total = _text_hashes(encode([array], [False], [False]))
    else:
        total = np.zeros(len(array), np.uint64)
        for word in sortable(array):
            total = _mixed(total + word.astype(np.uint64) + _STEP)
    if array.null_count:
        total[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return total


def _text_hashes(texts: pa.Array) -> Words:
    """Of each text the sum of its 8-byte words, each mixed with its place."""
    every = np.frombuffer(texts.buffers()[1], np.int32)
    offsets = every[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    counts = (lengths + 7) // 8
    ends = np.cumsum(counts)
    within = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    starts = np.repeat(offsets[:-1], counts) + 8 * within
    left = np.repeat(lengths, counts) - 8 * within
    text = texts.buffers()[2]
    words = byte_words(np.frombuffer(text or b"", np.uint8), starts, left, 1)[:, 0]
    sums = np.r_[np.uint64(0), np.cumsum(_mixed(words + _STEP * (within.astype(np.uint64) + np.uint64(1))))]
    return _mixed(sums[ends] - sums[ends - counts] + lengths.astype(np.uint64))


def _mixed(words: Words) -> Words:
    """A one-to-one scrambling of 64 bits (the finalizer of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))
