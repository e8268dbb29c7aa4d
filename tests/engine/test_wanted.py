"""Goal: what a sink that holds all of it as it is now is told at once is what looking at each by itself says.

Oracle: the same questions, asked of one record after the other.
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.catalog.store import StepRecord, StepShape, ViewRecord
from headrace.engine.wanted import Wanted
from headrace.model.schema import ViewSchema

NAMES = st.sampled_from("abcd")
RECORDS = st.dictionaries(NAMES, st.tuples(st.integers(1, 2), st.sampled_from(["live", "failed"]), st.integers(0, 9)))


def record(name: str, version: int, state: str, created: int) -> ViewRecord:
    return ViewRecord(ViewSchema(name, version, ()), "", "", state, "it broke" if state == "failed" else "", created)


@given(found=RECORDS, held=st.dictionaries(NAMES, st.integers(1, 2)), all_held=st.booleans(), upto=st.integers(0, 9))
@example(found={}, held={}, all_held=True, upto=0)
def test_what_is_told_of_all_at_once_is_told_of_each(
    found: dict[str, tuple[int, str, int]], held: dict[str, int], all_held: bool, upto: int
) -> None:
    records = {name: record(name, *rest) for name, rest in found.items()}
    held = {name: each.schema.version for name, each in records.items()} if all_held else held
    wanted, step = Wanted(records), StepRecord(1, 0, upto, StepShape(), 0, 0)
    same = {name for name, each in records.items() if held.get(name) == each.schema.version}
    then = {name for name, each in records.items() if name in held or each.created_commit <= upto}
    assert wanted.dropped(held) == {name for name in held if name not in records}
    assert set(wanted.known(held).records) == set(records) & set(held)
    assert set(wanted.as_held(held).records) == same
    assert wanted.current(held) == (same == set(records) == set(held))
    assert wanted.current(held, upto) == (then == set(held) == same & then)
    assert wanted.had(step, held) == all(
        name in same
        for name, each in records.items()
        if each.created_commit <= upto and (name in held or each.state == "live")
    )
    placed = {(feed, whole, name) for (feed, whole), of in wanted.by_feed(held).items() for name in of}
    assert placed == {
        (each.feed, name not in same, name) for name, each in records.items() if name in same or each.state == "live"
    }
    assert wanted.stale == {name: "it broke" for name, each in records.items() if each.state == "failed"}
    assert wanted.schemas == {name: each.schema for name, each in records.items()}
