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


def test_a_long_proof_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "ALL", True)
    assert sampled.sampled(CASES, 3) == list(CASES)
