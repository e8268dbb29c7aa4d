"""SIGKILL of a real writer, again and again: every acknowledged commit is there, once, whole, in its place."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.log.append import LogWriter
from headrace.log.read import LogReader

KILLS = int(os.environ.get("HEADRACE_LOG_KILLS", "20"))

WRITER = """
import os, sys, threading
from pathlib import Path
import pyarrow as pa
from headrace.log.append import LogWriter
from headrace.model.transaction import TransactionBatch, TransactionOrigin

writer, run = LogWriter(Path(sys.argv[1]), segment_bytes=65536), int(sys.argv[2])

def work(thread):
    for n in range(1_000_000):
        count = 1 + n % 3
        first = (run * 10 + thread) * 1_000_000 + 3 * n
        table = pa.table({
            "_t": pa.array([t for t in range(count) for _ in range(5)], pa.int32()),
            "_op": pa.array([0] * (5 * count), pa.int8()),
            "id": pa.array([first + t for t in range(count) for _ in range(5)], pa.int64()),
        })
        origins = tuple(TransactionOrigin(f"thread {thread}", str(first + t), 0) for t in range(count))
        commit = writer.append(TransactionBatch(origins, {"orders": table}))
        os.write(1, b"%d %d %d\\n" % (commit, first, count))

for thread in range(4):
    threading.Thread(target=work, args=(thread,)).start()
"""


def test_kills(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    generator = random.Random(20)
    acknowledged: dict[int, int] = {}
    for run in range(KILLS):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(60)]
            time.sleep(generator.random() * 0.15)
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.read().splitlines()
        assert lines[0] and process.returncode == -signal.SIGKILL
        for line in lines:
            commit, first, count = map(int, line.split())
            for n in range(count):
                assert commit + n not in acknowledged
                acknowledged[commit + n] = first + n
        reader = LogReader(tmp_path)  # before recovery: what was acknowledged is there at once
        assert reader.end >= max(acknowledged)
        with LogWriter(tmp_path, segment_bytes=65536) as writer:
            end = writer.end
        found: dict[int, list[int]] = {}
        for batch in reader.read(reader.refs(0, end), "orders", 0, end):
            for commit, number in zip(batch["_c"].to_pylist(), batch["id"].to_pylist(), strict=True):
                found.setdefault(commit, []).append(number)
        assert sorted(found) == list(range(1, end + 1))
        assert all(len(numbers) == 5 and len(set(numbers)) == 1 for numbers in found.values())
        assert len({numbers[0] for numbers in found.values()}) == end
        assert {commit: found[commit][0] for commit in acknowledged} == acknowledged
    assert reader.verify().end == end
    assert len(acknowledged) > 100 * KILLS
    detail = f"{len(acknowledged):,} transactions acknowledged"
    what = {"what": "kills of a writer of the log", "tried": KILLS, "detail": detail}
    request.node.user_properties.append(("proof", what))
