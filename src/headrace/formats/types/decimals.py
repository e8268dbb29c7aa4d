"""Decimals from text and from other decimals, by Arrow's casts where these are right.

Arrow 25 takes the product with a power of ten that leaves 128 bits for the number it wraps around to, and cuts text of
more than 38 digits, both without a word: what might do so is not given to it, or is looked at afterwards.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

DIGITS_MAX = 38


def from_text(texts: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Plain decimal numbers, without exponent, as ``wanted``. Raises ``ValueError`` for any that it cannot hold."""
    whole = wanted.precision - wanted.scale
    if not _plain(texts, whole):
        pointed = pc.match_substring(texts, ".")
        texts = pc.if_else(pointed, pc.utf8_rtrim(texts, "0"), texts)
        if not _plain(texts, whole):
            raise ValueError(f"not a number of at most {whole} digits before the point and {DIGITS_MAX} in all")
    return texts.cast(wanted)


def rescaled(numbers: pa.Array | pa.ChunkedArray, wanted: pa.Decimal128Type) -> pa.Array | pa.ChunkedArray:
    """Decimals as decimals of another type. Raises ``pa.ArrowInvalid`` for any that it cannot hold."""
    cast = numbers.cast(wanted)
    if wanted.scale > numbers.type.scale and not cast.cast(numbers.type).equals(numbers):
        raise pa.ArrowInvalid(f"a number does not fit in {wanted}")
    return cast


def _plain(texts: pa.Array, whole: int) -> bool:
    pattern = rf"^[+-]?0*\d{{0,{whole}}}(\.\d{{0,{DIGITS_MAX - whole}}})?$"
    unsigned = pc.utf8_ltrim(texts, "+-")
    short = pc.less_equal(pc.binary_length(unsigned), DIGITS_MAX + 2)  # leading zeros count for Arrow too
    fits = pc.and_(short, pc.match_substring_regex(texts, pattern))
    return pc.all(fits).as_py() is not False
