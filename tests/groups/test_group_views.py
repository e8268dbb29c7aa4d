"""Goal: a group over a view gets the contents first, then each published step whole, whatever is compacted and forgotten
meanwhile; one that does not hold, and any whose view is edited, gets the contents again, and no group a wrong row.

Method: random feeds written here as the engine writes them; what readers add up is held against what the steps held.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.catalog.groups import FILE, needed
from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.engine.forget import forget
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.model.group import GroupDelivery
from headrace.model.schema import Column, ViewSchema
from headrace.serve import snapshot
from headrace.serve.groups import Groups
from headrace.state.run import write_run

RETAINED_STEPS = 25


@pytest.fixture(autouse=True)
def few_steps_are_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.engine.forget.RETAINED_STEPS", RETAINED_STEPS)


def record(version: int, created: int = 0) -> ViewRecord:
    return ViewRecord(ViewSchema("v", version, (Column("x", "bigint"),)), "SELECT 1", "f", "live", "", created)


class Views:
    """A project with one view, moved a step at a time, three commits a step; each of them an instant with ``each``."""

    def __init__(self, folder: Path, seed: int, *, each: bool = False) -> None:
        self.folder, self.rng, self.number, self.version, self.each = folder, random.Random(seed), 0, 1, each
        self.now = 0
        (folder / "headrace.yaml").write_text("")
        (folder / ".headrace").mkdir()
        LogWriter(folder / ".headrace/log").close()
        self.catalog = Catalog(folder / ".headrace/catalog.db")
        self.catalog.put_view(record(1))
        self.held: dict[int, Counter[int]] = {0: Counter()}  # by commit

    @property
    def end(self) -> int:
        return 3 * self.number

    def step(self) -> None:
        self.number += 1
        changes: list[tuple[int, int, int]] = []
        for instant in (1, 2, 3) if self.each else (3,):
            now = self.held[max(self.held)].copy()
            for _ in range(self.rng.randrange(3)):
                x = self.rng.choice([*now, self.rng.randrange(50)])
                by = -1 if now[x] and self.rng.random() < 0.5 else 1
                now[x] += by
                changes.append((instant, x, by))
            self.held[3 * self.number - 3 + instant] = +now
        outputs = [self.file(f"{self.number}", changes)] if changes else []
        self.catalog.record_step(self.number, self.end - 3, self.end, StepShape(each=self.each), 0)
        self.catalog.publish(self.number, outputs, 1)

    def file(self, name: str, rows: list[tuple[int, int, int]]) -> Output:
        path = self.folder / f"{name}.arrow"
        columns = {name: pa.array([row[n] for row in rows], pa.int64()) for n, name in enumerate(("_i", "c0", "_w"))}
        write_run(path, pa.table(columns))
        return Output(self.number, record(self.version).feed, str(path), len(rows), "")

    def compact(self) -> None:
        base = self.file(f"base-{self.number}-{self.version}", [(0, x, n) for x, n in self.held[self.end].items()])
        self.catalog.put_base(base.feed, self.number, self.end, [base.path], base.rows)

    def edit(self) -> None:
        """A new version, built beside the old one and swapped in by a step of its own."""
        self.version += 1
        self.number += 1
        self.held[self.end] = Counter({x + 1000: n for x, n in self.held[self.end - 3].items()})
        self.catalog.put_view(record(self.version))
        self.catalog.record_step(self.number, self.end - 3, self.end, StepShape(), 0)
        self.compact()
        self.catalog.publish(self.number, [], 1)

    def make_again(self) -> None:
        """Dropped, and made again with other contents, which has the version of the one before."""
        self.catalog.drop_view("v", self.end)
        self.number += 1
        self.held[self.end] = Counter({x + 1000: n for x, n in self.held[self.end - 3].items()})
        self.catalog.record_step(self.number, self.end - 3, self.end, StepShape(), 0)
        self.catalog.put_view(record(self.version, self.end))
        self.compact()
        self.catalog.publish(self.number, [], 1)

    def needed(self) -> dict[str, int] | None:
        return needed(self.folder / ".headrace" / FILE, tables=False)

    def forget(self) -> None:
        live = {record(self.version).feed}
        kept = forget(self.catalog, self.number, self.number, self.end, live, self.needed())
        for file in self.folder.glob("*.arrow"):
            if str(file) not in kept:
                file.unlink()

    def groups(self) -> Groups:
        return Groups(self.folder, lambda: self.now)


class Reader:
    """Adds up what it is given, as its rules say."""

    def __init__(self) -> None:
        self.commit, self.rows, self.snapshots = 0, Counter[int](), 0

    def take(self, delivery: GroupDelivery) -> None:
        assert delivery.commit > self.commit or delivery.snapshot
        if delivery.snapshot:
            self.rows, self.snapshots = Counter(), self.snapshots + 1
        for change in delivery.changes:
            self.rows[change["row"]["x"]] += change["weight"]
        assert min(self.rows.values(), default=0) >= 0
        self.commit = delivery.commit


def drain(groups: Groups, name: str, reader: Reader, views: Views, most: int = 1 << 30) -> None:
    while most and (found := groups.read(name, "r", min(most, 100))):
        for delivery in found:
            reader.take(delivery)
            assert +reader.rows == views.held[delivery.commit], delivery.commit
            most -= 1
        groups.ack(name, *(delivery.id for delivery in found))


@pytest.mark.parametrize("each", [False, True], ids=["grouped", "each"])
@pytest.mark.parametrize("seed", range(2))
def test_readers_that_are_slow_get_every_step_whole(tmp_path: Path, seed: int, each: bool) -> None:
    print(f"seed {seed}")
    views, rng = Views(tmp_path, seed, each=each), random.Random(seed)
    for _ in range(5):
        views.step()
    groups = views.groups()
    readers = {name: Reader() for name in ("quick", "slow", "away", "loose")}
    for name in readers:
        groups.create(name, "V", hold=name != "loose")
    for turn in range(RETAINED_STEPS + 60):
        views.step()
        if rng.random() < 0.05:
            views.compact()
        if rng.random() < 0.05:
            views.forget()
        drain(groups, "quick", readers["quick"], views)
        if rng.random() < 0.1:
            drain(groups, "slow", readers["slow"], views, rng.randrange(8))
        if turn == 3:
            drain(groups, "away", readers["away"], views)
    views.compact()
    views.forget()
    for name, reader in readers.items():
        drain(groups, name, reader, views)
        assert +reader.rows == views.held[views.end]
        assert reader.snapshots == 1, name
    assert views.needed() == {"v": min(groups.group(n).read for n in ("quick", "slow", "away")) + 1}
    for _ in range(RETAINED_STEPS + 10):
        views.step()
    for name in ("quick", "slow", "away"):
        drain(groups, name, readers[name], views)
    views.compact()
    views.forget()
    drain(groups, "loose", readers["loose"], views)
    assert (+readers["loose"].rows, readers["loose"].snapshots) == (views.held[views.end], 2)


def test_an_edited_view_comes_anew_and_the_lease_of_its_old_rows_is_over(tmp_path: Path) -> None:
    views, reader = Views(tmp_path, 1), Reader()
    for _ in range(6):
        views.step()
    groups = views.groups()
    groups.create("g", "v")
    drain(groups, "g", reader, views)
    for _ in range(4):
        views.step()
    before = groups.read("g", "r", 2)
    views.edit()
    views.forget()
    (anew,) = groups.read("g", "r", 2)
    assert (anew.commit, anew.snapshot) == (views.end, True)
    reader.take(anew)
    assert +reader.rows == views.held[views.end]
    assert groups.ack("g", *(delivery.id for delivery in before)) == 0  # the contents stand for them
    assert groups.ack("g", anew.id) == 1
    views.step()
    drain(groups, "g", reader, views)


def test_a_view_that_is_dropped_and_made_again_comes_anew(tmp_path: Path) -> None:
    views, readers = Views(tmp_path, 1), {name: Reader() for name in ("idle", "busy", "first")}
    for _ in range(6):
        views.step()
    groups = views.groups()
    for name in readers:
        groups.create(name, "v")
    groups.read("first", "dead")  # its contents are leased, those of the others taken
    for name in ("idle", "busy"):
        drain(groups, name, readers[name], views)
    for _ in range(4):
        views.step()
    before = groups.read("busy", "dead", 2)
    drain(groups, "idle", readers["idle"], views)
    views.make_again()
    for _ in range(3):
        views.step()
    views.now += 31_000_000
    (contents,) = groups.read("first", "r")
    assert (contents.commit, contents.snapshot) == (views.end, True)
    views.now += 31_000_000
    for name, reader in readers.items():
        drain(groups, name, reader, views)
        assert +reader.rows == views.held[views.end], name
        assert reader.snapshots == (1 if name == "first" else 2), name
    assert groups.ack("busy", *(delivery.id for delivery in before)) == 0


def test_a_delivery_comes_again_as_it_was_also_when_a_base_holds_it(tmp_path: Path) -> None:
    views = Views(tmp_path, 2)
    for _ in range(4):
        views.step()
    groups = views.groups()
    groups.create("g", "v", lease_s=5, max_deliveries=3)
    views.step()

    def changes(delivery: GroupDelivery) -> list[dict[str, Any]]:
        return sorted((dict(change) for change in delivery.changes), key=str)

    first = groups.read("g", "r", 5)
    for _ in range(RETAINED_STEPS + 20):
        views.step()
    views.compact()
    views.forget()
    views.now += 6_000_000
    again = groups.read("g", "r", len(first))
    assert [changes(d) for d in again] == [changes(d) for d in first]
    assert [d.id for d in again] == [f"{d.commit}.2" for d in first]


def test_where_a_group_may_begin(tmp_path: Path) -> None:
    views = Views(tmp_path, 5)
    for _ in range(6):
        views.step()
    groups = views.groups()
    assert groups.create("now", "v", start="now")["read"] == 18
    assert groups.create("later", "v", start=6)["lag"] == 12
    assert all(delivery.commit > 6 for delivery in groups.read("later", "r", 10))
    with pytest.raises(HeadraceError, match="kept from commit 1 to 18") as refused:
        groups.create("beyond", "v", start=19)
    assert refused.value.code == "group.position"
    with pytest.raises(HeadraceError, match=r"source\.no_table"):
        groups.create("other", "w")


def test_a_file_that_cannot_be_read_holds_everything_and_stops_nothing(tmp_path: Path) -> None:
    views = Views(tmp_path, 6)
    for _ in range(4):
        views.step()
    groups = views.groups()
    groups.create("g", "v", start="now")
    groups.close()
    file = tmp_path / ".headrace" / FILE
    file.write_bytes(file.read_bytes()[:100] + b"x" * 4000)
    for _ in range(RETAINED_STEPS + 10):
        views.step()
    views.compact()
    views.forget()
    assert views.needed() is None
    assert len(views.catalog.steps()) == views.number
    with pytest.raises(HeadraceError) as damaged:
        views.groups().read("g")
    assert damaged.value.code == "state.corrupt"
    file.unlink()
    views.forget()
    assert len(views.catalog.steps()) < views.number


def test_watching_from_inside_a_step_that_has_no_later_change(tmp_path: Path) -> None:
    """Of a step with each transaction apart, of which all changes are behind the reader, nothing comes."""
    views = Views(tmp_path, 1, each=True)
    views.number = 1
    views.held |= {3: Counter({7: 1})}
    views.catalog.record_step(1, 0, 3, StepShape(each=True), 0)
    views.catalog.publish(1, [views.file("1", [(1, 7, 1)])], 1)
    views.step()
    stop = threading.Event()
    for commit, delta in snapshot.follow(tmp_path, "v", 2, stop):
        assert commit > 3
        assert delta.num_rows
        stop.set()
        return
    assert views.held[6] == views.held[3]
