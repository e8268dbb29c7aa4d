"""Variances, correlations and regressions from exact sums: the double nearest to the exact result, rounded once.

All are quotients of integers or square roots of them, so Python's integers do without any error: a few microseconds
for each touched group, whatever its rows. The sums count in powers of the least double, u = 2^-1074.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

UNIT = 1074  # bits of u


@dataclass(frozen=True, slots=True)
class Moments:
    """``n`` values with ``s1 .. s4`` their sums of powers; ``odd``: whether some are NaN or infinite."""

    n: int
    odd: bool
    s1: int
    s2: int
    s3: int = 0
    s4: int = 0

    @property
    def spread(self) -> int:
        """n times the sum of squared differences from the mean, in u^2."""
        return self.n * self.s2 - self.s1 * self.s1


@dataclass(frozen=True, slots=True)
class Pairs:
    """``n`` pairs: moments of both sides and the sum of products."""

    x: Moments
    y: Moments
    xy: int

    @property
    def n(self) -> int:
        return self.x.n

    @property
    def odd(self) -> bool:
        return self.x.odd or self.y.odd

    @property
    def spread(self) -> int:
        """n times the sum of products of differences from the means, in u^2."""
        return self.n * self.xy - self.x.s1 * self.y.s1


def quotient(numerator: int, denominator: int, unit: int = 0) -> float:
    """``numerator / denominator * u**unit`` rounded once; infinity beyond the largest double."""
    try:
        return numerator / (denominator << (UNIT * unit)) + 0.0
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def root(numerator: int, denominator: int, unit: int = 0) -> float:
    """``sqrt(numerator / denominator) * u**unit`` rounded once; nothing here is negative."""
    shift = max(0, (140 - numerator.bit_length() + denominator.bit_length()) // 2)
    whole, rest = divmod(numerator << (2 * shift), denominator)
    found = math.isqrt(whole)
    # 60 bits or more are in hand; that anything follows them is one bit more.
    inexact = rest != 0 or found * found != whole
    return quotient(2 * found + inexact, 1 << (shift + 1), unit)


def _signed_root(sign: int, numerator: int, denominator: int) -> float:
    return -root(numerator, denominator) if sign < 0 else root(numerator, denominator)


def variance(m: Moments, *, sample: bool, deviation: bool) -> float | None:
    if m.n - sample <= 0:
        return None
    if m.odd:
        return math.nan
    below = m.n * (m.n - sample)
    return root(m.spread, below, 1) if deviation else quotient(m.spread, below, 2)


def skewness(m: Moments) -> float | None:
    """sqrt(n) * m3 / m2^1.5 over the sums of powers of differences; NULL where all values are equal."""
    if m.n == 0:
        return None
    if m.odd:
        return math.nan
    if m.spread == 0:
        return None
    third = m.n * m.n * m.s3 - 3 * m.n * m.s1 * m.s2 + 2 * m.s1**3
    return _signed_root(third, third * third, m.spread**3)


def kurtosis(m: Moments) -> float | None:
    """n * m4 / m2^2 - 3; NULL where all values are equal."""
    if m.n == 0:
        return None
    if m.odd:
        return math.nan
    if m.spread == 0:
        return None
    fourth = m.n**3 * m.s4 - 4 * m.n * m.n * m.s1 * m.s3 + 6 * m.n * m.s1 * m.s1 * m.s2 - 3 * m.s1**4
    return quotient(fourth - 3 * m.spread**2, m.spread**2)


def squares(m: Moments) -> float | None:
    """The sum of squared differences from the mean (regr_sxx, regr_syy)."""
    if m.n == 0:
        return None
    return math.nan if m.odd else quotient(m.spread, m.n, 2)


def covariance(p: Pairs, *, sample: bool) -> float | None:
    if p.n - sample <= 0:
        return None
    return math.nan if p.odd else quotient(p.spread, p.n * (p.n - sample), 2)


def products(p: Pairs) -> float | None:
    """The sum of products of differences from the means (regr_sxy)."""
    if p.n == 0:
        return None
    return math.nan if p.odd else quotient(p.spread, p.n, 2)


def correlation(p: Pairs) -> float | None:
    if p.n <= 1:
        return None
    if p.odd:
        return math.nan
    if p.x.spread == 0 or p.y.spread == 0:
        return None
    return _signed_root(p.spread, p.spread**2, p.x.spread * p.y.spread)


def determination(p: Pairs) -> float | None:
    """regr_r2(x, y), y being the independent side: NULL where y is constant, 1 where only x is."""
    if p.n == 0 or (not p.y.odd and p.y.spread == 0):
        return None
    if not p.x.odd and p.x.spread == 0:
        return 1.0
    return math.nan if p.odd else quotient(p.spread**2, p.x.spread * p.y.spread)


def slope(p: Pairs) -> float | None:
    if p.n == 0 or (not p.y.odd and p.y.spread == 0):
        return None
    return math.nan if p.odd else quotient(p.spread, p.y.spread)


def intercept(p: Pairs) -> float | None:
    if p.n == 0 or (not p.y.odd and p.y.spread == 0):
        return None
    return math.nan if p.odd else quotient(p.x.s1 * p.y.s2 - p.y.s1 * p.xy, p.y.spread, 1)


OF_ONE: dict[str, Callable[[Moments], float | None]] = {
    "var_pop": lambda m: variance(m, sample=False, deviation=False),
    "var_samp": lambda m: variance(m, sample=True, deviation=False),
    "stddev_pop": lambda m: variance(m, sample=False, deviation=True),
    "stddev_samp": lambda m: variance(m, sample=True, deviation=True),
    "skewness": skewness,
    "kurtosis": kurtosis,
    "sum_of_squares": squares,
}
OF_TWO: dict[str, Callable[[Pairs], float | None]] = {
    "covar_pop": lambda p: covariance(p, sample=False),
    "covar_samp": lambda p: covariance(p, sample=True),
    "sum_of_products": products,
    "corr": correlation,
    "regr_r2": determination,
    "regr_slope": slope,
    "regr_intercept": intercept,
}
