"""Goal: whoever follows the log keeps little of it in memory, and what is read once more is the same.

Method: the kernel's own count of the pages of segments that this process has mapped (Linux: /proc/self/smaps).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin

ROWS, FRAMES, MIB = 40_000, 48, 1 << 20


def batch(number: int) -> TransactionBatch:
    control = {ORDINAL: pa.array(np.zeros(ROWS, np.int32)), OPERATION: pa.array(np.zeros(ROWS, np.int8))}
    table = pa.table({**control, "id": pa.array(np.arange(ROWS) + number * ROWS)})
    return TransactionBatch((TransactionOrigin("s", str(number), 0),), {"t": table})


def resident(folder: Path) -> int:
    """Bytes of the log's segments that count as this process's memory."""
    found, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            counts = line.endswith(".segment") and str(folder) in line
        elif counts and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found


def read(reader: LogReader, after: int, upto: int) -> list[int]:
    ids = [part["id"].to_numpy() for part in reader.read(reader.refs(after, upto), "t", after, upto)]
    return [int(np.concatenate(ids).sum()), sum(map(len, ids))]


def test_who_follows_the_log_keeps_little_of_it(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", segment_bytes=16 * MIB) as writer:
        for number in range(FRAMES):
            writer.append(batch(number))
    size = sum(file.stat().st_size for file in (tmp_path / "log").glob("*.segment"))
    assert size > 24 * MIB
    expected = [[sum(range(n * ROWS, (n + 1) * ROWS)), ROWS] for n in range(FRAMES)]
    reader, most = LogReader(tmp_path / "log"), 0
    for number in range(FRAMES):
        assert read(reader, number, number + 1) == expected[number]
        most = max(most, resident(tmp_path))
    assert most < size / 2, "a segment's pages are let go of behind the reader"
    held = next(iter(reader.read(reader.refs(0, 1), "t", 0, 1)))  # a view of pages that are let go of meanwhile
    assert read(reader, 0, FRAMES) == [sum(total for total, _ in expected), ROWS * FRAMES]
    assert held["id"].to_pylist() == list(range(ROWS))
