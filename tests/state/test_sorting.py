"""Goal: orders of whole numbers are numpy's own, whatever the numbers are.

Oracle: ``np.argsort``, ``np.lexsort``, ``np.unique`` and ``np.isin`` themselves. Some numbers are many, as few are left
to numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state import sorting
from headrace.state.sorting import among, distinct_numbers, lexical_order, stable_order

COUNT = 5000
TYPES = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]


def numbers(rng: np.random.Generator, kind: str, of: Any) -> npt.NDArray[Any]:
    low, high = np.iinfo(of).min, np.iinfo(of).max
    wide = rng.integers(low, high, COUNT, of, endpoint=True)
    return {
        "any": wide,
        "few": rng.choice(wide[:9], COUNT),
        "ends": rng.choice(np.array([low, low + 1, 0, high - 1, high], of), COUNT),
        "one": np.full(COUNT, high, of),
        "in order": np.sort(wide),
        "backwards": np.sort(wide)[::-1],
        "runs": np.concatenate([np.sort(part) for part in np.split(wide, 20)]),
        "low bits": rng.integers(0, 50, COUNT).astype(of) ^ rng.choice(np.array([0, high], of), COUNT),
    }[kind]


KINDS = ["any", "few", "ends", "one", "in order", "backwards", "runs", "low bits"]


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_orders_are_those_of_numpy(kind: str, of: Any) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found, others = numbers(rng, kind, of), numbers(rng, "any", of)[: 10 * seed]
        assert np.array_equal(stable_order(found), np.argsort(found, kind="stable"))
        assert np.array_equal(distinct_numbers(found), np.unique(found))
        assert np.array_equal(among(found, others), np.isin(found, others))
        assert np.array_equal(among(others, found), np.isin(others, found))


@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_orders_by_several_are_those_of_numpy(words: int) -> None:
    for seed in range(60):
        rng = np.random.default_rng([words, seed])
        found = [numbers(rng, rng.choice(KINDS), rng.choice(TYPES)) for _ in range(words)]
        if seed % 3 == 0:
            found = [word[np.lexsort(found[::-1])] for word in found]  # in order already
        assert np.array_equal(lexical_order(found), np.lexsort(found[::-1])), seed


@pytest.mark.parametrize("of", [np.float32, np.float64, "datetime64[us]", "S8"])
def test_others_than_whole_numbers_are_numpys(of: Any) -> None:
    rng = np.random.default_rng(0)
    found = rng.integers(0, COUNT, COUNT).astype(of)
    if np.dtype(of).kind == "f":
        found = rng.choice(np.array([np.nan, -np.inf, np.inf, -0.5, 0.25, 0.0], of), COUNT) * rng.random(COUNT).astype(
            of
        )
    whole = rng.integers(0, 9, COUNT)
    assert np.array_equal(stable_order(found), np.argsort(found, kind="stable"))
    assert np.array_equal(lexical_order([whole, found]), np.lexsort([found, whole]))
    assert np.array_equal(lexical_order([found, whole]), np.lexsort([whole, found]))


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**64 - 1), st.integers(-(2**63), -(2**63) + 3))))
@settings(max_examples=200)
def test_few_are_ordered_as_many(rows: list[tuple[int, int, int]]) -> None:
    found = [np.array([row[n] for row in rows], of) for n, of in enumerate((np.int32, np.uint64, np.int64))]
    with pytest.MonkeyPatch.context() as patch:
        for least in (1, 1000):
            patch.setattr(sorting, "FEW", least)
            patch.setattr(sorting, "RUNS", least)
            assert np.array_equal(lexical_order(found), np.lexsort(found[::-1]))
            for each in found:
                assert np.array_equal(stable_order(each), np.argsort(each, kind="stable"))
                assert np.array_equal(distinct_numbers(each), np.unique(each))
