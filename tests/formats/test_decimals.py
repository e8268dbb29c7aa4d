"""Goal: a decimal is the number that was written, or refused. Method: random numbers against Python's own decimals."""

from __future__ import annotations

import decimal
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.formats.types import decimals
from headrace.formats.types.json import text_column

TYPES = [(38, 18), (38, 2), (38, 30), (38, 38), (12, 2), (20, 10), (38, 0), (5, 5)]
EXACT = decimal.Context(prec=200)


def fits(number: Decimal, kind: tuple[int, int]) -> bool:
    scaled = EXACT.scaleb(number, kind[1])
    return scaled == EXACT.to_integral_value(scaled) and abs(scaled) < 10 ** kind[0]


def drawn(rng: random.Random) -> str:
    digits = str(rng.randrange(10 ** rng.randrange(1, 45)))
    place = rng.randrange(1, len(digits) + 1)
    text = rng.choice([digits, f"{digits[:place]}.{digits[place:]}", f"{digits[:8]}e{rng.randrange(-20, 40)}"])
    return rng.choice(["", "-", "00"]) + text + ("0" * rng.randrange(30) if "." in text and "e" not in text else "")


@pytest.mark.parametrize("kind", TYPES)
def test_text(kind: tuple[int, int]) -> None:
    rng, wanted, held = random.Random(1), pa.decimal128(*kind), 0
    for _ in range(4000):
        text = drawn(rng)
        number = Decimal(text)
        try:
            found = decimals.from_text(pa.array([text, None]), wanted)
        except ValueError:
            assert "e" in text or not fits(number, kind) or len(text) > 38, text
            continue
        assert (found[0].as_py(), found[1].as_py()) == (number, None), text
        held += 1
    assert held > 5


@pytest.mark.parametrize("sign", ["", "-", "+"])
@pytest.mark.parametrize("digits", ["1" * 38, "9" * 38, "0" * 37 + "1"])
def test_text_with_all_digits_behind_the_point(sign: str, digits: str) -> None:
    found = decimals.from_text(pa.array([f"{sign}0.{digits}", None]), pa.decimal128(38, 38))
    assert found.to_pylist() == [Decimal(f"{sign}0.{digits}"), None]


def test_the_fast_rule_of_json_and_csv_leaves_the_others_to_the_exact_one() -> None:
    wide = pa.decimal128(38, 18)
    for text in ("1e30", "-1e30", "3.40398646242908176540613690454327964789087", "123456789012345678901234567890"):
        assert text_column(pa.array([text]), wide) is None
    assert text_column(pa.array(["12.5", None]), wide).to_pylist() == [Decimal("12.5"), None]


def test_decimals_of_another_type() -> None:
    rng, wrapped = random.Random(2), 0
    for _ in range(4000):
        kind, other = rng.sample(TYPES, 2)
        number = EXACT.scaleb(Decimal(rng.randrange(10 ** rng.randrange(1, kind[0] + 1))), -kind[1])
        given = pa.chunked_array([pa.array([number, None], pa.decimal128(*kind))])
        try:
            found = decimals.rescaled(given, pa.decimal128(*other))
        except pa.ArrowInvalid:
            assert not fits(number, other), (number, other)
            wrapped += kind[1] < other[1]
            continue
        assert found.to_pylist() == [number, None], (number, kind, other)
    assert wrapped
