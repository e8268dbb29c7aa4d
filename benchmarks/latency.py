"""From the moment a transaction's append is acknowledged until its views are published, at a steady rate.

python -m benchmarks.latency [--rate 10000] [--seconds 60] [--transaction 100] [--warm 10] [--window 12]

Another process pushes over HTTP, each transaction at its appointed time: updates of orders, new ones in place of the
oldest, and customers that move, so that the tables keep their size. The view joins the two and aggregates by region.
What happens in the first ``--warm`` seconds does not count. With ``--share 0.5`` the rate is that share of the peak,
which is found first by pushing as fast as is answered while the log may not run ahead of the views.

One JSON line; ``p99_ratio``, ``own_ratio`` and ``memory_ratio`` compare the last window with the first; the latter is
with the pages of log and state that are mapped, which the system takes back when it needs them. The view is held to
DuckDB over the rows that the other process was told were taken, and what that takes is told beside a step; the exit
status is 1 when one is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import headrace
from benchmarks.answers import anew, beside, differing
from benchmarks.bench import Memory, percentiles, report, size_of
from benchmarks.pusher import CLIENTS, Load, client

VIEW = """select c.region, count(*) as orders, sum(o.amount) as revenue
from {orders} o join {customers} c on o.customer = c.id group by c.region"""
TABLES = {
    "orders": {"columns": {"id": "bigint", "customer": "bigint", "amount": "bigint"}, "key": "id"},
    "customers": {"columns": {"id": "bigint", "region": "string"}, "key": "id"},
}
LOOK_S = 0.001  # between two looks at the frontier: how far a figure may be over
PEAK_S = 20.0  # pushing as fast as is answered, of which the second half counts
MAX_BACKLOG = 100_000  # changes that the log may be ahead of the views
POINTS = 30  # of the series: [second, median, 99th percentile]; of ``own_series``: MiB, where there was a look
LATE_S = 60.0  # to publish what is left when the pushing ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=10_000, help="events a second")
    parser.add_argument("--share", type=float, help="of the peak, instead of --rate")
    parser.add_argument("--seconds", type=float, default=60, help="that count")
    parser.add_argument("--transaction", type=int, default=100, help="events of a transaction")
    parser.add_argument("--warm", type=float, default=10, help="seconds before those that count")
    parser.add_argument("--window", type=float, help="seconds of the first and the last window; a fifth by default")
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument(
        "--push", nargs=5, metavar=("URL", "TOKEN", "FOLDER", "RATE", "SECONDS"), help=argparse.SUPPRESS
    )
    chosen = parser.parse_args()
    load = Load(chosen.transaction, chosen.orders, chosen.customers)
    if chosen.push:
        url, token, folder, rate, seconds = chosen.push
        return push(load, url, token, Path(folder), float(rate), float(seconds))
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), load, chosen)


def run(folder: Path, load: Load, chosen: argparse.Namespace) -> int:
    project = folder / "shop"
    make(project)
    with headrace.open(project) as pipeline, Memory() as memory:
        while not pipeline.ingests["load"].ready.wait(0.1):
            pass
        watch = Watch(pipeline)
        pushed, rate, peak = folder / "first", chosen.rate, None
        pushing(pipeline, memory, load, pushed, 0.0, 0.0)
        if chosen.share:
            before, pushed = pushed, folder / "peak"
            began = time.monotonic()
            pushing(pipeline, memory, load, pushed, 0.0, PEAK_S, before)
            peak = watch.commits(began + PEAK_S / 2, began + PEAK_S) * chosen.transaction / (PEAK_S / 2)
            rate = peak * chosen.share
        before, pushed = pushed, folder / "steady"
        pushing(pipeline, memory, load, pushed, rate, chosen.warm + chosen.seconds, before)
        watch.close()
        state = size_of(pipeline.folder / "state")
    figures = latencies(pushed, watch, memory, chosen)
    answer = VIEW.format(**{table: f"'{pushed}/{table}-*.parquet'" for table in TABLES})
    wrong = differing(project, "revenue", f"({answer})")
    figures |= beside(anew(answer), figures["step_ms"])
    report(
        benchmark="latency", asked_per_second=round(rate), peak_per_second=peak and round(peak),
        seconds=chosen.seconds, transaction=chosen.transaction, orders=chosen.orders, customers=chosen.customers,
        **figures, peak_mib=round(memory.peak), state_bytes=state, wrong=wrong,
    )  # fmt: skip
    return 1 if wrong else 0


def make(project: Path) -> None:
    source = {"type": "http", "port": 0, "tables": TABLES, "max_backlog": MAX_BACKLOG}
    files = {
        "headrace.yaml": "name: shop\n", "sources/load.yaml": yaml.safe_dump(source),
        "views/revenue.sql": VIEW.format(orders="orders", customers="customers"),
    }  # fmt: skip
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


class Watch:
    """Notes when each frontier of the views was seen first, and how long each step took."""

    def __init__(self, pipeline: Any) -> None:
        # Numbers alone: the memory of this process is what is measured. Each pair is (monotonic clock, value).
        self._seen, self._took = array("d"), array("d")
        self._frontier = self._steps = 0
        self._pipeline, self._stop = pipeline, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        frontier, latest = self._pipeline.maintainer.frontier, self._pipeline.latest
        if frontier > self._frontier:
            self._frontier = frontier
            self._seen.extend((time.monotonic(), frontier))
        if latest["steps"] > self._steps:
            self._steps = latest["steps"]
            self._took.extend((time.monotonic(), latest["step_seconds"]))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._look()  # the last publication may be newer than the last look

    @property
    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """When each frontier was seen first, and the frontiers."""
        return np.array(self._seen[::2]), np.array(self._seen[1::2])

    @property
    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """When each step was seen to have ended, and its seconds."""
        return np.array(self._took[::2]), np.array(self._took[1::2])

    def commits(self, after: float, until: float) -> int:
        """How many were published in that time."""
        at, commit = self.seen
        found = commit[(after <= at) & (at <= until)]
        return int(found[-1] - found[0]) if len(found) else 0


def pushing(
    pipeline: Any, memory: Memory, load: Load, folder: Path, rate: float, seconds: float, before: Path | None = None
) -> None:
    """Let the other process push, going on from the rows in ``before``; until all is published."""
    folder.mkdir()
    for file in before.glob("*.parquet") if before else ():
        file.rename(folder / file.name)
    url = pipeline.sources["load"].endpoint()["endpoint"]
    token = (pipeline.folder / "tokens/load").read_text().strip()
    size = ["--transaction", load.changes, "--orders", load.orders, "--customers", load.customers]
    command = [sys.executable, "-m", "benchmarks.latency", *size, "--push", url, token, folder, rate, seconds]
    process = subprocess.Popen([str(part) for part in command])
    memory.without.add(process.pid)
    while process.poll() is None:
        if pipeline.error is not None:
            process.terminate()
            raise pipeline.error
        time.sleep(0.1)
    assert process.returncode == 0, "the pushing process failed"
    pipeline.wait_for(pipeline.log.end, LATE_S)


def latencies(folder: Path, watch: Watch, memory: Memory, chosen: argparse.Namespace) -> dict[str, Any]:
    """Figures of the transactions that count, and the two windows."""
    rows = np.concatenate([np.load(folder / f"times-{number}.npy") for number in range(CLIENTS)])
    began = json.loads((folder / "began").read_text()) + chosen.warm
    due, answered, commit = (rows[rows[:, 0] >= began][:, n] for n in range(3))
    at, frontier = watch.seen
    published = at[np.searchsorted(frontier, commit)]
    waited, since = published - answered, due - began
    window = min(chosen.window or chosen.seconds / 5, chosen.seconds)
    windows = dict[str, dict[str, Any]]()
    for name, first in (("first", 0.0), ("last", chosen.seconds - window)):
        inside = waited[(since >= first) & (since < first + window)]
        kinds = memory.mean(began + first, began + first + window)
        windows[name] = {**percentiles(inside), "mib": sum(kinds.values()), "own_mib": own(kinds), "kinds_mib": kinds}
    edges = np.linspace(0, chosen.seconds, POINTS + 1)
    parts = [waited[(since >= first) & (since < last)] for first, last in pairwise(edges)]
    series = [[round(float(last), 1), *percentiles(p).values()] for last, p in zip(edges[1:], parts, strict=True)]
    kept = [own(memory.mean(began + first, began + last)) or None for first, last in pairwise(edges)]
    ended, took = watch.steps
    took = took[began <= ended] * 1000
    return {
        "rate": round(len(commit) * chosen.transaction / (answered.max() - began)), "transactions": len(commit),
        **percentiles(waited), "max_ms": round(float(waited.max()) * 1000, 1),
        "due_p99_ms": percentiles(published - due)["p99_ms"],
        "answer_p99_ms": percentiles(answered - due)["p99_ms"],
        "steps": len(took), "step_ms": round(float(np.median(took)), 1), "window_s": window, "windows": windows,
        "p99_ratio": round(windows["last"]["p99_ms"] / windows["first"]["p99_ms"], 2),
        "own_ratio": round(windows["last"]["own_mib"] / max(1.0, windows["first"]["own_mib"]), 3),
        "memory_ratio": round(windows["last"]["mib"] / max(1.0, windows["first"]["mib"]), 3), "series": series,
        "own_series": kept,
    }  # fmt: skip


def own(kinds: Mapping[str, int]) -> int:
    """What is not mapped of files."""
    return sum(used for kind, used in kinds.items() if not kind.endswith("_mapped"))


def push(load: Load, url: str, token: str, folder: Path, rate: float, seconds: float) -> int:
    """One thread a client; the first to arrive find an empty table and fill it."""
    began = time.monotonic() + 0.5
    (folder / "began").write_text(json.dumps(began))
    failed: list[BaseException] = []

    def one(number: int) -> None:
        try:
            client(load, number, url, token, folder, began, rate, seconds)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=one, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
