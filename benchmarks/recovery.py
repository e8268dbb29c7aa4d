"""Opening a large log after a kill: seconds until the next transaction can be appended, and what a reader then finds.

python -m benchmarks.recovery [--gib 10] [--folder FOLDER]

A process of its own fills a log in the temporary folder and is killed while a group is half written; the page cache
forgets the files; then the log is opened, appended to and read. Once with transactions of 100,000 rows throughout, once
with a last segment of groups of one small transaction each, the most work that an opening can have. At last a bit
in the middle is turned: opening does not read it, whoever does must be told.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from benchmarks.log import orders, show
from headrace.log.append import SEGMENT_BYTES, LogWriter
from headrace.log.files import Files
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError

TORN_BYTES = 1000  # of the last group, written when the process dies


class Unsynced(Files):
    """For filling alone: what is written survives a kill all the same, not a power cut."""

    def sync(self, fd: int) -> None:
        pass


class Dying(Unsynced):
    """Kills its process in the middle of a write, once ``dying`` is set."""

    dying = False

    def write(self, fd: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        if self.dying:
            super().write(fd, data[:TORN_BYTES], offset)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data, offset)


def fill(folder: Path, size: int, rows: int) -> None:
    """Append transactions of ``rows`` rows until the log holds ``size`` bytes; ends by killing this process."""
    files = Dying()
    with LogWriter(folder, files=files) as writer:
        transaction = orders(rows, 1)
        while used(folder) < size:
            for _ in range(1 + 100_000 // rows // 100):
                writer.append(transaction)
        files.dying = True
        writer.append(transaction)


def killed(folder: Path, size: int, rows: int) -> None:
    filling = get_context("spawn").Process(target=fill, args=(folder, size, rows))
    filling.start()
    filling.join()
    assert filling.exitcode == -signal.SIGKILL, filling.exitcode


def used(folder: Path) -> int:
    """Bytes of the log, without the space reserved at its end."""
    return sum(segment.bytes for segment in LogReader(folder).segments())


def forget(folder: Path) -> None:
    """Write the files out and have the page cache drop them."""
    for file in folder.iterdir():
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def opened(folder: Path, **what: object) -> None:
    """Open, append one transaction, read it back: the seconds of each."""
    busy, began = time.process_time(), time.perf_counter()
    with LogWriter(folder) as writer:
        busy, ready = time.process_time() - busy, time.perf_counter()
        commit = writer.append(orders(5, 1))
        appended = time.perf_counter()
        reader = LogReader(folder)
        rows = sum(b.num_rows for b in reader.read(reader.refs(commit - 1, commit), "orders", commit - 1, commit))
        done = time.perf_counter()
    assert rows == 5
    show(
        name="open", gib=round(used(folder) / (1 << 30), 2), segments=len(reader.segments()), commits=commit, **what,
        seconds=round(ready - began, 3), processor_seconds=round(busy, 3),
        append_seconds=round(appended - ready, 3), read_seconds=round(done - appended, 3),
    )  # fmt: skip


def damaged(folder: Path) -> None:
    """Turn a bit in the middle of the log's rows: open all the same, be told on reading, only there."""
    segments = LogReader(folder).segments()
    middle = segments[len(segments) // 2]
    with (folder / middle.name).open("r+b") as file:
        file.seek(middle.bytes // 2)
        byte = file.read(1)[0]
        file.seek(middle.bytes // 2)
        file.write(bytes([byte ^ 1]))
    opened(folder, damaged=middle.name)
    reader, found = LogReader(folder), 0
    for segment in (middle, segments[-1]):
        try:
            for _ in reader.read(
                reader.refs(segment.first - 1, segment.last), "orders", segment.first - 1, segment.last
            ):
                pass
        except HeadraceError as error:
            assert error.code == "log.corrupt" and segment is middle, error
            found += 1
    show(name="damage", turned=1, found=found)
    assert found == 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=10)
    parser.add_argument("--folder", type=Path, default=None)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as temporary:
        folder = Path(temporary) / "log"
        size = int(chosen.gib * (1 << 30))
        for rows in (100_000, 5):
            killed(folder, size, rows)
            forget(folder)
            for cache in ("cold", "warm"):
                opened(folder, last_segment=f"groups of {rows} rows", cache=cache)
            size = (size // SEGMENT_BYTES + 2) * SEGMENT_BYTES  # one segment on, and most of another
        damaged(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
