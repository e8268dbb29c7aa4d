"""Goal: retention takes nothing that a group holds and has not acknowledged, and a group that does not hold is told.

Method: the log's beginning is removed as far as it may go, between the reads of two groups.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from grouped import World

from headrace.catalog import groups
from headrace.catalog.store import Catalog, StepShape, ViewRecord
from headrace.control import backup
from headrace.engine import retain
from headrace.engine.backup import restore
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.serve.groups import Groups


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
    assert 0 < at < (world.needed() or {})["orders"]
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


def test_a_group_over_a_view_that_is_gone_does_not_hold_the_log(tmp_path: Path) -> None:
    world = World(tmp_path, 4, 3000)
    catalog = Catalog(tmp_path / ".headrace/catalog.db")
    schema = ViewSchema("v", 1, (Column("x", "bigint"),))
    catalog.put_view(ViewRecord(schema, "SELECT 1", "f", "live", "", 0))
    groups = world.groups()
    groups.create("of_view", "v")
    catalog.drop_view("v", 1)
    catalog.close()
    at, _ = remove(tmp_path, 2500)
    assert at > 0
    assert "there is no view 'v'" in groups.entries()[0]["problem"]
    groups.create("of_table", "orders")
    assert remove(tmp_path, 2999) == (at, "the consumer groups of orders")


@pytest.mark.parametrize("begun", [False, True])
def test_groups_that_were_never_made_hold_nothing(tmp_path: Path, begun: bool) -> None:
    """A process was killed as it made their file: of no size, or with its first page."""
    path = tmp_path / "groups.db"
    with closing(sqlite3.connect(path)) as db:
        if begun:
            db.execute("pragma journal_mode=wal")
    path.touch()
    assert (path.stat().st_size > 0) == begun
    assert [groups.needed(path, tables=tables) for tables in (True, False)] == [{}, {}]
    assert groups.followed(path) == []


def test_a_backup_has_the_groups_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    world = World(tmp_path / "shop", 6, 40)
    groups = world.groups()
    groups.create("g", "orders", max_deliveries=1)
    first, second, third = groups.read("g", "r", 3)
    groups.ack("g", first.id)
    groups.nack("g", second.id, reason="bad")
    backup.alone(world.folder, {"to": str(tmp_path / "copy")}, lambda event: None)
    groups.ack("g", third.id)
    groups.drop_dead("g")
    restore(tmp_path / "copy", tmp_path / "again", lambda event: None)
    restored = Groups(tmp_path / "again", lambda: world.now)
    assert [(letter.commit, letter.reason) for letter in restored.dead("g")] == [(second.commit, "bad")]
    assert restored.entries()[0]["frontier"] == third.commit - 1
    world.now += 31_000_000
    left = [delivery.commit for delivery in restored.read("g", "r", 999)]
    assert left == [c for c in world.feed("orders") if c > third.commit]  # the third was delivered as often as may be
    restored.close()
