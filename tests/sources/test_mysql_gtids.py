"""Goal: sets of GTIDs hold what was put into them, and wait for no more. Method: plain Python sets are the judge."""

from __future__ import annotations

import random

import pytest

from headrace.sources.connectors.mysql import gtids

UUIDS = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "a1b2c3d4-0000-11ee-8000-0242ac120002")


@pytest.mark.parametrize("seed", range(20))
def test_a_set_holds_what_was_put_into_it(seed: int) -> None:
    draw = random.Random(seed)
    state, there = "", set()
    for _ in range(120):
        gtid = f"{draw.choice(UUIDS)}:{draw.randrange(1, 30) if draw.random() < 0.5 else len(there) + 1}"
        state = gtids.advanced(state, gtid)
        there.add(gtid)
        low = draw.randrange(1, 40)
        high = low + draw.randrange(4)
        wanted = f"{UUIDS[0].upper()}:{low}-{high},\n{UUIDS[1]}:1:{low}"
        parsed = gtids.parsed(wanted)
        assert parsed is not None
        needed = {f"{UUIDS[0]}:{n}" for n in range(low, high + 1)} | {f"{UUIDS[1]}:{n}" for n in (1, low)}
        assert gtids.holds(state, parsed) == (needed <= there)
    assert gtids.intervals(state) == gtids.intervals(gtids.advanced(state, ""))
    assert {f"{u}:{n}" for u, some in gtids.intervals(state).items() for a, b in some for n in range(a, b + 1)} == there


def test_sets_are_spelled_as_the_servers_spell_them() -> None:
    one, two = UUIDS
    for state, gtid, after in (
        ("", f"{one}:5", f"{one}:5"),
        (f"{one}:5", f"{one}:6", f"{one}:5-6"),
        (f"{one}:1-5", f"{one}:8", f"{one}:1-5:8"),
        (f"{one}:1-5:8", f"{one}:6", f"{one}:1-6:8"),
        (f"{one}:1-5:7", f"{one}:6", f"{one}:1-7"),
        (f"{two}:1", f"{one}:1", f"{one}:1,{two}:1"),
        (f"{one}:1-5:tag:1-2", f"{one}:6", f"{one}:1-6,{one}:tag:1-2"),
        ("0-1-17,1-1-3", "0-2-18", "0-2-18,1-1-3"),
        ("2-1-1", "10-1-1", "2-1-1,10-1-1"),
        ("", "", ""),
    ):
        assert gtids.advanced(state, gtid) == after


def test_points_that_users_give() -> None:
    one, two = UUIDS
    assert gtids.holds("0-1-17,1-1-3", gtids.parsed("0-1-17") or {})
    assert gtids.holds("0-2-18", gtids.parsed("0-1-17") or {})
    assert not gtids.holds("0-1-17", gtids.parsed("1-1-1,0-1-2") or {})
    assert gtids.parsed(f"{one}:1-5:tag:1-2:4") == {one: [(1, 5)], f"{one}:tag": [(1, 2), (4, 4)]}
    assert gtids.holds(f"{one}:1-9,{two}:3", gtids.parsed(f" {one}:2-9, {two}:3") or {})
    assert not gtids.holds(f"{one}:1-9", gtids.parsed(f"{one}:tag:1") or {})
    for wrong in ("", "x", f"{one}", f"{one}:", f"{one}:tag", f"{one}:1,0-1-17", "0-1", "16/B374D848"):
        assert gtids.parsed(wrong) is None, wrong
    assert gtids.named(f"SET @@SESSION.GTID_NEXT= '{one}:7'") == {one: [(7, 7)]}
    assert gtids.named("BEGIN") == {}
    assert gtids.untagged(f"{one}:1-5:tag:1-2") == {one: [(1, 5)]}
