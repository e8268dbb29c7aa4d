"""Goal: the last commit by a time, and the newest transactions of a table, are found in a long log at the cost of a few.

Method: random logs of many small segments whose commit times do not rise evenly, questions between appends; oracle: all
origins in plain Python. Work is counted in frames that are looked at.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.model.transaction import UPSERT, TransactionBatch, TransactionOrigin
from headrace.serve import history, newest
from headrace.serve.replay import commit_at

SEGMENT_BYTES = 4_096


class Logged:
    """A project's log, with the time and the table of each commit."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.writer = LogWriter(folder / ".headrace/log", segment_bytes=SEGMENT_BYTES)
        self.times, self.tables = list[int](), list[str]()

    def append(self, table: str | None = None) -> None:
        time_us = 1_000 * len(self.times) + self.rng.randrange(-20_000, 20_000)
        table = table or self.rng.choice(["orders", "orders", "clicks"])
        rows = pa.table(
            {
                "_t": pa.array([0], pa.int32()),
                "_op": pa.array([UPSERT], pa.int8()),
                "id": [len(self.times)],
                "text": ["x" * 100],
            }
        )
        self.writer.append(TransactionBatch((TransactionOrigin("shop", "1", time_us),), {table: rows}))
        self.times.append(time_us)
        self.tables.append(table)

    def by(self, time_us: int) -> int:
        return max((n for n, at in enumerate(self.times, 1) if at <= time_us), default=0)


@pytest.mark.parametrize("seed", range(3))
def test_the_last_commit_by_a_time_is_the_one_that_the_origins_say(tmp_path: Path, seed: int) -> None:
    logged = Logged(tmp_path, seed)
    reader = LogReader(tmp_path / ".headrace/log")
    assert commit_at(reader, 0) == 0
    for _ in range(10):
        for _ in range(40):
            logged.append()
        last = max(logged.times)
        for time_us in [min(logged.times) - 1, last, last + 1, *(logged.rng.randrange(last) for _ in range(20))]:
            assert commit_at(reader, time_us) == logged.by(time_us), time_us
    logged.writer.close()


@pytest.mark.parametrize("seed", range(3))
def test_the_newest_transactions_of_a_table_are_those_of_the_whole_log(tmp_path: Path, seed: int) -> None:
    logged = Logged(tmp_path, seed)
    for _ in range(5):
        for _ in range(60):
            logged.append()
        commits = [n for n, table in enumerate(logged.tables, 1) if table == "clicks"]
        end = len(logged.tables)
        for after, before in [(0, None), (0, end // 2), (end // 3, None), (end // 3, end - 5), (end, None)]:
            wanted = [n for n in commits if n > after and (before is None or n < before)]
            for limit in (1, 7, 1_000):
                told = newest.of_table(tmp_path, "clicks", after, before, limit)
                assert [each["commit"] for each in told] == wanted[::-1][:limit], (after, before, limit)
    logged.writer.close()


def test_what_is_known_of_a_segment_is_not_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = Logged(tmp_path, 1)
    logged.append("rare")
    for _ in range(400):
        logged.append("orders")
    reader, frames, looked = history.reader_of(tmp_path), LogReader.frames, list[int]()

    def counted(reader: LogReader, after: int, upto: int) -> object:
        for found in frames(reader, after, upto):
            looked.append(found[0].first)
            yield found

    monkeypatch.setattr(LogReader, "frames", counted)
    assert commit_at(reader, -30_000) == 0  # all of it, once
    assert len(looked) == 401
    looked.clear()
    assert commit_at(reader, max(logged.times)) == logged.by(max(logged.times))
    assert commit_at(reader, 200_000) == logged.by(200_000)
    assert [each["commit"] for each in newest.of_table(tmp_path, "rare", 0, None, 50)] == [1]
    assert len(looked) < 200, "segments that cannot have the answer are looked through"
    logged.writer.close()


def test_a_walk_through_a_log_has_an_end_in_time(tmp_path: Path) -> None:
    logged = Logged(tmp_path, 2)
    for _ in range(100):
        logged.append()
    with pytest.raises(HeadraceError, match="more than 0 seconds") as caught:
        commit_at(history.reader_of(tmp_path), 0, Deadline.after(0))
    assert caught.value.code == "query.timeout"
    logged.writer.close()
