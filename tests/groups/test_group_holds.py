"""Goal: retention takes nothing that a group holds and has not acknowledged, and a group that does not hold is told.

Method: the log's beginning is removed as far as it may go, between the reads of two groups.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from grouped import World

from headrace.catalog.store import Catalog, StepShape
from headrace.engine import retain
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError


def remove(folder: Path, wanted: int) -> tuple[int, str]:
    """(the commit that the log begins behind then, who held back the rest)."""
    state = folder / ".headrace"
    catalog = Catalog(state / "catalog.db")
    end = retain.LogReader(state / "log").end
    catalog.record_step(1, 0, end, StepShape(), 0)
    catalog.publish(1, [], 1)
    catalog.put_checkpoint(1, {})
    try:
        with LogWriter(state / "log") as log:
            plan = retain.planned(state / "log", catalog, wanted, None)
            retain.carry_out(state, catalog, log, plan)
    finally:
        catalog.close()
    return plan.commit, plan.holder.who


def test_retention_waits_for_what_a_group_holds(tmp_path: Path) -> None:
    world = World(tmp_path, 4, 3000)
    groups = world.groups()
    groups.create("holds", "orders")
    groups.create("loose", "orders", hold=False)
    feed = world.feed("orders")
    assert remove(tmp_path, 2500)[0] == 0  # nothing is acknowledged yet
    seen = list[int]()
    while len(seen) < len(feed) // 2:
        found = groups.read("holds", "r", 50)
        seen += [delivery.commit for delivery in found]
        groups.ack("holds", *(delivery.id for delivery in found))
    at, who = remove(tmp_path, 2500)
    assert 0 < at < groups.needed()["orders"]
    assert who == "the consumer groups of orders"
    while found := groups.read("holds", "r", 500):
        seen += [delivery.commit for delivery in found]
        groups.ack("holds", *(delivery.id for delivery in found))
    assert seen == feed
    with pytest.raises(HeadraceError) as behind:
        groups.read("loose")
    assert (behind.value.code, f"the log has commits {at + 1} to 3000" in behind.value.why) == ("group.position", True)
    assert groups.create("new", "orders")["read"] == at
    assert groups.read("new")[0].commit == next(commit for commit in feed if commit > at)
