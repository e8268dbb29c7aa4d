"""What the engine benchmarks share: views over tables, a log to append to, steps to time, memory to watch."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
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
from headrace.serve import snapshot


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
    """Memory of this process and all it started, in MiB, by proportional set size.

    ``samples``: (seconds of the monotonic clock, MiB) of every look; ``kinds``: of every look what the driver, the JVM
    and the workers have, each its own memory and what it maps of files; ``without``: processes that do not count.
    """

    def __init__(self, every_s: float = 2.0) -> None:
        self.peak = 0.0
        self.samples: list[tuple[float, float]] = []
        self.kinds: list[Counter[str]] = []
        self.without: set[int] = set()
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
        me = psutil.Process()
        while not self._stop.wait(self._every):
            kinds: Counter[str] = Counter()
            for process in [me, *me.children(recursive=True)]:
                try:
                    if process.pid not in self.without:
                        kind = "driver" if process == me else "jvm" if process.name() == "java" else "workers"
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


def differing(project: Path, view: str, answer: str) -> int:
    """How many rows of a project's view are missing or too many; ``answer``: what DuckDB selects the right ones from.

    Values are compared by their texts, times in UTC.
    """
    _, schema, held = snapshot.contents(project, view)
    names = ", ".join(f'CAST("{column}" AS VARCHAR)' for column in schema.names)
    both = f"SELECT {names}, _w AS w FROM held UNION ALL SELECT {names}, -1 FROM {answer}"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        connection.register("held", held)
        found = connection.execute(
            f"SELECT coalesce(sum(abs(w)), 0) FROM (SELECT sum(w) AS w FROM ({both}) GROUP BY ALL)"
        ).fetchone()
    assert found is not None
    return int(found[0])


def report(**values: Any) -> None:
    """One JSON line a result."""
    load = os.getloadavg()[0]
    sys.stdout.write(json.dumps({**values, "load": round(load, 2)}) + "\n")
    sys.stdout.flush()
