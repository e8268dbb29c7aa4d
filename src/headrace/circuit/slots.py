"""What an aggregate keeps of each group: counts and exact sums that add and subtract; and what functions make of them.

Functions over the same values share what is kept. Overflow is checked on what is emitted only, since a change that
cancels may pass through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit import exact
from headrace.circuit.extremes import TEXT, WHOLE, Greatest, GreatestText, Least, LeastText
from headrace.circuit.limbs import Limbs
from headrace.circuit.moments import OF_ONE, OF_TWO, Moments, Pairs
from headrace.circuit.products import Factors, accumulate_product
from headrace.formats.types.arrow import to_arrow

Sums = exact.Accumulators | exact.IntegerAccumulators
State = Sums | Least
_DOUBLES, _INTEGERS = exact.Accumulators, exact.IntegerAccumulators

BITWISE = ("bit_and", "bit_or", "bit_xor")
EXTREMES = {"min": "least", "max": "greatest"}  # of values that only come: function -> kind of slot
RUNNING = (*WHOLE, TEXT)  # the types of such values
WRAPPED_SUM = "wrapped_sum"  # of integers, of which the lowest 64 bits are the result


@dataclass(frozen=True, slots=True)
class Slot:
    """State for some functions of one list of arguments.

    ``kind``: "count", "sum", "least", "greatest", "moments2" and "moments4" (sums of powers up to that one), "pairs"
    (of products too) or "bits" (how often each bit is set). ``arguments``: columns of the stage, with their types; all
    must be present for a row to count. ``once``: the ordered values by which each distinct value counts once, or None.
    """

    kind: str
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    once: int | None = None

    @property
    def sums(self) -> tuple[type[State], ...]:
        if self.kind == "sum":
            return (_DOUBLES,) if self.types[0] in ("float", "double") else (_INTEGERS,)
        return {
            "count": (),
            "moments2": (_DOUBLES, _INTEGERS),
            "moments4": (_DOUBLES, _INTEGERS, _INTEGERS, _INTEGERS),
            "pairs": (_DOUBLES, _DOUBLES, _INTEGERS, _INTEGERS, _INTEGERS),
            "bits": (_INTEGERS,),
            "least": (LeastText if self.types == (TEXT,) else Least,),
            "greatest": (GreatestText if self.types == (TEXT,) else Greatest,),
        }[self.kind]

    def totals(self, table: pa.Table, weights: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, list[State]]:
        """What each segment ``starts[s]:starts[s + 1]`` of rows adds: how many count, and their sums."""
        for name in self.arguments:
            if table[name].null_count:
                weights = np.where(table[name].is_valid().to_numpy(), weights, 0)
        count = np.add.reduceat(weights, starts[:-1])
        if self.kind == "count":
            return count, []
        if self.kind == "sum":
            return count, [_sum(table[self.arguments[0]].combine_chunks(), weights, starts)]
        if self.kind in EXTREMES.values():
            (made,) = self.sums
            assert issubclass(made, Least)
            return count, [made.accumulate(table[self.arguments[0]].combine_chunks(), weights, starts)]
        if self.kind == "bits":
            return count, [_bits(table[self.arguments[0]].combine_chunks(), weights, starts)]
        doubles = [_doubles(table[name].combine_chunks()) for name in self.arguments]
        return count, [*_powers(self, doubles, weights, starts)]


def _doubles(values: pa.Array) -> np.ndarray:
    doubles: np.ndarray = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    return doubles


def _sum(values: pa.Array, weights: np.ndarray, starts: np.ndarray) -> Sums:
    if pa.types.is_floating(values.type):
        return exact.accumulate(_doubles(values), weights, starts)
    if pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    return exact.IntegerAccumulators.accumulate(exact.integer_limbs(values), weights, starts)


def _powers(slot: Slot, columns: list[np.ndarray], weights: np.ndarray, starts: np.ndarray) -> list[Sums]:
    factors = [Factors.of(values) for values in columns]
    sums: list[Sums] = [exact.accumulate(values, weights, starts) for values in columns]
    if slot.kind == "pairs":
        x, y = factors
        finite = np.where(np.isfinite(columns[0]) & np.isfinite(columns[1]), weights, 0)
        products = [(x, x), (y, y)]
        return [*sums, *[accumulate_product(p, weights, starts) for p in products],
                accumulate_product((x, y), finite, starts)]  # fmt: skip
    highest = int(slot.kind[-1])
    return [*sums, *[accumulate_product(factors * power, weights, starts) for power in range(2, highest + 1)]]


def _bits(values: pa.Array, weights: np.ndarray, starts: np.ndarray) -> Sums:
    """How often each bit is set: bit j is counted in limbs 2j and 2j + 1 of one big integer."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    digits = np.zeros((2 * 8 * numbers.dtype.itemsize, len(starts) - 1), np.int64)
    for bit in range(8 * numbers.dtype.itemsize):
        count = np.add.reduceat(np.where((numbers >> bit) & 1, weights, 0), starts[:-1])
        digits[2 * bit], digits[2 * bit + 1] = count & 0xFFFFFFFF, count >> 32
    return exact.IntegerAccumulators(Limbs.carried(0, digits))


@dataclass
class Groups:
    """What n groups (or groups at instants) hold: row counts, and for each slot a count and its sums, flattened."""

    rows: np.ndarray
    counts: list[np.ndarray]
    sums: list[State]

    def take(self, index: np.ndarray) -> Groups:
        return Groups(self.rows[index], [c[index] for c in self.counts], [s.take(index) for s in self.sums])

    def __add__(self, other: Groups) -> Groups:
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        sums: list[Any] = [a + b for a, b in zip(self.sums, other.sums, strict=True)]  # type: ignore[operator]
        return Groups(self.rows + other.rows, counts, sums)

    def running(self, starts: np.ndarray) -> Groups:
        """Running totals within segments (``starts`` ends with the length)."""
        return Groups(
            _running(self.rows, starts),
            [_running(c, starts) for c in self.counts],
            [s.cumsum(starts) for s in self.sums],
        )

    def mixed(self, other: Groups, index: np.ndarray) -> Groups:
        """The groups of both, one after the other, at ``index``."""
        encoded = [pa.chunked_array([a.to_arrow(), b.to_arrow()]).take(pa.array(index))
                   for a, b in zip(self.sums, other.sums, strict=True)]  # fmt: skip
        return Groups(
            np.r_[self.rows, other.rows][index],
            [np.r_[a, b][index] for a, b in zip(self.counts, other.counts, strict=True)],
            [type(a).from_arrow(e) for a, e in zip(self.sums, encoded, strict=True)],
        )


def _running(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    total = np.cumsum(values)
    before = np.r_[0, total][starts[:-1]]
    result: np.ndarray = total - np.repeat(before, np.diff(starts))
    return result


def offsets(slots: Sequence[Slot]) -> list[int]:
    """Where the sums of each slot begin among those of all."""
    return [0, *accumulate(len(slot.sums) for slot in slots)][: len(slots)]


@dataclass(frozen=True, slots=True)
class Part:
    """A function over a slot: its name, its result's type, and whether an overflow is NULL instead of an error."""

    function: str
    slot: int
    result: str
    forgiving: bool = False

    def of(self, slots: Sequence[Slot], groups: Groups, wanted: np.ndarray) -> pa.Array:
        """The function's value for each group; see ``value``."""
        slot, first = slots[self.slot], offsets(slots)[self.slot]
        return self.value(slot, groups.counts[self.slot], groups.sums[first : first + len(slot.sums)], wanted)

    def value(self, slot: Slot, count: np.ndarray, sums: Sequence[State], wanted: np.ndarray) -> pa.Array:
        """The value for each group, NULL where nothing was counted; raises where a ``wanted`` one overflows."""
        if self.function == "count":
            return pa.array(count)
        if isinstance(sums[0], Least):
            return sums[0].of(count, self.result)
        added = cast(Sequence[Sums], sums)
        if self.function in BITWISE:
            return _of_bits(self, count, added[0])
        if self.function in OF_ONE or self.function in OF_TWO:
            return _of_moments(self.function, count, added, wanted)
        return self._sum_or_mean(slot, count, added[0], wanted)

    def _sum_or_mean(self, slot: Slot, count: np.ndarray, total: Sums, wanted: np.ndarray) -> pa.Array:
        some = count > 0
        safe = np.where(some, count, 1)
        arrow, overflow = to_arrow(self.result), np.zeros(len(count), bool)
        if isinstance(total, exact.Accumulators):
            return pa.array(total.round() if self.function == "sum" else total.mean(safe), mask=~some)
        if pa.types.is_decimal(arrow) and self.function == "sum":
            values, overflow = total.to_decimal(arrow.precision, arrow.scale)
        elif pa.types.is_decimal(arrow):
            scale = to_arrow(slot.types[0]).scale
            values, overflow = total.mean_decimal(safe, arrow.precision, arrow.scale, scale)
        elif self.function == "avg":
            values = pa.array(total.mean_double(safe))
        else:
            numbers, overflow = total.to_int64()
            if self.function == WRAPPED_SUM:
                overflow = np.zeros(len(count), bool)
            values = pa.array(numbers).cast(arrow)
        if not self.forgiving and (overflow & some & wanted).any():
            raise ArithmeticError(
                f"[ARITHMETIC_OVERFLOW] {self.function} of {slot.types[0]} does not fit {self.result}"
            )
        return pc.if_else(pa.array(some & ~overflow), values, pa.nulls(len(some), arrow))


def _of_bits(part: Part, count: np.ndarray, total: Sums) -> pa.Array:
    arrow = to_arrow(part.result)
    width = 8 if pa.types.is_boolean(arrow) else arrow.bit_width
    words, _ = total.limbs.words(2 * width)
    value = np.zeros(len(count), np.uint64)
    for bit in range(width):
        times = words[2 * bit] | (words[2 * bit + 1] << 32)
        is_set = {"bit_and": times == count, "bit_or": times > 0, "bit_xor": times & 1 != 0}[part.function]
        value |= is_set.astype(np.uint64) << np.uint64(bit)
    if pa.types.is_boolean(arrow):
        return pa.array((value & np.uint64(1)) != 0, mask=count == 0)
    return pa.array(value.astype(f"u{width // 8}").view(f"i{width // 8}"), mask=count == 0)


def _of_moments(function: str, count: np.ndarray, sums: Sequence[Sums], wanted: np.ndarray) -> pa.Array:
    asked = np.flatnonzero(wanted)
    numbers = [s.limbs.take(asked).all_exact() for s in sums]
    odd = [(s.specials != 0).any(axis=0)[asked].tolist() for s in sums if isinstance(s, exact.Accumulators)]
    counts = count[asked].tolist()
    values: list[float | None]
    if function in OF_ONE:
        one = OF_ONE[function]
        values = [one(Moments(n, o, *s)) for n, o, s in zip(counts, odd[0], zip(*numbers, strict=True), strict=True)]
    else:
        values = [_of_pair(OF_TWO[function], *row) for row in zip(counts, *odd, *numbers, strict=True)]
    result = np.zeros(len(count))
    known = np.zeros(len(count), bool)
    result[asked] = [0.0 if v is None else v for v in values]
    known[asked] = [v is not None for v in values]
    return pa.array(result, mask=~known)


def _of_pair(
    function: Callable[[Pairs], float | None], n: int, x_odd: bool, y_odd: bool, x: int, y: int, xx: int, yy: int,
    xy: int,
) -> float | None:  # fmt: skip
    return function(Pairs(Moments(n, x_odd, x, xx), Moments(n, y_odd, y, yy), xy))
