"""What the usual run takes of a family (tests/sampled.py): every case on some day, all if asked."""

from __future__ import annotations

import pytest

import sampled

CASES = "abcdefgh"


def test_every_case_is_drawn_on_some_day_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "ALL", False)
    drawn = []
    for share in range(1, 4):
        monkeypatch.setattr(sampled, "SHARE", share)
        drawn.append("".join(sampled.sampled(CASES, 3)))
    assert drawn == ["beh", "cf", "adg"]


def test_families_of_a_single_case_are_spread_over_the_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "ALL", False)
    drawn = []
    for share in range(3):
        monkeypatch.setattr(sampled, "SHARE", share)
        drawn.append({n for n in range(30) if sampled.sampled("a", 3, f"family {n}")})
    assert set.union(*drawn) == set(range(30)) and sum(map(len, drawn)) == 30
    assert all(5 <= len(each) <= 15 for each in drawn)


def test_a_long_proof_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "ALL", True)
    assert sampled.sampled(CASES, 3) == list(CASES)
