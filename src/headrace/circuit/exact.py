"""Exact sums of doubles and of integers or decimals: accumulators that add and subtract, so a delete leaves no trace.

sum and avg over float and double mean the correctly rounded exact result: it depends neither on the order of
the rows nor on what was inserted and deleted in between. Plain Spark rounds at each addition.

Limits: 2^27 rows in one call (weights may be any int64); a batch whose doubles lie far apart holds one limb of
8 bytes for each group and each 32 powers of two between them (68 at most) while in memory; what is kept is trimmed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.circuit.limbs import (
    Doubles,
    Integers,
    Limbs,
    Mask,
    check_starts,
    decode,
    encode,
    segment_cumsum,
    segment_sums,
    to_double,
)
from headrace.state.rows import one_array

_UNIT = -1074  # limb 0 of a sum of doubles counts in 2^-1074, the least double
_ROWS_MAX = 1 << 27
_DIVISOR_MAX = (1 << 32) - 1  # a group of more rows than that takes the slow path of Python's integers
_SPARK_SCALE = 39  # Spark divides decimals to 39 places, then rounds to the result's scale


@dataclass(frozen=True, slots=True, eq=False)
class Accumulators:
    """Exact sums of doubles, one a group. ``specials`` (3, n): weighted counts of NaN, +inf and -inf."""

    limbs: Limbs
    specials: Integers

    STORED: ClassVar[pa.DataType] = pa.binary()

    @classmethod
    def zeros(cls, count: int) -> Accumulators:
        return cls(Limbs.zeros(count), np.zeros((3, count), np.int64))

    def __len__(self) -> int:
        return len(self.limbs)

    def __add__(self, other: Accumulators) -> Accumulators:
        """Elementwise; both of the same length."""
        return Accumulators(self.limbs + other.limbs, self.specials + other.specials)

    def take(self, indices: npt.NDArray[Any]) -> Accumulators:
        """The accumulators at ``indices`` (or where a mask of length n is true)."""
        return Accumulators(self.limbs.take(indices), self.specials[:, indices])

    def cumsum(self, starts: Integers) -> Accumulators:
        """Running sums within the segments ``starts[s]:starts[s + 1]``, which cover all accumulators in order."""
        return Accumulators(self.limbs.cumsum(starts), segment_cumsum(self.specials, starts))

    def to_arrow(self) -> pa.Array:
        """binary, canonical (equal sums, equal bytes); empty for zero, 4 bytes a limb and 4 for the header."""
        return encode(self.limbs, self.specials)

    @classmethod
    def from_arrow(cls, array: pa.Array | pa.ChunkedArray) -> Accumulators:
        """The inverse of ``to_arrow``; NULL is an empty sum."""
        return cls(*decode(array, 3))

    def round(self) -> Doubles:
        """The doubles nearest to the exact sums, ties to even; beyond the largest double: infinity.

        A sum that is exactly 0 gives +0.0, even of -0.0 alone (as Spark, whose sum starts from 0.0).
        """
        negative, magnitude = self.limbs.magnitude()
        exact = np.zeros(len(self), bool)
        return self._with_specials(to_double(magnitude, negative, exact, _UNIT))

    def mean(self, counts: Integers) -> Doubles:
        """The doubles nearest to exact sum / count, rounded once; NaN where the count is not above 0."""
        negative, magnitude = self.limbs.magnitude()
        # A quotient may lose a limb, and 65 significant bits must be left.
        quotient, remainder = magnitude.at(magnitude.low - 3).divide(np.clip(counts, 1, _DIVISOR_MAX))
        means = to_double(quotient, negative, remainder != 0, _UNIT)
        for row in np.flatnonzero(counts > _DIVISOR_MAX):
            means[row] = _divide_slowly(self.limbs.exact(int(row)), int(counts[row]) << -_UNIT)
        return np.where(counts > 0, self._with_specials(means), np.nan)

    def _with_specials(self, finite: Doubles) -> Doubles:
        nan, plus, minus = self.specials != 0
        infinite = np.where(plus, np.inf, np.where(minus, -np.inf, finite))
        return np.where(nan | (plus & minus), np.nan, infinite)


def accumulate(values: Doubles, weights: Integers, starts: Integers) -> Accumulators:
    """For each group ``starts[g]:starts[g + 1]`` of rows the exact sum of weight * value.

    ``values`` float64 (n,), ``weights`` int64 (n,), ``starts`` int64 (groups + 1,) rising from 0 to n; a
    group may be empty. A row of weight 0 counts for nothing. Raises ``ValueError`` when the starts do not cover
    the rows.
    """
    _check_rows(len(values))
    check_starts(starts, len(values))
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    bits = np.ascontiguousarray(values).view(np.int64)
    field = (bits >> 52) & 0x7FF
    specials = np.zeros((3, len(starts) - 1), np.int64)
    odd = np.flatnonzero(field == 0x7FF)
    if len(odd):
        kind = np.where(np.isnan(values[odd]), 0, np.where(values[odd] > 0, 1, 2))
        np.add.at(specials, (kind, group[odd]), weights[odd])
    mantissa = bits & ((1 << 52) - 1)
    mantissa |= (field != 0).astype(np.int64) << 52
    mantissa[odd] = 0
    np.negative(mantissa, where=bits < 0, out=mantissa)
    return Accumulators(scatter(mantissa, np.maximum(field - 1, 0), weights, group, len(starts) - 1), specials)


def scatter(mantissa: Integers, position: Integers, weights: Integers, group: Integers, groups: int) -> Limbs:
    """Sums of ``weight * mantissa * 2**position`` by group; each product is spread over three limbs."""
    parts = []
    while len(mantissa):
        large = np.flatnonzero((weights < -512) | (weights > 511))
        small = weights if len(large) == 0 else np.where((weights < -512) | (weights > 511), weights & 511, weights)
        product = mantissa * small  # below 2^62
        used = np.flatnonzero(product)
        parts.append(
            (product[used], position[used], group[used]) if len(used) < len(product) else (product, position, group)
        )
        # What is left of a large weight, in units of 512, is another row 9 bits higher.
        mantissa, position, group, weights = mantissa[large], position[large] + 9, group[large], weights[large] >> 9
    filled = [place for _, place, _ in parts if len(place)]
    if not filled:
        return Limbs.zeros(groups)
    low = min(int(place.min()) for place in filled) >> 5
    height = (max(int(place.max()) for place in filled) >> 5) - low + 3
    digits = np.zeros(height * groups, np.int64)
    for product, place, owner in parts:
        shift = place & 31
        index = ((place >> 5) - low) * groups + owner
        above = product >> (32 - shift)
        np.add.at(digits, index, (product << shift) & 0xFFFFFFFF)
        np.add.at(digits, index + groups, above & 0xFFFFFFFF)
        np.add.at(digits, index + 2 * groups, above >> 32)
    return Limbs.carried(low, digits.reshape(height, groups))


def integer_limbs(array: pa.Array | pa.ChunkedArray) -> Integers:
    """(n, L) int64 limbs, lowest first, the top one signed, of int8 .. int64 (L = 2) or decimal128 (L = 4).

    Of a decimal it is the unscaled value. NULL counts as 0. Raises ``TypeError`` for another type.
    """
    array = one_array(array)
    if array.null_count:
        array = array.fill_null(Decimal(0) if pa.types.is_decimal(array.type) else 0)
    if pa.types.is_signed_integer(array.type):
        value = array.to_numpy(zero_copy_only=False).astype(np.int64)
        return np.vstack([value & 0xFFFFFFFF, value >> 32]).T
    if not pa.types.is_decimal128(array.type):
        raise TypeError(f"no exact sum over {array.type}")
    if len(array) == 0:
        return np.zeros((0, 4), np.int64)
    words = np.frombuffer(array.buffers()[1], np.uint32).reshape(-1, 4)[array.offset : array.offset + len(array)]
    digits = words.T.astype(np.int64)
    digits[3] -= (digits[3] >> 31) << 32
    return digits.T


@dataclass(frozen=True, slots=True, eq=False)
class IntegerAccumulators:
    """Exact sums of integers or of unscaled decimals, one a group; what passes through never overflows."""

    limbs: Limbs

    STORED: ClassVar[pa.DataType] = pa.binary()

    @classmethod
    def zeros(cls, count: int) -> IntegerAccumulators:
        return cls(Limbs.zeros(count))

    @classmethod
    def accumulate(cls, limbs: Integers, weights: Integers, starts: Integers) -> IntegerAccumulators:
        """For each group ``starts[g]:starts[g + 1]`` of rows the exact sum of weight * value.

        ``limbs`` (n, L) from ``integer_limbs``, ``weights`` int64 (n,), ``starts`` int64 (groups + 1,) rising from
        0 to n. Raises ``ValueError`` when the starts do not cover the rows.
        """
        rows = len(limbs)
        _check_rows(rows)
        digits = np.ascontiguousarray(limbs.T)
        largest = max(abs(int(weights.min())), abs(int(weights.max()))) if rows else 0
        products = digits * weights if largest * rows < 1 << 29 else _weighted(digits, weights)
        return cls(Limbs.carried(0, segment_sums(products, starts)))

    def __len__(self) -> int:
        return len(self.limbs)

    def __add__(self, other: IntegerAccumulators) -> IntegerAccumulators:
        """Elementwise; both of the same length."""
        return IntegerAccumulators(self.limbs + other.limbs)

    def take(self, indices: npt.NDArray[Any]) -> IntegerAccumulators:
        """The accumulators at ``indices`` (or where a mask of length n is true)."""
        return IntegerAccumulators(self.limbs.take(indices))

    def cumsum(self, starts: Integers) -> IntegerAccumulators:
        """Running sums within the segments ``starts[s]:starts[s + 1]``, which cover all accumulators in order."""
        return IntegerAccumulators(self.limbs.cumsum(starts))

    def to_arrow(self) -> pa.Array:
        """binary, canonical (equal sums, equal bytes); empty for zero."""
        return encode(self.limbs, np.zeros((0, len(self)), np.int64))

    @classmethod
    def from_arrow(cls, array: pa.Array | pa.ChunkedArray) -> IntegerAccumulators:
        """The inverse of ``to_arrow``; NULL is an empty sum."""
        return cls(decode(array, 0)[0])

    def to_int64(self) -> tuple[Integers, Mask]:
        """The sums, and which of them do not fit into int64 (of those the lowest 64 bits)."""
        words, fits = self.limbs.words(2)
        return words[0] | (words[1] << 32), ~fits

    def to_decimal(self, precision: int, scale: int) -> tuple[pa.Array, Mask]:
        """decimal128 of the unscaled sums as they are; NULL, and true in the mask, beyond ``precision`` digits.

        Spark: ``sum(decimal(p,s))`` is ``decimal(min(38, p + 10), s)``.
        """
        return _decimals(*self.limbs.magnitude(), precision, scale, np.ones(len(self), bool))

    def to_double(self, scale: int = 0) -> Doubles:
        """The doubles nearest to sum / 10**scale, rounded once."""
        negative, magnitude = self.limbs.magnitude()
        # Each division may cost a limb, and 65 significant bits must be left.
        wide = magnitude.at(magnitude.low - 3 - -(-scale // 9))
        quotient, inexact = wide.divide_power_of_ten(scale)
        return to_double(quotient, negative, inexact, 0)

    def mean_double(self, counts: Integers) -> Doubles:
        """avg over integers, as Spark divides: the sum as a double (here the exact sum, rounded once) by the count
        as a double. NaN where the count is not above 0.
        """
        means = np.full(len(self), np.nan)
        np.divide(self.to_double(), counts.astype(np.float64), out=means, where=counts > 0)
        return means

    def mean_decimal(self, counts: Integers, precision: int, scale: int, input_scale: int) -> tuple[pa.Array, Mask]:
        """avg over decimals, as Spark divides: to 39 places HALF_UP, then to ``scale`` HALF_UP.

        Gives the means, NULL beyond ``precision`` digits or where the count is not above 0, and the mask of the
        former. ``input_scale`` is that of the summed column; ``ValueError`` when it exceeds ``scale``.
        Spark: ``avg(decimal(p,s))`` is ``decimal(min(38, p + 4), min(38, s + 4))``.
        """
        if scale < input_scale:
            raise ValueError(f"a mean of scale {scale} would lose places of the input's {input_scale}")
        most = int(counts.max()) if len(self) else 0
        # Rounding twice shows only where a quotient can come within 10^-39 of a tie without being one.
        places = scale if most < 10 ** (_SPARK_SCALE - scale) else _SPARK_SCALE
        negative, magnitude = self.limbs.magnitude()
        scaled = magnitude.times_power_of_ten(places - input_scale).at(0)
        divisor = np.clip(counts, 1, _DIVISOR_MAX)
        quotient, remainder = scaled.divide(divisor)
        up = Limbs(0, (2 * remainder >= divisor).astype(np.int64)[None])
        rounded = _half_up(quotient + up, places - scale)
        slow = np.flatnonzero(counts > _DIVISOR_MAX)
        if len(slow):
            exact = [_mean_slowly(scaled.exact(int(row)), int(counts[row]), places - scale) for row in slow]
            rounded = rounded.replaced(slow, exact)
        return _decimals(negative, rounded, precision, scale, counts > 0)


def _check_rows(rows: int) -> None:
    if rows > _ROWS_MAX:
        raise ValueError(f"{rows} rows in one call; at most {_ROWS_MAX} can be summed without overflow")


def _weighted(digits: Integers, weights: Integers) -> Integers:
    """(L + 2, n): digits (L, n) times any int64 weights, each below 2^34, by the two halves of the weight."""
    lower = ((weights + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)  # signed, so that a product stays below 2^63
    upper = (weights >> 32) + (lower < 0)
    products = np.zeros((len(digits) + 2, digits.shape[1]), np.int64)
    for place, half in enumerate((lower, upper)):
        product = digits * half
        products[place : place + len(digits)] += product & 0xFFFFFFFF
        products[place + 1 : place + 1 + len(digits)] += product >> 32
    return products


def _half_up(magnitude: Limbs, power: int) -> Limbs:
    """``magnitude / 10**power`` rounded to an integer, ties away from zero."""
    if power == 0:
        return magnitude
    half = Limbs(0, np.full((1, len(magnitude)), 5, np.int64)).times_power_of_ten(power - 1)
    return (magnitude + half).at(0).divide_power_of_ten(power)[0]


def _decimals(negative: Mask, magnitude: Limbs, precision: int, scale: int, valid: Mask) -> tuple[pa.Array, Mask]:
    """decimal128 of unscaled values, NULL where not ``valid`` or too large; and the mask of the too large."""
    count = len(magnitude)
    words, fits = magnitude.words(4)
    limit, over = 10**precision, np.ones(count, bool)
    for j, word in enumerate(words):
        bound = (limit >> (32 * j)) & 0xFFFFFFFF
        over = (word > bound) | ((word == bound) & over)
    over = (over | ~fits) & valid
    present = valid & ~over
    words, _ = magnitude.negated(negative).words(4)
    unscaled = np.where(present, words, 0).T.astype(np.uint32)
    validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [None if present.all() else validity, pa.py_buffer(np.ascontiguousarray(unscaled))]
    return pa.Array.from_buffers(pa.decimal128(precision, scale), count, buffers), over


def _divide_slowly(numerator: int, denominator: int) -> float:
    """The double nearest to a quotient of integers: Python's own division rounds once."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _mean_slowly(scaled: int, count: int, surplus: int) -> int:
    """``scaled / count`` HALF_UP to an integer, then without its last ``surplus`` decimal digits, HALF_UP again."""
    mean = (2 * scaled + count) // (2 * count)
    unit: int = 10**surplus
    return (2 * mean + unit) // (2 * unit)
