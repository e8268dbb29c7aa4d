"""What the engine benchmarks share: views over tables, a log to append to, steps to time, memory to watch."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from headrace.engine.compile import Compiler
from headrace.engine.kept import Kept
from headrace.engine.program import assemble
from headrace.engine.session import open_session
from headrace.engine.step import Stepper
from headrace.log.append import LogWriter
from headrace.model.definition import Settings, ViewDefinition
from headrace.model.schema import Relation
from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin


class Views:
    """Some views maintained by the engine's own steps, without sources and sinks."""

    def __init__(self, folder: Path, tables: Mapping[str, Relation], sql: Mapping[str, str]) -> None:
        self.settings = Settings(driver_memory="1g")
        self.spark = open_session(self.settings)
        compilation = Compiler(self.spark).compile(tables, [ViewDefinition(n, q) for n, q in sql.items()], {})
        assert not compilation.refused, compilation.refused
        self.tables, self.folder = tables, folder
        self.program = assemble(tables, {v.feed: v.root for v in compilation.views.values()})
        self.log = LogWriter(folder / "log")
        self.kept = Kept(folder / "state")
        self.kept.start()
        self.stepper = Stepper(
            self.spark, self.program, folder / "log", self.kept, folder / "state", self.settings.partitions
        )
        self.number = self.frontier = 0

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
        return time.perf_counter() - began

    def close(self) -> None:
        self.kept.close()
        self.log.close()
        self.spark.stop()


class Memory:
    """Peak memory of this process and all it started, in MiB, by proportional set size."""

    def __init__(self, every_s: float = 2.0) -> None:
        self.peak = 0.0
        self._every, self._stop = every_s, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            total = 0
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    full = process.memory_full_info()
                    total += full.pss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, total / (1 << 20))


def processor_seconds() -> float:
    """User and system time of this process and all it started: comparable on a machine that has other work."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def report(**values: Any) -> None:
    """One JSON line a result."""
    load = os.getloadavg()[0]
    sys.stdout.write(json.dumps({**values, "load": round(load, 2)}) + "\n")
    sys.stdout.flush()
