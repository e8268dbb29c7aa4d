"""Arithmetic of decimals as Spark does it, by Arrow: exact, in the type that Spark gives the result, or an error.

A result that needs more than Spark's 38 digits, at the scale that it has, is computed with 76 and must fit then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit.local import Datum, Local, Rows, materialized
from headrace.formats.types.arrow import to_arrow

DIGITS, WIDE_DIGITS = 38, 76


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``add``, ``subtract`` or ``multiply`` of two decimals; ``type``: the result's."""

    function: str
    left: Local
    right: Local
    type: str
    fits: bool  # whatever the values are

    @property
    def throws(self) -> bool:
        return not self.fits or self.left.throws or self.right.throws

    def evaluate(self, rows: Rows) -> Datum:
        values = [self.left.evaluate(rows), self.right.evaluate(rows)]
        if self.fits:
            return pc.call_function(self.function, values)
        wide = [pc.cast(v, pa.decimal256(v.type.precision, v.type.scale)) for v in values]
        try:
            return pc.cast(pc.call_function(self.function, wide), to_arrow(self.type))
        except pa.ArrowInvalid as error:
            raise too_large(self.type) from error


def fitting(function: str, left: pa.DataType, right: pa.DataType, result: pa.DataType) -> bool | None:
    """Whether every result fits Spark's type of it; None where that has another scale, or 76 digits are too few."""
    scale = left.scale + right.scale if function == "multiply" else max(left.scale, right.scale)
    if function == "multiply":
        digits = left.precision + right.precision + 1
    else:
        digits = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    if scale != result.scale or digits > WIDE_DIGITS:
        return None
    return digits == result.precision if digits <= DIGITS else False


@dataclass(frozen=True, slots=True)
class Rounded:
    """A decimal with fewer digits behind the point, half away from zero; ``type`` has a digit more before it."""

    argument: Local
    type: str

    @property
    def throws(self) -> bool:
        return self.argument.throws

    def evaluate(self, rows: Rows) -> Datum:
        values, arrow = self.argument.evaluate(rows), to_arrow(self.type)
        wide = pc.cast(values, pa.decimal256(values.type.precision + 1, values.type.scale))
        return pc.cast(pc.round(wide, arrow.scale, "half_towards_infinity"), arrow)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One decimal by another, rounded half away from zero; Spark's 39 digits behind the point decide no half."""

    left: Local
    right: Local
    type: str

    @property
    def throws(self) -> bool:
        return True

    def evaluate(self, rows: Rows) -> Datum:
        above, below = (materialized(a.evaluate(rows), rows.num_rows) for a in (self.left, self.right))
        arrow = to_arrow(self.type)
        valid = (above.is_valid().to_numpy(zero_copy_only=False)) & (below.is_valid().to_numpy(zero_copy_only=False))
        numerator, denominator = unscaled(above)[valid], unscaled(below)[valid]
        if (denominator == 0).any():
            raise ArithmeticError("[DIVIDE_BY_ZERO] Division by zero. Use try_divide to tolerate divisor being 0.")
        shift = arrow.scale + below.type.scale - above.type.scale
        numerator = numerator * 10 ** max(shift, 0)
        denominator = denominator * 10 ** max(-shift, 0)
        negative = (numerator < 0) != (denominator < 0)
        numerator, denominator = abs(numerator), abs(denominator)
        quotient = (2 * numerator + denominator) // (2 * denominator)
        if (quotient >= 10**arrow.precision).any():
            raise too_large(self.type)
        return scaled(np.where(negative, -quotient, quotient), valid, arrow)


Objects = npt.NDArray[Any]  # Python's integers: their arithmetic is exact, and numpy's loop over them is not Python's


def unscaled(values: pa.Array) -> Objects:
    """The unscaled values of decimals; anything for a null."""
    words = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset : 2 * (values.offset + len(values))]
    low, high = words[::2].view(np.uint64).astype(object), words[1::2].astype(object)
    made: Objects = high * (1 << 64) + low
    return made


def scaled(values: Objects, valid: npt.NDArray[np.bool_], arrow: pa.DataType) -> pa.Array:
    """The decimals of such unscaled values, in the places that are valid."""
    words = np.zeros((len(valid), 2), np.uint64)
    words[valid, 0] = (values & ((1 << 64) - 1)).astype(np.uint64)
    words[valid, 1] = ((values >> 64) & ((1 << 64) - 1)).astype(np.uint64)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(arrow, len(valid), [bitmap, pa.py_buffer(words)])


def too_large(type_text: str) -> ArithmeticError:
    return ArithmeticError(f"[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] the result does not fit {type_text}")
