"""The log alone: transactions a second by concurrent submitters, rows a second in and out. Prints JSON lines.

    python benchmarks/log.py [--seconds 3] [--rounds 1] [--rows 3000000] [--folder FOLDER]

``--folder`` lies on the disk to be measured; a temporary folder there is used and removed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.log.append import LogWriter
from headrace.log.files import Files
from headrace.log.read import LogReader
from headrace.model.transaction import TransactionBatch, TransactionOrigin

ROWS = 5  # of a small transaction


class CountingFiles(Files):
    """The real file system; counts the syncs."""

    syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


def orders(rows: int, transactions: int) -> TransactionBatch:
    """``rows`` changes of a table of six columns, evenly over ``transactions``."""
    numbers = np.arange(rows)
    table = pa.table(
        {
            "_t": pa.array((numbers * transactions // rows).astype(np.int32)),
            "_op": pa.array(np.zeros(rows, np.int8)),
            "id": pa.array(numbers),
            "customer": pa.array(numbers % 1000),
            "amount": pa.array(numbers * 1.5),
            "at": pa.array(numbers * 1000, pa.timestamp("us", tz="UTC")),
            "state": pa.array(np.array(["new", "paid", "sent", "closed"])[numbers % 4]),
            "note": pa.array([f"order {n}" for n in range(rows)]),
        }
    )
    origins = tuple(TransactionOrigin("shop", f"0/{n:X}", n) for n in range(transactions))
    return TransactionBatch(origins, {"orders": table})


def show(**figures: object) -> None:
    """One JSON line a result, with the load of the machine meanwhile."""
    print(json.dumps({**figures, "load": round(os.getloadavg()[0], 1)}), flush=True)


def submitters(folder: Path, threads: int, seconds: float) -> None:
    """Every thread appends one transaction of five rows at a time and waits until it is durable."""
    files = CountingFiles()
    batch = orders(ROWS, 1)
    latencies: list[float] = []
    with LogWriter(folder, files=files) as writer:
        before, busy, begin = files.syncs, time.process_time(), time.perf_counter()
        stop = begin + seconds

        def run() -> None:
            at = time.perf_counter()
            while at < stop:
                writer.append(batch)
                now = time.perf_counter()
                latencies.append(now - at)
                at = now

        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        took, busy = time.perf_counter() - begin, time.process_time() - busy
        end, syncs = writer.end, files.syncs - before
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000
    show(
        name="append_small",
        submitters=threads,
        transactions_per_s=round(end / took),
        transactions_per_sync=round(end / syncs, 1),
        processor_us=round(busy / end * 1e6, 1),
        p50_ms=round(p50, 2),
        p99_ms=round(p99, 2),
    )
    reader = LogReader(folder)
    begin = time.perf_counter()
    refs = reader.refs(0, end)
    middle = time.perf_counter()
    rows = sum(b.num_rows for b in reader.read(refs, "orders", 0, end))
    done = time.perf_counter()
    assert rows == ROWS * end
    show(
        name="read_small",
        submitters=threads,
        frames=len(refs),
        refs_per_s=round(len(refs) / (middle - begin)),
        frames_per_s=round(len(refs) / (done - middle)),
        rows_per_s=round(rows / (done - middle)),
    )


def bulk(folder: Path, rows: int, batch_rows: int) -> None:
    """Batches of ``batch_rows`` rows, each durable before the next; then read back whole, twice."""
    batch = orders(batch_rows, 100)
    count = max(1, rows // batch_rows)
    held = forget_peak()
    with LogWriter(folder) as writer:
        begin = time.perf_counter()
        for _ in range(count):
            writer.append(batch)
        took = time.perf_counter() - begin
        end = writer.end
    size = sum(file.stat().st_size for file in folder.iterdir())
    show(
        name="append_bulk",
        batch_rows=batch_rows,
        rows_per_s=round(count * batch_rows / took),
        mb_per_s=round(size / took / 1e6),
        mb=round(size / 1e6),
        extra_peak_mb=round((resident("VmHWM") - held) / 1e6),
    )
    for _ in range(2):
        reader = LogReader(folder)
        begin = time.perf_counter()
        total = sum(b.num_rows for b in reader.read(reader.refs(0, end), "orders", 0, end))
        took = time.perf_counter() - begin
        assert total == count * batch_rows
    show(name="read_bulk", batch_rows=batch_rows, rows_per_s=round(total / took), mb_per_s=round(size / took / 1e6))
    begin = time.perf_counter()
    LogWriter(folder).close()
    show(name="open", mb=round(size / 1e6), seconds=round(time.perf_counter() - begin, 3))


def resident(line: str) -> int:
    """Bytes of memory of this process: ``VmRSS`` now, ``VmHWM`` at the most."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index(line + ":") + 1]) * 1024


def forget_peak() -> int:
    """Let the peak of memory begin anew; returns what is in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def disk(folder: Path) -> None:
    """What one write of 1.5 kB with fdatasync takes here: the floor under everything else."""
    fd = os.open(folder / "floor", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 16 << 20)
    os.fdatasync(fd)
    begin = time.perf_counter()
    for n in range(500):
        os.pwrite(fd, bytes(1500), n * 1536)
        os.fdatasync(fd)
    show(name="disk", fdatasync_ms=round((time.perf_counter() - begin) * 2, 3), cores=os.cpu_count())
    os.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=1, help="where other work disturbs: the best of several")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as temporary:
        folder = Path(temporary)
        disk(folder)
        for threads in (1, 8, 64):
            for turn in range(chosen.rounds):
                submitters(folder / f"small {threads} {turn}", threads, chosen.seconds)
        for batch_rows in (100_000, 1_000_000):
            bulk(folder / f"bulk {batch_rows}", chosen.rows, batch_rows)


if __name__ == "__main__":
    main()
