"""Goal: whatever is compacted and forgotten, a sink that was away gets all that it lacks, and what a view held at its
commit is known.

Method: random feeds written here as the engine writes them, with sinks that stop and come back; judged by a model.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.engine.deliver import Deliver
from headrace.engine.forget import RETAINED_STEPS, forget
from headrace.log.read import LogReader
from headrace.model.delivery import NOWHERE, Delivery
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.serve import snapshot
from headrace.sinks.base import Sink
from headrace.state.run import write_run

RECORD = ViewRecord(ViewSchema("v", 1, (Column("x", "bigint"),)), "SELECT 1", "f", "live", "", 1)


class Idle(Sink):
    """A store that is never reached: only what it would be sent counts here."""

    name = "away"

    def open(self, end: int | None = None) -> int | None:
        raise AssertionError

    def held(self) -> dict[str, int]:
        raise AssertionError

    def write(self, delivery: Delivery) -> None:
        raise AssertionError

    def close(self) -> None: ...


class Feed:
    """One view, moved a step at a time; three commits a step."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng, self.number = folder, random.Random(seed), 0
        self.catalog = Catalog(folder / "catalog.db")
        self.catalog.put_view(RECORD)
        self.held: list[Counter[int]] = [Counter()]  # by step

    def step(self) -> None:
        self.number += 1
        now = self.held[-1].copy()
        change: Counter[int] = Counter()
        for _ in range(self.rng.randrange(3)):
            x = self.rng.choice([*now, self.rng.randrange(50)])
            by = -1 if now[x] and self.rng.random() < 0.5 else 1
            now[x] += by
            change[x] += by
        self.held.append(+now)
        outputs = [self.file(f"{self.number}", change)] if any(change.values()) else []
        self.catalog.record_step(self.number, 3 * self.number - 3, 3 * self.number, StepShape(), 0)
        self.catalog.publish(self.number, outputs, 1)

    def file(self, name: str, rows: Counter[int]) -> Output:
        path = self.folder / f"{name}.arrow"
        rows = Counter({x: w for x, w in rows.items() if w})
        write_run(path, pa.table({"c0": pa.array(list(rows), pa.int64()), "_w": pa.array(rows.values(), pa.int64())}))
        return Output(self.number, RECORD.feed, str(path), len(rows), "")

    def compact(self) -> None:
        base = self.file(f"base-{self.number}", self.held[-1])
        self.catalog.put_base(RECORD.feed, self.number, 3 * self.number, [base.path], base.rows)


def rows(table: pa.Table) -> Counter[int]:
    return Counter(dict(zip(table["x"].to_pylist(), table["_w"].to_pylist(), strict=True)))


@pytest.mark.parametrize("seed", range(4))
def test_a_sink_that_was_away_for_long_lacks_nothing(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    feed, rng = Feed(tmp_path, seed), random.Random(seed)
    at = {"away": 0, "slow": 0, "quick": 0}
    for _ in range(RETAINED_STEPS + 200):
        feed.step()
        at["quick"] = feed.number
        if rng.random() < 0.02:
            at["slow"] = rng.randrange(at["slow"], feed.number)
        if feed.number == 9:
            at["away"] = 9
        for name, step in at.items():
            feed.catalog.put_sink(name, 3 * step, "", 0)
        if rng.random() < 0.03:
            feed.compact()
        if rng.random() < 0.05:
            files = forget(feed.catalog, feed.number, feed.number, 3 * feed.number, {RECORD.feed}, {})
            for path in tmp_path.glob("*.arrow"):
                if str(path) not in files:
                    path.unlink()
    log = LogReader(tmp_path / "log")
    log.origins = lambda after, upto: iter([(upto, NOWHERE)])  # type: ignore[method-assign]
    for name, step in at.items():
        found = snapshot.added(RECORD, snapshot.as_of(feed.catalog, RECORD, 3 * step))
        assert rows(found) == feed.held[step], name
        deliver = Deliver(Idle(), None, feed.catalog, log, lambda event: None)
        deliver.frontier, now = 3 * step, feed.held[step].copy()
        while (delivery := deliver.next({"v": 1})) is not None:
            assert not delivery.replacements
            for delta in delivery.deltas.values():
                now.update(rows(delta))
            deliver.frontier = delivery.commit
        assert Counter({x: w for x, w in now.items() if w}) == feed.held[-1], name


def test_contents_at_a_commit_that_nobody_needs_are_an_error_once_they_are_forgotten(tmp_path: Path) -> None:
    feed = Feed(tmp_path, 1)
    for _ in range(RETAINED_STEPS + 20):
        feed.step()
    feed.compact()
    forget(feed.catalog, feed.number, feed.number, 3 * feed.number, {RECORD.feed}, {})
    kept = feed.number - RETAINED_STEPS
    assert rows(snapshot.added(RECORD, snapshot.as_of(feed.catalog, RECORD, 3 * kept))) == feed.held[kept]
    with pytest.raises(HeadraceError) as caught:
        snapshot.as_of(feed.catalog, RECORD, 3 * (kept - 2))
    assert caught.value.code == "state.missing"


def test_the_steps_that_a_start_runs_again_stay(tmp_path: Path) -> None:
    feed = Feed(tmp_path, 1)
    for _ in range(RETAINED_STEPS + 20):
        feed.step()
    feed.compact()
    forget(feed.catalog, feed.number, 3, 3 * feed.number, {RECORD.feed}, {})
    assert [step.number for step in feed.catalog.steps(3)] == list(range(4, feed.number + 1))


def test_a_view_that_is_gone_is_forgotten_whole(tmp_path: Path) -> None:
    feed = Feed(tmp_path, 1)
    for _ in range(20):
        feed.step()
    feed.compact()
    assert forget(feed.catalog, feed.number, feed.number, 3 * feed.number, set(), {}) == set()
    assert feed.catalog.base(RECORD.feed) is None
    assert feed.catalog.outputs(-1, feed.number, RECORD.feed) == []
