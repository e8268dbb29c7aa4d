"""Exact sums of powers and products of doubles, for variances and correlations: every bit of every product counts.

A product of doubles has up to twice, a fourth power four times the bits of a double. It is made in pieces of 18 bits,
so that nothing leaves int64, and spread over the limbs of a sum as a double is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from headrace.circuit.exact import IntegerAccumulators, scatter
from headrace.circuit.limbs import Doubles, Integers, Mask

_PIECE = 18  # bits: products of pieces, and sums of a few of them, stay far below 2^62
_LOW = (1 << _PIECE) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """n finite numbers: the sum of ``pieces[j] * 2**(18 * j)``, times ``2**(position - 1074 * degree)``, and a sign.

    ``pieces`` (k, n) int64, each in [0, 2^18); ``position`` (n,) int64.
    """

    pieces: Integers
    position: Integers
    negative: Mask

    @classmethod
    def of(cls, values: Doubles) -> Factors:
        """Doubles as factors of degree 1; what is not finite counts as 0."""
        bits = np.ascontiguousarray(values, np.float64).view(np.int64)
        field = (bits >> 52) & 0x7FF
        mantissa = bits & ((1 << 52) - 1)
        mantissa |= (field != 0).astype(np.int64) << 52
        mantissa[field == 0x7FF] = 0
        pieces = np.stack([mantissa & _LOW, (mantissa >> _PIECE) & _LOW, mantissa >> (2 * _PIECE)])
        return cls(pieces, np.maximum(field - 1, 0), bits < 0)

    def __mul__(self, other: Factors) -> Factors:
        mine, others = len(self.pieces), len(other.pieces)
        product = np.zeros((mine + others, self.pieces.shape[1]), np.int64)
        for j in range(mine):
            product[j : j + others] += self.pieces[j] * other.pieces
        for j in range(mine + others - 1):
            product[j + 1] += product[j] >> _PIECE
            product[j] &= _LOW
        return Factors(product, self.position + other.position, self.negative != other.negative)


def accumulate_product(factors: Iterable[Factors], weights: Integers, starts: Integers) -> IntegerAccumulators:
    """For each group ``starts[g]:starts[g + 1]`` of rows the exact sum of weight * product of the factors.

    Counted in units of 2**(-1074 * number of factors). ``weights`` int64 (n,); ``starts`` int64 (groups + 1,).
    """
    whole = reduce(Factors.__mul__, factors)
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    signed = np.where(whole.negative, -weights, weights)
    entries = []
    for j in range(0, len(whole.pieces), 2):
        two = whole.pieces[j : j + 2]
        part = two[0] + (two[1] << _PIECE) if len(two) == 2 else two[0]
        used = np.flatnonzero(part)
        if len(used):
            entries.append((part[used], whole.position[used] + _PIECE * j, signed[used], group[used]))
    if not entries:
        return IntegerAccumulators.zeros(len(starts) - 1)
    parts, positions, weighed, owners = (np.concatenate(arrays) for arrays in zip(*entries, strict=True))
    return IntegerAccumulators(scatter(parts, positions, weighed, owners, len(starts) - 1))
