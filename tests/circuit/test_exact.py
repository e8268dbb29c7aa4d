"""Exact sums: judged by Python's fractions, math.fsum and decimal, over histories that insert, delete and weigh.

What a test feeds is drawn over the whole range of doubles, so subnormals, near-overflow and cancellations meet
in one sum.
"""

from __future__ import annotations

import itertools
import math
import time
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.circuit import exact
from headrace.circuit.exact import Accumulators, IntegerAccumulators, accumulate, integer_limbs
from headrace.circuit.limbs import Limbs

LARGEST = 1.7976931348623157e308
INT64 = st.integers(-(2**63), 2**63 - 1)
FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, LARGEST, -LARGEST, 1e308, 1.0, 0.1, -0.1]),
    st.builds(math.ldexp, st.integers(-(2**53), 2**53), st.integers(-1074, 900)),
)
WEIGHTS = st.one_of(st.integers(-3, 3), st.integers(-600, 600), INT64)
GROUPS = st.lists(st.lists(st.tuples(FINITE, WEIGHTS), max_size=8), min_size=1, max_size=6)


def rounded(value: Fraction) -> float:
    """The judge: Python divides integers with one rounding."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def starts_of(groups: list[list[object]]) -> np.ndarray:
    return np.cumsum([0] + [len(group) for group in groups]).astype(np.int64)


def doubles(groups: list[list[tuple[float, int]]]) -> Accumulators:
    rows = [row for group in groups for row in group]
    values = np.array([value for value, _ in rows], np.float64)
    weights = np.array([weight for _, weight in rows], np.int64)
    return accumulate(values, weights, starts_of(groups))


def exact_sum(group: list[tuple[float, int]]) -> Fraction:
    return sum((Fraction(value) * weight for value, weight in group), Fraction(0))


def same(found: np.ndarray, wanted: list[float]) -> None:
    assert found.dtype == np.float64
    assert [value.hex() for value in found.tolist()] == [value.hex() for value in wanted]


@settings(max_examples=200, deadline=None)
@given(GROUPS)
@example([[(LARGEST, 1), (LARGEST, 1), (-LARGEST, 1)], [(LARGEST, 2)], [(5e-324, 1), (LARGEST, -1)]])
@example(
    [
        [(9007199254740992.0, 1), (1.0, 1)],
        [(9007199254740992.0, 1), (1.0, 1), (5e-324, 1)],
        [(9007199254740994.0, 1), (1.0, 1)],
    ]
)
@example([[(1.0, 1), (1e308, 1), (1.0, 1), (-1e308, 1)], [(-0.0, 1)], []])
@example([[(9007199254740992.0, 1), (1.0, 1), (2.0**-exponent, 1)] for exponent in (30, 50, 60)])
@example([[(5e-324, 2**63 - 1)], [(LARGEST, -(2**63))], [(LARGEST, 2**63 - 1), (LARGEST, -(2**63)), (LARGEST, 1)]])
def test_sums_are_the_rounded_exact_sums(groups: list[list[tuple[float, int]]]) -> None:
    same(doubles(groups).round(), [rounded(exact_sum(group)) + 0.0 for group in groups])


ODD = 2**32 - 1  # a divisor whose quotients come within 2^-33 of a tie
NEAR_TIE = (2**24 + 1) * ODD + ODD // 2  # in units of the least double; rounding twice would go up


@settings(max_examples=200, deadline=None)
@given(
    GROUPS,
    st.lists(
        st.one_of(st.integers(1, 12), st.integers(1, 2**32 - 1), st.integers(1, 2**63 - 1)), min_size=6, max_size=6
    ),
)
@example(
    [[(5e-324, 1)], [(5e-324, 2)], [(5e-324, -2)], [(5e-324, NEAR_TIE)], [(1.0, 1)]], [3, 3, 3, ODD, 3_000_000_001]
)
@example(
    [[(5e-324, 1)], [(5e-324, 3)], [(5e-324, -3)], [(LARGEST, 2)], [(1.0, 1)], [(LARGEST, 1), (5e-324, 1)]],
    [2, 2, 2, 3, 3, 1],
)
@example([[(1.0, 1)], [(LARGEST, 2**63 - 1)], [(3e-308, 1)]], [2**32 - 1, 2**32, 2**63 - 1, 1, 1, 1])
@example([[(1.0, 1)]], [3_000_000_001])
def test_means_are_rounded_once(groups: list[list[tuple[float, int]]], counts: list[int]) -> None:
    divisors = np.array(counts[: len(groups)], np.int64)
    wanted = [exact_sum(group) / count for group, count in zip(groups, counts, strict=False)]
    found = doubles(groups).mean(divisors)
    same(found + 0.0, [rounded(mean) + 0.0 for mean in wanted])
    assert [math.copysign(1, value) < 0 for value in found] == [mean < 0 for mean in wanted]


@settings(max_examples=200, deadline=None)
@given(GROUPS, GROUPS)
def test_deletes_restore_every_byte(
    kept: list[list[tuple[float, int]]], passing: list[list[tuple[float, int]]]
) -> None:
    count = min(len(kept), len(passing))
    before, change = doubles(kept[:count]), doubles(passing[:count])
    undo = doubles(
        [[(value, -weight) for value, weight in reversed(group) if weight > -(2**63)] for group in passing[:count]]
    )
    redo = doubles([[(value, weight) for value, weight in group if weight == -(2**63)] for group in passing[:count]])
    after = before + change + undo
    assert after.to_arrow() == (before + redo).to_arrow()
    assert (before + change).to_arrow() == (change + before).to_arrow()


def test_an_emptied_sum_takes_no_bytes() -> None:
    values = np.array([1e308, 5e-324, 0.1, math.nan, math.inf, -math.inf])
    once, starts = np.ones(6, np.int64), np.array([0, 6])
    total = accumulate(values, once, starts) + accumulate(values[::-1], -once, starts)
    assert total.to_arrow().to_pylist() == [b""]
    assert total.round().tolist() == [0.0]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([(math.nan, 1), (1.0, 1)], math.nan),
        ([(math.inf, 1), (1.0, 5)], math.inf),
        ([(-math.inf, 2), (LARGEST, 5)], -math.inf),
        ([(math.inf, 1), (-math.inf, 1)], math.nan),
        ([(math.inf, 1), (-math.inf, 1), (-math.inf, -1)], math.inf),
        ([(math.nan, 1), (math.nan, -1), (0.5, 3)], 1.5),
        ([(-math.nan, 1), (math.inf, 1)], math.nan),
        ([(math.inf, 0), (math.nan, 0)], 0.0),
    ],
)
def test_nan_and_infinities_are_counted_apart(rows: list[tuple[float, int]], wanted: float) -> None:
    for total in (doubles([rows]), Accumulators.from_arrow(doubles([rows]).to_arrow())):
        np.testing.assert_array_equal(total.round(), [wanted])
        np.testing.assert_array_equal(total.mean(np.array([1])), [wanted])


@settings(max_examples=200, deadline=None)
@given(GROUPS, st.data())
def test_take_cumsum_and_arrow_keep_the_sums(groups: list[list[tuple[float, int]]], data: st.DataObject) -> None:
    total = doubles(groups)
    array = total.to_arrow()
    assert Accumulators.from_arrow(array).to_arrow() == array
    same(Accumulators.from_arrow(array).round(), total.round().tolist())
    assert Accumulators.from_arrow(pa.concat_arrays([pa.nulls(1, pa.binary()), array]).slice(1)).to_arrow() == array
    assert Accumulators.from_arrow(pa.chunked_array([array, array])).take(np.arange(len(groups))).to_arrow() == array
    picks = data.draw(st.lists(st.integers(0, len(groups) - 1)))
    same(total.take(np.array(picks, np.int64)).round(), [total.round()[pick] for pick in picks])
    middle = data.draw(st.integers(0, len(groups)))
    segments = np.array([0, middle, middle, len(groups)], np.int64)
    bounds = [0 if index < middle else middle for index in range(len(groups))]
    wanted = [
        sum((exact_sum(group) for group in groups[first : index + 1]), Fraction(0))
        for index, first in enumerate(bounds)
    ]
    same(total.cumsum(segments).round(), [rounded(value) + 0.0 for value in wanted])


def test_null_reads_as_an_empty_sum() -> None:
    array = pa.concat_arrays([pa.nulls(2, pa.binary()), doubles([[(1.5, 1)]]).to_arrow()])
    assert Accumulators.from_arrow(array).round().tolist() == [0.0, 0.0, 1.5]
    assert Accumulators.zeros(2).to_arrow().to_pylist() == [b"", b""]
    assert len(Accumulators.from_arrow(pa.array([], pa.binary())).round()) == 0


def test_starts_must_cover_the_rows() -> None:
    for starts in ([0, 1], [1, 2], [0, 2, 1, 2], []):
        with pytest.raises(ValueError, match="starts"):
            accumulate(np.ones(2), np.ones(2, np.int64), np.array(starts, np.int64))
        with pytest.raises(ValueError, match="starts"):
            IntegerAccumulators.accumulate(np.ones((2, 2), np.int64), np.ones(2, np.int64), np.array(starts, np.int64))


def test_many_rows_agree_with_fsum_and_stay_small() -> None:
    random = np.random.default_rng(7)
    values = random.normal(size=200_000) * 10.0 ** random.integers(-12, 12, 200_000)
    starts = np.concatenate([[0], np.sort(random.integers(0, 200_000, 499)), [200_000]])
    total = accumulate(values, np.ones(200_000, np.int64), starts)
    groups = [values[first:last] for first, last in itertools.pairwise(starts)]
    same(total.round(), [math.fsum(group) for group in groups])
    counts = np.maximum(np.diff(starts), 1)
    wanted = [
        sum(map(Fraction, group.tolist()), Fraction(0)) / int(count)
        for group, count in zip(groups, counts, strict=True)
    ]
    same(total.mean(counts), [rounded(mean) for mean in wanted])
    assert total.to_arrow().nbytes <= 500 * 40


def test_the_slow_path_is_taken_beyond_four_billion_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    original = Limbs.exact
    monkeypatch.setattr(Limbs, "exact", lambda self, index: taken.append(index) or original(self, index))
    values = np.random.default_rng(3).normal(size=10_000)
    starts = np.arange(10_001)
    counts = np.full(10_000, 2**32 - 1)
    counts[17] += 1
    accumulate(values, np.ones(10_000, np.int64), starts).mean(counts)
    sums = IntegerAccumulators.accumulate(integer_limbs(pa.array(range(10_000))), np.ones(10_000, np.int64), starts)
    sums.mean_decimal(counts, 38, 6, 2)
    sums.to_double(9)
    assert taken == [17, 17]


# integers and decimals


def decimals(values: list[int], precision: int, scale: int) -> pa.Array:
    wide = Context(prec=60)
    return pa.array([Decimal(value).scaleb(-scale, wide) for value in values], pa.decimal128(precision, scale))


def half_up(value: Fraction) -> int:
    magnitude = (2 * abs(value.numerator) + value.denominator) // (2 * value.denominator)
    return magnitude if value > 0 else -magnitude


UNSCALED = st.one_of(st.integers(-9, 9), st.integers(-(10**18), 10**18), st.integers(1 - 10**38, 10**38 - 1))
DECIMAL_GROUPS = st.lists(st.lists(st.tuples(UNSCALED, WEIGHTS), max_size=6), min_size=1, max_size=5)


def integers(groups: list[list[tuple[int, int]]]) -> tuple[IntegerAccumulators, list[int]]:
    rows = [row for group in groups for row in group]
    limbs = integer_limbs(decimals([value for value, _ in rows], 38, 2))
    total = IntegerAccumulators.accumulate(limbs, np.array([weight for _, weight in rows], np.int64), starts_of(groups))
    return total, [sum(value * weight for value, weight in group) for group in groups]


@settings(max_examples=200, deadline=None)
@given(DECIMAL_GROUPS, st.integers(1, 38), st.integers(0, 38))
@example([[(10**38 - 1, 1)], [(10**38 - 1, 1), (1, 1)], [(1 - 10**38, 1)], [(-(10**38 - 1), 1), (-1, 1)]], 38, 0)
@example([[(-1, 1)], [(-(2**32), 1)], [(2**63 - 1, 1)], [(-(2**63), 1)], [(2**31, 1)]], 10, 2)
@example([[(2**63, 1)], [(-(2**31), 1)]], 38, 0)
@example([[(10**38 - 1, 2**63 - 1), (10**38 - 1, -(2**63)), (10**38 - 1, 1)]], 38, 2)
@example([[(10**9, 1)]], 10, 18)
@example([[(1, 1)]], 10, 38)
def test_integer_sums_are_exact(groups: list[list[tuple[int, int]]], precision: int, scale: int) -> None:
    total, wanted = integers(groups)
    array, overflow = total.to_decimal(precision, min(scale, precision))
    assert overflow.tolist() == [abs(value) >= 10**precision for value in wanted]
    kept = [None if abs(value) >= 10**precision else value for value in wanted]
    array.validate(full=True)
    assert [
        None if v is None else int(v.scaleb(min(scale, precision), Context(prec=60))) for v in array.to_pylist()
    ] == kept
    values, overflow = total.to_int64()
    assert overflow.tolist() == [not -(2**63) <= value < 2**63 for value in wanted]
    assert values[~overflow].tolist() == [value for value in wanted if -(2**63) <= value < 2**63]
    same(total.to_double(scale), [rounded(Fraction(value, 10**scale)) for value in wanted])
    kept_total = IntegerAccumulators.from_arrow(total.to_arrow())
    assert kept_total.to_decimal(precision, 0)[0].equals(total.to_decimal(precision, 0)[0])
    same(kept_total.to_double(), total.to_double().tolist())
    running, _ = (total + total).cumsum(np.array([0, len(groups)])).to_decimal(38, 0)
    sums = [2 * sum(wanted[: index + 1]) for index in range(len(wanted))]
    assert running.to_pylist() == [Decimal(value) if abs(value) < 10**38 else None for value in sums]


def spark_mean(total: int, input_scale: int, count: int, scale: int) -> int:
    """As Spark: ``BigDecimal.divide(count, 39, HALF_UP)``, then ``setScale(scale, HALF_UP)``; the unscaled result."""
    places = half_up(Fraction(total * 10 ** (39 - input_scale), count))
    return half_up(Fraction(places, 10 ** (39 - scale)))


@settings(max_examples=200, deadline=None)
@given(
    DECIMAL_GROUPS,
    st.lists(st.one_of(st.integers(1, 40), st.integers(1, 2**63 - 1)), min_size=5, max_size=5),
    st.integers(1, 38),
    st.integers(0, 38),
    st.integers(0, 38),
)
@example([[(1, 1)], [(-1, 1)], [(15, 1)], [(-25, 1)], [(47, 1)]], [2, 2, 10, 10, 100], 38, 0, 0)
@example([[(47, 1)], [(-47, 1)], [(45, 1)], [(44, 1)], [(1, 1)]], [100, 100, 100, 100, 3], 38, 38, 38)
def test_decimal_means_round_as_spark_does(
    groups: list[list[tuple[int, int]]], counts: list[int], precision: int, scale: int, input_scale: int
) -> None:
    input_scale = min(input_scale, scale)
    precision = max(precision, scale, 1)
    total, sums = integers(groups)
    array, overflow = total.mean_decimal(np.array(counts[: len(groups)], np.int64), precision, scale, input_scale)
    wanted = [spark_mean(value, input_scale, count, scale) for value, count in zip(sums, counts, strict=False)]
    array.validate(full=True)
    assert overflow.tolist() == [abs(value) >= 10**precision for value in wanted]
    found = [None if v is None else int(v.scaleb(scale, Context(prec=90))) for v in array.to_pylist()]
    assert found == [None if abs(value) >= 10**precision else value for value in wanted]


def test_decimal_mean_of_known_values() -> None:
    total = IntegerAccumulators.accumulate(
        integer_limbs(decimals([1000, 1001, 1001, -5], 10, 2)), np.array([1, 1, 1, 1]), np.array([0, 3, 4, 4])
    )
    means, overflow = total.mean_decimal(np.array([3, 2, 0]), 14, 6, 2)
    quotient = (Decimal("30.02") / 3).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    assert means.to_pylist() == [quotient, Decimal("-0.025000"), None]
    assert overflow.tolist() == [False, False, False]
    with pytest.raises(ValueError, match="lose places"):
        total.mean_decimal(np.array([3, 2, 1]), 14, 1, 2)
    np.testing.assert_array_equal(total.mean_double(np.array([4, 2, 0])), [3002 / 4, -2.5, np.nan])


@pytest.mark.parametrize("arrow", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.decimal128(20, 0)])
def test_integer_limbs_of_every_type(arrow: pa.DataType) -> None:
    bits = min(arrow.bit_width, 64) - 1
    values = [-(2**bits), -1, None, 0, 1, 2**bits - 1]
    array = pa.chunked_array([pa.array([7, *values[:3]]).cast(arrow).slice(1), pa.array(values[3:]).cast(arrow)])
    total = IntegerAccumulators.accumulate(integer_limbs(array), np.full(6, 3), np.arange(7))
    assert total.to_decimal(38, 0)[0].to_pylist() == [Decimal(3 * (value or 0)) for value in values]
    assert len(integer_limbs(pa.array([], arrow))) == 0
    with pytest.raises(TypeError, match="double"):
        integer_limbs(pa.array([1.0]))


def test_a_million_rows_are_summed_in_well_under_a_second() -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=1_000_000) * 100
    weights = random.choice(np.array([1, -1]), 1_000_000)
    starts = np.arange(0, 1_000_001, 10)
    begin = time.thread_time()
    total = accumulate(values, weights, starts)
    total.round()
    Accumulators.from_arrow(total.to_arrow())
    assert time.thread_time() - begin < 2.0
    limbs = integer_limbs(pa.array(random.integers(-(10**12), 10**12, 1_000_000)).cast(pa.decimal128(20, 0)))
    begin = time.thread_time()
    sums = IntegerAccumulators.accumulate(limbs, weights, starts)
    sums.mean_decimal(np.full(100_000, 10), 24, 6, 2)
    assert time.thread_time() - begin < 2.0


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_ROWS_MAX", 3)
    with pytest.raises(ValueError, match="4 rows in one call"):
        accumulate(np.ones(4), np.ones(4, np.int64), np.array([0, 4]))
