"""Rows under some keys, found from the log's end backwards, are those of the whole history.

The judge is the history as plain Python applies it; the log has many segments, and begins with a base or without one.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_retain import SEGMENT, project, removed

from headrace.engine.stored import StoredRows
from headrace.formats.json_tables import rows
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.schema import Relation
from random_log import KEY, ORDERS, RELATIONS, RandomLog, history


def found(log: Path, keys: list[tuple[int, str]], relation: Relation = RELATIONS["orders"]) -> list[list[Any]]:
    """The rows that are found, sorted by their text."""
    columns = [pa.array([key[place] for key in keys], ORDERS.field(name).type) for place, name in enumerate(KEY)]
    with LogWriter(log, segment_bytes=SEGMENT) as writer:
        return sorted(rows(StoredRows(writer, LogReader(log))(relation, pa.table(columns, list(KEY)))), key=repr)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_found_wherever_the_log_tells_of_them(tmp_path: Path, seed: int, strict: bool) -> None:
    draw, made = random.Random(seed), RandomLog(seed, strict)
    log = project(tmp_path) / ".headrace/log"
    every = [(number, part) for number in range(13) for part in "xyz"]
    there = 0
    for turn in range(8):
        made.grow(log, 25, segment_bytes=SEGMENT)
        if turn in (3, 6):
            assert removed(tmp_path, len(made.made) - 10)
        orders = history(made).orders
        for keys in ([draw.choice(every)], draw.sample(every, 5), every):
            expected = sorted((list(orders[key].values()) for key in keys if key in orders), key=repr)
            assert repr(found(log, keys)) == repr(expected), (turn, keys)
            there += len(expected)
    assert there > 50


def test_only_what_is_needed_of_the_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = RandomLog(7)
    log = project(tmp_path) / ".headrace/log"
    made.grow(log, 200, segment_bytes=SEGMENT)
    last = [change for _, changes in made.made for change in changes if change.table == "orders"][-1]
    read = []
    frames = LogReader.frames

    def counted(reader: LogReader, after: int, upto: int) -> Any:
        read.append(upto)
        return frames(reader, after, upto)

    monkeypatch.setattr(LogReader, "frames", counted)
    found(log, [(last.row["id"], last.row["part"])])
    needed = min(read)
    assert needed > 100  # not the older half
    found(log, [(99, "x")])  # never there
    assert min(read) < needed
