"""Goal: least and greatest values of groups, added up, are those of all values. Judged by Python's min and max."""

from __future__ import annotations

import random
from datetime import date
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from headrace.circuit.extremes import Greatest, GreatestText, Least, LeastText


@pytest.mark.parametrize(("kind", "of"), [(Least, min), (Greatest, max)])
def test_added_up_they_are_those_of_all(kind: type[Least], of: type) -> None:
    draw = random.Random(1)
    for _ in range(200):
        lengths = [draw.randint(1, 6) for _ in range(draw.randint(1, 8))]
        starts = np.cumsum([0, *lengths])
        values = [draw.choice([None, 0, -1, 2**63 - 1, -(2**63), 7]) for _ in range(sum(lengths))]
        weights = np.array([0 if v is None else draw.choice([0, 1, 3]) for v in values])
        some = [[v for v, w in zip(values[a:b], weights[a:b], strict=True) if w] for a, b in pairwise(starts)]
        made = kind.accumulate(pa.array(values, pa.int64()), weights, starts)
        counts = np.array([len(s) for s in some])
        assert made.of(counts, "bigint").to_pylist() == [of(s) if s else None for s in some]

        again = kind.from_arrow(made.to_arrow().take(pa.array([*range(len(made)), None])))
        assert len(again) == len(made) + 1
        both = (again + kind.zeros(len(again))).take(np.arange(len(made)))
        assert both.of(counts, "bigint").equals(made.of(counts, "bigint"))

        half = draw.randint(1, len(some))
        ends = np.array([0, half, len(some)]) if half < len(some) else np.array([0, half])
        running = made.cumsum(ends).of(np.ones(len(made), np.int64), "bigint").to_pylist()
        for at in range(len(some)):
            seen = [v for s in some[(0 if at < half else half) : at + 1] for v in s]
            assert running[at] == (of(seen) if seen else kind.NONE)


@pytest.mark.parametrize(("kind", "of"), [(LeastText, min), (GreatestText, max)])
def test_texts_added_up_are_those_of_all(kind: type[LeastText], of: type) -> None:
    draw = random.Random(2)
    for _ in range(200):
        lengths = [draw.randint(1, 6) for _ in range(draw.randint(1, 8))]
        starts = np.cumsum([0, *lengths])
        values = [draw.choice([None, "", "a", "a\0", "ab", "\u00e9", "z", "\U0001f600"]) for _ in range(sum(lengths))]
        weights = np.array([0 if v is None else draw.choice([0, 1, 3]) for v in values])
        some = [[v for v, w in zip(values[a:b], weights[a:b], strict=True) if w] for a, b in pairwise(starts)]
        expected = [of(s, key=str.encode) if s else None for s in some]
        made = kind.accumulate(pa.array(values, pa.string()), weights, starts)
        assert made.to_arrow().to_pylist() == expected
        assert made.of(np.array([len(s) for s in some]), "string").to_pylist() == expected

        again = kind.from_arrow(made.to_arrow().take(pa.array([*range(len(made)), None])))
        assert (again + kind.zeros(len(again))).to_arrow().to_pylist() == [*expected, None]
        other = kind.from_arrow(pa.array([draw.choice(["a", "b", None]) for _ in again.values], pa.string()))
        pairs = zip([*expected, None], other.to_arrow().to_pylist(), strict=True)
        both = [[v for v in pair if v is not None] for pair in pairs]
        assert (again + other).to_arrow().to_pylist() == [of(b, key=str.encode) if b else None for b in both]

        half = draw.randint(1, len(some))
        ends = np.array([0, half, len(some)]) if half < len(some) else np.array([0, half])
        running = made.cumsum(ends).to_arrow().to_pylist()
        for at in range(len(some)):
            seen = [v for s in some[(0 if at < half else half) : at + 1] for v in s]
            assert running[at] == (of(seen, key=str.encode) if seen else None)


def test_dates_come_back_as_dates() -> None:
    days = pa.array([date(2026, 3, 1), date(1, 1, 1), None])
    made = Least.accumulate(days, np.array([1, 1, 0]), np.array([0, 2, 3]))
    assert made.of(np.array([2, 0]), "date").to_pylist() == [date(1, 1, 1), None]


def test_a_row_that_goes_is_refused() -> None:
    with pytest.raises(ArithmeticError, match="headrace rebuild VIEW"):
        Greatest.accumulate(pa.array([1]), np.array([-1]), np.array([0, 1]))
