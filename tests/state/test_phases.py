"""Goal: a thread's phases follow each other without gaps, are its own, and cost nothing while nobody asks."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.state import phases
from headrace.state.phases import ARROW, DRIVER, MERGE, PROBE, WRITE, passed, phase, pulled, recorder, recording, timed


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by one whenever it is asked."""
    ticks = iter(range(1000))
    monkeypatch.setattr(phases.time, "monotonic_ns", lambda: next(ticks))


@timed(WRITE)
def write(rows: int) -> int:
    passed(rows)
    return rows


def test_spans_follow_each_other_and_the_outer_phase_holds_what_is_inside() -> None:
    with recording(DRIVER) as made:
        with phase(PROBE):
            assert write(2) == 2
        write(3)
    assert made.spans == [(DRIVER, 0, 1), (PROBE, 1, 2), (DRIVER, 2, 3), (WRITE, 3, 4), (DRIVER, 4, 5)]
    assert made.rows == {PROBE: 2, WRITE: 3}


def test_nobody_is_recorded_who_was_not_asked() -> None:
    with recording(DRIVER) as made:
        other = threading.Thread(target=write, args=(5,))
        other.start()
        other.join()
    assert made.spans == [(DRIVER, 0, 1)] and not made.rows
    assert recorder() is None
    with phase(MERGE):
        assert write(1) == 1
    pieces = [1, 2]
    assert pulled(ARROW, pieces) is pieces
    assert time.monotonic_ns() == 2  # nobody has asked it in between


def test_each_piece_is_waited_for_in_its_phase() -> None:
    with recording(DRIVER) as made:
        assert list(pulled(ARROW, iter("ab"))) == ["a", "b"]
    assert [name for name, _, _ in made.spans] == [DRIVER, ARROW, DRIVER, ARROW, DRIVER, ARROW, DRIVER]


def test_a_phase_ends_with_what_throws_in_it() -> None:
    with pytest.raises(ValueError, match="no"), recording(DRIVER) as made, phase(PROBE):
        raise ValueError("no")
    assert made.spans == [(DRIVER, 0, 1), (PROBE, 1, 2), (DRIVER, 2, 3)]
    assert recorder() is None
