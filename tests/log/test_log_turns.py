"""Goal: writers that come back at once share a sync, and nobody waits for those that do not come.

Method: threads over a disk whose sync takes a while, counted; and the policy alone, told of groups.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa

from headrace.log.append import LogWriter
from headrace.log.files import Files
from headrace.log.turns import Turns
from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin

SYNC_S, WRITERS, EACH = 0.15, 12, 15
CHANGE = pa.table({ORDINAL: pa.array([0], pa.int32()), OPERATION: pa.array([0], pa.int8()), "id": pa.array([1])})
BATCH = TransactionBatch((TransactionOrigin("s", "", 0),), {"t": CHANGE})


class SlowDisk(Files):
    syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        time.sleep(SYNC_S)
        super().sync(fd)


def test_writers_that_come_back_share_a_sync(tmp_path: Path) -> None:
    disk = SlowDisk()
    commits: list[int] = []
    with LogWriter(tmp_path / "log", files=disk) as writer:
        before = disk.syncs

        def write() -> None:
            for _ in range(EACH):
                commits.append(writer.append(BATCH))

        threads = [threading.Thread(target=write) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        syncs = disk.syncs - before
    assert sorted(commits) == list(range(1, WRITERS * EACH + 1))
    assert syncs < 1.6 * EACH, "two halves that take turns need 2 syncs a round"


def test_a_writer_alone_never_waits() -> None:
    turns = Turns()
    for _ in range(5):
        turns.done(1, 0, 0.5)
        assert turns.wanted(1) == (1, 0.0)


def test_all_are_waited_for_no_longer_than_a_group_took() -> None:
    turns = Turns()
    turns.done(30, 34, 0.25)
    assert turns.wanted(34) == (64, 0.25)
    assert turns.wanted(64) == (64, 0.0)


def test_those_who_do_not_come_are_waited_for_ever_less_often() -> None:
    turns, waits = Turns(), 0
    for _ in range(1000):
        turns.done(1, 1, 0.1)
        wanted, _ = turns.wanted(1)
        if wanted > 1:
            waits += 1
            turns.came(all_of_them=False)
    assert 15 <= waits <= 25
    turns.came(all_of_them=True)
    turns.done(1, 1, 0.1)
    assert turns.wanted(1) == (2, 0.1)
