"""The exact sum and mean of doubles as functions of Spark: what sum and avg over float and double mean here; and
those of decimals so wide that Spark's own sum may overflow on the way to a result that fits.

Over a list of the group's values, because plain Spark rounds at each addition, so that its answer depends on the
order. Independent of the accumulators of headrace.circuit.exact, which they judge in batch and verify.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import pyarrow as pa


def rounded_sum(values: list[float]) -> float:
    """The double nearest to the exact sum; IEEE for NaN and infinities; +0.0 for zero; infinity beyond the largest."""
    special = _special(values)
    if special is not None:
        return special
    try:
        return math.fsum(values) + 0.0
    except OverflowError:  # also when only an intermediate sum is too large
        return _nearest(sum(map(Fraction, values), Fraction(0)))


def rounded_mean(values: list[float]) -> float:
    """The double nearest to the exact sum divided by the count, rounded once."""
    special = _special(values)
    return special if special is not None else _nearest(_total(values) / len(values))


def _special(values: list[float]) -> float | None:
    if all(map(math.isfinite, values)):
        return None
    odd = {value for value in values if math.isinf(value)}
    return math.nan if len(odd) == 2 or any(map(math.isnan, values)) else odd.pop()


def _total(values: list[float]) -> Fraction:
    """The exact sum: what fsum leaves is summed again until nothing is left, in most cases after two rounds."""
    parts: list[float] = []
    try:
        while part := math.fsum([*values, *(-p for p in parts)]):
            parts.append(part)
    except OverflowError:
        return sum(map(Fraction, values), Fraction(0))
    return sum(map(Fraction, parts), Fraction(0))


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact) + 0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _each(function: Callable[[list[float]], float], lists: pa.Array) -> pa.Array:
    return pa.array([function(values) if values else None for values in lists.to_pylist()], pa.float64())


def exact_sum(lists: pa.Array) -> pa.Array:
    """list<double> (n,) to double (n,); NULL for an empty list."""
    return _each(rounded_sum, lists)


def exact_mean(lists: pa.Array) -> pa.Array:
    """list<double> (n,) to double (n,); NULL for an empty list."""
    return _each(rounded_mean, lists)


_WIDE = Context(prec=200, rounding=ROUND_HALF_UP)


def decimal_sum(precision: int, scale: int, forgiving: bool) -> Callable[[pa.Array], pa.Array]:
    """list<decimal> (n,) to decimal(precision, scale) (n,); NULL for an empty list. A sum that does not fit is an
    error, or NULL when ``forgiving``."""

    def total(values: list[Decimal]) -> Decimal:
        return _added(values)

    return _of_decimals("decimal_sum", total, precision, scale, forgiving)


def decimal_mean(precision: int, scale: int, forgiving: bool) -> Callable[[pa.Array], pa.Array]:
    """The same for the mean, which Spark divides to 39 places and then rounds to ``scale``, HALF_UP both times."""

    def mean(values: list[Decimal]) -> Decimal:
        exact = _WIDE.divide(_added(values), Decimal(len(values)))
        return exact.quantize(Decimal(1).scaleb(-39), context=_WIDE)

    return _of_decimals("decimal_mean", mean, precision, scale, forgiving)


def _added(values: list[Decimal]) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = _WIDE.add(total, value)
    return total


def _of_decimals(
    name: str, function: Callable[[list[Decimal]], Decimal], precision: int, scale: int, forgiving: bool
) -> Callable[[pa.Array], pa.Array]:
    def one(values: list[Decimal]) -> Decimal | None:
        if not values:
            return None
        result = function(values).quantize(Decimal(1).scaleb(-scale), context=_WIDE)
        if result.adjusted() - result.as_tuple().exponent < precision or not result:  # type: ignore[operator]
            return result
        if forgiving:
            return None
        raise ArithmeticError(
            f"[NUMERIC_VALUE_OUT_OF_RANGE] {result} cannot be represented as Decimal({precision}, {scale})"
        )

    def each(lists: pa.Array) -> pa.Array:
        return pa.array([one(values) for values in lists.to_pylist()], pa.decimal128(precision, scale))

    each.__name__ = f"{name}_{precision}_{scale}{'_or_null' if forgiving else ''}"
    return each
