"""What the engine benchmarks share: views over tables, a log to append to, steps to time, memory to watch."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.answers import apart, comparing
from headrace.engine.compile import Compiler
from headrace.engine.kept import Kept
from headrace.engine.program import assemble
from headrace.engine.session import open_session
from headrace.engine.step import Stepper
from headrace.log.append import LogWriter
from headrace.model.definition import Settings, ViewDefinition
from headrace.model.delivery import WEIGHT
from headrace.model.schema import Relation
from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin
from headrace.state.run import open_run

OFTEN_S = 0.5  # between two looks at the memory of a run of seconds
LOOKING = 0.05  # of a processor, at most, goes into looking


class Views:
    """Some views maintained by the engine's own steps, without sources and sinks."""

    def __init__(self, folder: Path, tables: Mapping[str, Relation], sql: Mapping[str, str]) -> None:
        self.settings = Settings(driver_memory="1g")
        self.spark = open_session(self.settings)
        compilation = Compiler(self.spark).compile(tables, [ViewDefinition(n, q) for n, q in sql.items()], {})
        assert not compilation.refused, compilation.refused
        self.tables, self.folder = tables, folder
        self.feeds = {view.feed: view.root for view in compilation.views.values()}
        self.program = assemble(tables, self.feeds)
        self.log = LogWriter(folder / "log")
        self.kept = Kept(folder / "state")
        self.kept.start()
        self.stepper = Stepper(
            self.spark, self.program, folder / "log", self.kept, folder / "state", self.settings.partitions
        )
        self.number = self.frontier = 0
        self.published: list[str] = []

    def append(self, changes: Mapping[str, tuple[pa.Array, list[pa.Array]]]) -> None:
        """One transaction: table -> (operations int8, columns)."""
        made = {}
        for name, (operations, columns) in changes.items():
            ordinals = pa.array([0] * len(operations), pa.int32())
            made[name] = pa.table(
                [ordinals, operations, *columns], names=[ORDINAL, OPERATION, *self.tables[name].names]
            )
        origin = TransactionOrigin("bench", str(self.log.end), time.time_ns() // 1000)
        self.log.append(TransactionBatch((origin,), made))

    def step(self, *, wide: bool = False) -> float:
        """Seconds of one step over all that was appended since the last."""
        self.number += 1
        began = time.perf_counter()
        result = self.stepper.run(self.number, self.frontier, self.log.end, wide=wide)
        self.kept.add(result.runs)
        self.frontier = self.log.end
        took = time.perf_counter() - began
        self.published += [output.path for output in result.outputs if output.feed in self.feeds]
        return took

    def differing(self, answer: str) -> int:
        """How many rows of the only view are missing or too many; ``answer`` as it is to ``differing``."""
        with comparing() as connection:
            columns = connection.sql(f"FROM {answer}").columns
            names = [*(f"c{place}" for place in range(len(columns))), WEIGHT]
            held = pa.concat_tables([open_run(path).select(names) for path in self.published])
            connection.register("held", held.rename_columns([*columns, WEIGHT]))
            return sum(apart(connection, "held", columns, answer))

    def close(self) -> None:
        self.kept.close()
        self.log.close()
        self.spark.stop()


class Memory:
    """Memory of a process and all it started, in MiB, by proportional set size; of this one if none is told.

    ``samples``: (seconds of the monotonic clock, MiB) of every look; ``kinds``: of every look what the driver, the JVM
    and the workers have, each its own memory and what it maps of files; ``without``: processes that do not count. The
    kernel walks all the pages of a process for a look, so looks are rarer where they are long.
    """

    def __init__(self, every_s: float = 2.0, of: psutil.Process | None = None) -> None:
        self.peak = 0.0
        self.samples: list[tuple[float, float]] = []
        self.kinds: list[Counter[str]] = []
        self.without: set[int] = set()
        self._first = of or psutil.Process()
        self._every, self._stop = every_s, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def mean(self, since: float, until: float) -> dict[str, int]:
        """MiB by kind in that time of the monotonic clock."""
        looks = [kinds for (when, _), kinds in zip(self.samples, self.kinds, strict=True) if since <= when < until]
        return {kind: round(value / len(looks)) for kind, value in sorted(sum(looks, Counter()).items())}

    def _watch(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            began = time.thread_time()
            self._look()
            wait = max(self._every, (time.thread_time() - began) / LOOKING)

    def _look(self) -> None:
        kinds: Counter[str] = Counter()
        try:
            processes = [self._first, *self._first.children(recursive=True)]
        except psutil.Error:
            return
        for process in processes:
            try:
                if process.pid not in self.without:
                    kind = "driver" if process == self._first else "jvm" if process.name() == "java" else "workers"
                    kinds.update(_used(kind, process.pid))
            except (psutil.Error, OSError):
                continue
        self.kinds.append(kinds)
        self.samples.append((time.monotonic(), sum(kinds.values())))
        self.peak = max(self.peak, self.samples[-1][1])


def _used(kind: str, pid: int) -> dict[str, float]:
    """MiB of a process: its own memory, and its share of what it maps of files."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {name: int(value.split()[0]) / 1024 for name, value in (line.split(":") for line in lines)}
    return {kind: found["Pss_Anon"], f"{kind}_mapped": found["Pss"] - found["Pss_Anon"]}


def processor_seconds() -> float:
    """User and system time of this process and all it started: comparable on a machine that has other work."""
    return sum(processor_times())


def processor_times() -> tuple[float, float]:
    """The same apart: (in user mode, in the system)."""
    user, system = 0.0, 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        user, system = user + times.user, system + times.system
    return user, system


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def percentiles(seconds: Sequence[float] | np.ndarray, name: str = "") -> dict[str, float]:
    """Median and 99 of 100 of durations, in ms; ``name`` goes before theirs."""
    found = np.percentile(seconds, (50, 99)) * 1000 if len(seconds) else (0.0, 0.0)
    return {f"{name}p{part}_ms": round(float(value), 1) for part, value in zip((50, 99), found, strict=True)}


def report(**values: Any) -> None:
    """One JSON line a result."""
    load = os.getloadavg()[0]
    sys.stdout.write(json.dumps({**values, "load": round(load, 2)}) + "\n")
    sys.stdout.flush()
