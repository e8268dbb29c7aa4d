"""What the usual run takes of a family (tests/sampled.py): its share by the seed, every case by some seed, all if asked."""

from __future__ import annotations

import pytest

import sampled

CASES = "abcdefgh"


def test_every_case_is_drawn_by_some_seed_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "ALL", False)
    drawn = []
    for seed in range(1, 4):
        monkeypatch.setattr(sampled, "SEED", seed)
        drawn.append("".join(sampled.sampled(CASES, 3)))
    assert drawn == ["beh", "cf", "adg"]


def test_a_long_proof_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "ALL", True)
    assert sampled.sampled(CASES, 3) == list(CASES)
