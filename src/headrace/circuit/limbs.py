"""Columns of big integers: limbs of 32 bits, one row a limb, so that numpy carries all numbers at once.

The numbers of a column share one range of limbs. All arithmetic is exact; only ``to_double`` rounds, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.state.rows import one_array

Integers: TypeAlias = npt.NDArray[np.int64]
Doubles: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_MASK = 0xFFFFFFFF
_CHUNK = 10**9  # the largest power of ten below 2^32: what one pass multiplies or divides by
_BIAS = 1 << 15  # added to ``low`` in the stored header


@dataclass(frozen=True, slots=True, eq=False)
class Limbs:
    """n integers: number i is the sum over j of ``digits[j, i] * 2**(32 * (low + j))``.

    ``digits`` is (L, n) int64, L >= 1. Carried: every digit lies in [0, 2^32), but those of the top limb
    are signed, in [-2^31, 2^31). The range of limbs is the least that holds every number of the column.
    """

    low: int
    digits: Integers

    @classmethod
    def zeros(cls, count: int) -> Limbs:
        return cls(0, np.zeros((1, count), np.int64))

    @classmethod
    def carried(cls, low: int, digits: Integers) -> Limbs:
        """Any int64 digits, within +-2^62, brought to the form above; ``digits`` is overwritten."""
        for j in range(len(digits) - 1):
            digits[j + 1] += digits[j] >> 32
            digits[j] &= _MASK
        if digits.size and (digits[-1].min() < -(1 << 31) or digits[-1].max() >= 1 << 31):
            digits = np.vstack([digits, digits[-1:] >> 32])
            digits[-2] &= _MASK
        top, bottom = len(digits), 0
        while top - bottom > 1 and np.array_equal(digits[top - 1], -(digits[top - 2] >> 31)):
            top -= 1
            digits[top - 1] += digits[top] << 32
        while top - bottom > 1 and not digits[bottom].any():
            bottom += 1
        return cls(low + bottom, digits[bottom:top])

    def __len__(self) -> int:
        return int(self.digits.shape[1])

    def __add__(self, other: Limbs) -> Limbs:
        """Number by number; both hold the same count of numbers."""
        low = min(self.low, other.low)
        high = max(self.low + len(self.digits), other.low + len(other.digits))
        total = np.zeros((high - low, len(self)), np.int64)
        for part in (self, other):
            total[part.low - low : part.low - low + len(part.digits)] += part.digits
        return Limbs.carried(low, total)

    def take(self, indices: npt.NDArray[Any]) -> Limbs:
        return Limbs.carried(self.low, self.digits[:, indices])

    def cumsum(self, starts: Integers) -> Limbs:
        """Running sums within the segments ``starts[s]:starts[s + 1]``; at most 2^30 numbers."""
        return Limbs.carried(self.low, segment_cumsum(self.digits, starts))

    def at(self, low: int) -> Limbs:
        """The same numbers with limb ``low`` (not above the present one) as the lowest."""
        padding = np.zeros((self.low - low, len(self)), np.int64)
        return Limbs(low, np.vstack([padding, self.digits]))

    def magnitude(self) -> tuple[Mask, Limbs]:
        """Which numbers are below zero, and the absolute values."""
        negative = self.digits[-1] < 0
        return negative, self.negated(negative)

    def negated(self, where: Mask) -> Limbs:
        return Limbs.carried(self.low, np.where(where, -self.digits, self.digits))

    def times(self, factor: int) -> Limbs:
        """Times an integer of [0, 2^30]."""
        return Limbs.carried(self.low, self.digits * np.int64(factor))

    def times_power_of_ten(self, power: int) -> Limbs:
        product = self
        for factor in _powers_of_ten(power):
            product = product.times(factor)
        return product

    def divide(self, divisor: Integers | int) -> tuple[Limbs, Integers]:
        """Quotients rounded down and remainders, in units of the lowest limb; nothing here is negative.

        Divisors lie in [1, 2^32).
        """
        remainder = np.zeros(len(self), np.uint64)
        by = np.asarray(divisor).astype(np.uint64)
        quotient = np.empty(self.digits.shape, np.int64)
        for j in range(len(self.digits) - 1, -1, -1):
            part = (remainder << np.uint64(32)) | self.digits[j].astype(np.uint64)
            whole = part // by
            remainder = part - whole * by
            quotient[j] = whole
        return Limbs.carried(self.low, quotient), remainder.astype(np.int64)

    def divide_power_of_ten(self, power: int) -> tuple[Limbs, Mask]:
        """Quotients by ``10**power`` rounded down to the lowest limb, and which of them left a remainder."""
        quotient, inexact = self, np.zeros(len(self), bool)
        for divisor in _powers_of_ten(power):
            # The limb the caller asked for stays the lowest: ``carried`` may have trimmed it.
            quotient, remainder = quotient.at(self.low).divide(divisor)
            inexact |= remainder != 0
        return quotient, inexact

    def words(self, count: int) -> tuple[Integers, Mask]:
        """(count, n) words of two's complement, lowest first, in [0, 2^32), of numbers with ``low >= 0``;
        and which numbers fit into them.
        """
        own = self.at(0).digits if self.low else self.digits
        sign = (own[-1] >> 63) & _MASK
        words = np.empty((max(count, len(own)), len(self)), np.int64)
        words[: len(own)] = own & _MASK
        words[len(own) :] = sign
        fits = ((words[count - 1] >> 31) != 0) == (sign != 0)
        for word in words[count:]:
            fits &= word == sign
        return words[:count], fits

    def exact(self, index: int) -> int:
        """Number ``index``, with ``low >= 0``, as a Python integer: for the rare slow path."""
        return sum(int(digit) << (32 * j) for j, digit in enumerate(self.digits[:, index], self.low))

    def all_exact(self) -> list[int]:
        """All numbers, with ``low >= 0``, as Python integers."""
        words = np.ascontiguousarray((self.digits & _MASK).astype(np.uint32).T)
        size, packed = words.shape[1] * 4, words.tobytes()
        shift = 32 * self.low
        return [
            int.from_bytes(packed[at : at + size], "little", signed=True) << shift for at in range(0, len(packed), size)
        ]

    def replaced(self, indices: npt.NDArray[Any], numbers: list[int]) -> Limbs:
        """Other non-negative numbers at ``indices``: for the rare slow path."""
        kept = self.digits.copy()
        kept[:, indices] = 0
        other = np.zeros((max(number.bit_length() for number in numbers) // 32 + 1, len(self)), np.int64)
        for j, word in enumerate(other):
            word[indices] = [(number >> (32 * j)) & _MASK for number in numbers]
        return Limbs.carried(self.low, kept) + Limbs.carried(0, other)


def _powers_of_ten(power: int) -> list[int]:
    """Factors below 2^30 whose product is ``10**power``."""
    whole, rest = divmod(power, 9)
    return [_CHUNK] * whole + ([10**rest] if rest else [])


def segment_cumsum(values: Integers, starts: Integers) -> Integers:
    """Running sums of each row of ``values`` (k, n) within the segments ``starts[s]:starts[s + 1]``."""
    check_starts(starts, values.shape[1])
    running = np.zeros((values.shape[0], values.shape[1] + 1), np.int64)
    np.cumsum(values, axis=1, out=running[:, 1:])
    running[:, 1:] -= np.repeat(running[:, starts[:-1]], np.diff(starts), axis=1)
    return running[:, 1:]


def segment_sums(values: Integers, starts: Integers) -> Integers:
    """(k, groups): the sums of each row of ``values`` (k, n) over the groups ``starts[g]:starts[g + 1]``."""
    check_starts(starts, values.shape[1])
    filled = np.diff(starts) > 0
    sums = np.zeros((values.shape[0], len(filled)), np.int64)
    if filled.any():  # reduceat gives an element where a group is empty
        sums[:, filled] = np.add.reduceat(values, starts[:-1][filled], axis=1)
    return sums


def check_starts(starts: Integers, rows: int) -> None:
    """Groups must cover the rows in order: first start 0, last ``rows``; ``ValueError`` otherwise."""
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != rows or (np.diff(starts) < 0).any():
        raise ValueError(f"starts must rise from 0 to the number of rows, {rows}")


def to_double(magnitude: Limbs, negative: Mask, inexact: Mask, unit: int) -> Doubles:
    """The nearest doubles, ties to even, of ``magnitude * 2**unit`` with a sign; overflow gives infinity.

    ``inexact`` tells that a number lies above ``magnitude`` by less than one unit of its lowest limb;
    such a number needs at least 65 significant bits in ``magnitude`` (or a true value that is 0).
    """
    digits, count = magnitude.digits, len(magnitude)
    padded = np.vstack([np.zeros((2, count), np.int64), digits])
    filled = digits != 0
    leading = len(digits) - 1 - np.argmax(filled[::-1], axis=0)
    column = np.arange(count)
    first, second, third = (padded[leading + 2 - k, column].astype(np.uint64) for k in range(3))
    width = np.frexp(first.astype(np.float64))[1].astype(np.int64)  # bits of the leading limb; 0 for zero
    shift = width.astype(np.uint64)
    bits = (((first << np.uint64(32)) | second) << (np.uint64(32) - shift)) | (third >> shift)
    below = (
        inexact | ((third & ((np.uint64(1) << shift) - np.uint64(1))) != 0) | (np.argmax(filled, axis=0) < leading - 2)
    )
    exponent = 32 * (magnitude.low + leading) + width - 1 + unit  # of the leading one bit
    # 64 bits are in hand and 53 are kept; fewer near zero, where the last kept bit is worth 2^-1074.
    drop = np.minimum(11 + np.maximum(0, -1022 - exponent), 65)
    cut = drop.astype(np.uint64)  # numpy defines a shift by 64 or more as 0
    kept = bits >> cut
    rest = bits & ((np.uint64(1) << cut) - np.uint64(1))
    half = np.uint64(1) << (cut - np.uint64(1))
    up = (rest > half) | ((rest == half) & (below | ((kept & np.uint64(1)) != 0)))
    kept += up & (drop <= 64)
    with np.errstate(over="ignore"):
        value: Doubles = np.ldexp(kept.astype(np.float64), (exponent - 63 + drop).astype(np.int32))
    np.negative(value, where=negative, out=value)
    return value


def encode(limbs: Limbs, counts: Integers) -> pa.Array:
    """One binary value a number, canonical: equal numbers with equal ``counts`` (k, n) give equal bytes.

    Empty when all is zero; else words of 4 bytes, little-endian: a header (the lowest limb, and whether
    counts follow), the k counts as int64 unless all are 0, and the needed limbs of two's complement.
    Raises ``OverflowError`` when the array would exceed 2 GiB.
    """
    total, fixed, height = len(limbs), 1 + 2 * len(counts), len(limbs.digits)
    sign = (limbs.digits[-1] >> 63) & _MASK
    words: Integers = np.vstack([limbs.digits & _MASK, sign])
    bottom = np.argmax(words != 0, axis=0)
    differs = words[:height] != sign
    top = np.where(differs.any(axis=0), height - np.argmax(differs[::-1], axis=0), 0)
    wrong_sign = (words[np.maximum(top - 1, 0), np.arange(total)] >> 31 != 0) != (sign != 0)
    top += wrong_sign & (top > 0)
    top = np.where(sign != 0, np.maximum(top, bottom + 1), top)
    bottom[top == 0] = 0
    special = np.logical_or.reduce(counts, axis=0)
    matrix = np.empty((total, fixed + height + 1), np.uint32)
    matrix[:, 0] = ((limbs.low * (top > 0) + bottom + _BIAS) << 1) | special
    matrix[:, 1:fixed] = np.ascontiguousarray(counts.T).view(np.uint32).reshape(total, fixed - 1)
    matrix[:, fixed:] = words.T
    kept = np.empty(matrix.shape, bool)
    kept[:, 0] = special | (top > 0)
    kept[:, 1:fixed] = special[:, None]
    rank = np.arange(height + 1)
    kept[:, fixed:] = (rank >= bottom[:, None]) & (rank < top[:, None])
    offsets = np.zeros(total + 1, np.int64)
    np.cumsum(4 * kept.sum(axis=1), out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        raise OverflowError("more than 2 GiB of accumulators in one array")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(matrix[kept])]
    return pa.Array.from_buffers(pa.binary(), total, buffers)


def decode(array: pa.Array | pa.ChunkedArray, kinds: int) -> tuple[Limbs, Integers]:
    """What ``encode`` wrote, with ``kinds`` counts; NULL reads as zero."""
    array = one_array(array)
    if array.null_count:
        array = array.fill_null(b"")
    total = len(array)
    counts = np.zeros((kinds, total), np.int64)
    if total == 0 or array.buffers()[2] is None:
        return Limbs.zeros(total), counts
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + total + 1].astype(np.int64)
    words = np.frombuffer(array.buffers()[2], np.uint32, int(offsets[-1]) // 4).astype(np.int64)
    filled = np.flatnonzero(np.diff(offsets))
    begin, end = offsets[filled] // 4, offsets[filled + 1] // 4
    header = words[begin]
    special = (header & 1) != 0
    begin += 1
    for kind in range(kinds):
        at = begin[special] + 2 * kind
        counts[kind, filled[special]] = words[at] | (words[at + 1] << 32)
    begin += 2 * kinds * special
    low = (header >> 1) - _BIAS
    used = end > begin
    filled, begin, end, low = filled[used], begin[used], end[used], low[used]
    if len(filled) == 0:
        return Limbs.zeros(total), counts
    words[end - 1] -= (words[end - 1] >> 31) << 32  # the last word carries the sign
    lengths, least = end - begin, int(low.min())
    digits = np.zeros((int((low + lengths).max()) - least, total), np.int64)
    step = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    digits[np.repeat(low - least, lengths) + step, np.repeat(filled, lengths)] = words[np.repeat(begin, lengths) + step]
    return Limbs.carried(least, digits), counts
