"""Circuits that have ended Spark's process: known by name after the next start, and not run again.

What ends it (memory that is not there, code of a user, a row over which an expression never comes back) would end it at
every start, as a recorded step is run again. So after such an end a step runs its circuits one by one; one that ends
Spark's process twice while it runs alone fails from then on, as SQL does that throws, and the others go on.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.engine.lost import end_spark, lost_spark
from headrace.model.errors import HeadraceError

TIMES = 2
ENDED = "Spark's process ended"  # what is said of one begins so
LOOK_S = 1.0
LOOKED_AT_S = 5.0  # a job that takes longer is looked at more closely
PATTERN_S = 30.0


class Deadly:
    """Kept in the file ``deadly.json`` of a project's state. Used by any thread.

    ``careful``: Spark has ended, and steps that run again run their circuits one by one.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        """``seconds``: how long a step over few rows may take; 0: as long as it does."""
        self.path, self.seconds = folder / "deadly.json", seconds
        self.times: dict[str, int] = {}  # circuit -> how often Spark has ended while it ran alone
        self.together: set[str] = set()  # ran when Spark ended, and not alone: they run one after the other
        self.careful = False
        with suppress(OSError, ValueError):
            kept = json.loads(self.path.read_text())
            self.times, self.together, self.careful = kept["times"], set(kept["together"]), kept["careful"]
        self._running: set[str] = set()
        self._in_turn, self._lock = threading.Lock(), threading.Lock()
        self._watch = _Watch()

    def known(self, circuit: str, *, published: bool = False) -> bool:
        """``published``: in a step that was published before, which it has outlived once."""
        return self.times.get(_named(circuit, published), 0) >= TIMES

    def error(self) -> HeadraceError:
        return HeadraceError(
            "spark.lost", f"{ENDED} while this view was computed",
            why="it asks for more memory than there is, comes back from a row too late, or runs code that ends it",
        )  # fmt: skip

    @contextmanager
    def alone(self, spark: SparkSession, circuit: str, *, published: bool = False) -> Iterator[None]:
        """Inside the job of one circuit runs. If Spark's process ends and no other was running, it was that one."""
        circuit = _named(circuit, published)
        with self._in_turn if circuit in self.together else nullcontext():
            if gone := lost_spark(spark):
                raise gone
            with self._lock:
                self._running.add(circuit)
            try:
                yield
            except HeadraceError as error:
                if error.code == "spark.lost":
                    self._ended()
                raise
            finally:
                with self._lock:
                    self._running.discard(circuit)

    def _ended(self) -> None:
        with self._lock:
            if len(self._running) == 1:
                (circuit,) = self._running
                self.times[circuit] = TIMES if self._watch.has_ended else self.times.get(circuit, 0) + 1
            else:
                self.together |= self._running
        self.ended()

    def ended(self) -> None:
        """Spark's process has ended in a step: the next start is careful."""
        self.careful = True
        self._save()

    def recovered(self) -> None:
        """The steps that ran again are done."""
        if self.careful:
            self.careful = False
            self._save()

    @contextmanager
    def in_time(self, spark: SparkSession, *, wide: bool) -> Iterator[None]:
        """Inside Spark runs a job of a step; over few rows it ends Spark's process once the time of one is over."""
        if wide or not self.seconds:
            yield
            return
        with self._watch.over(spark, self.seconds):
            yield

    def forget(self, circuits: Iterable[str]) -> None:
        """They may run again."""
        known = self.times.keys() & {_named(c, published) for c in circuits for published in (False, True)}
        for circuit in known:
            del self.times[circuit]
        if known:
            self._save()

    def _save(self) -> None:
        with self._lock:
            kept = {"times": self.times, "together": sorted(self.together), "careful": self.careful}
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(kept))
            new.replace(self.path)


def _named(circuit: str, published: bool) -> str:
    return f"{circuit}, again" if published else circuit


class _Watch:
    """One thread, from the first job on, that looks whether one takes too long."""

    def __init__(self) -> None:
        self.has_ended = False
        self._job: tuple[SparkSession, float, float] | None = None
        self._thread: threading.Thread | None = None
        self._since: dict[str, float] = {}  # task -> from when on it was within a regular expression at each look

    @contextmanager
    def over(self, spark: SparkSession, seconds: float) -> Iterator[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="headrace-watch", daemon=True)
            self._thread.start()
        self._job = (spark, seconds, time.monotonic())
        try:
            yield
        finally:
            self._job = None

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_S)
            job = self._job
            if job is None:
                continue
            spark, seconds, began = job
            took = time.monotonic() - began
            if took > seconds:
                self._end(
                    spark, f"a step over few rows took more than {seconds:g} seconds (step_seconds in headrace.yaml)"
                )
            elif took > LOOKED_AT_S and self._in_one_pattern(spark):
                self._end(spark, f"a regular expression did not come back from a row within {PATTERN_S:g} seconds")

    def _end(self, spark: SparkSession, why: str) -> None:
        if lost_spark(spark) is None:
            self.has_ended = True
            end_spark(spark, why)

    def _in_one_pattern(self, spark: SparkSession) -> bool:
        """Whether a task was within a regular expression at each look for too long, though it has few rows."""
        with suppress(Py4JError, OSError):  # Spark has ended
            now = time.monotonic()
            self._since = {task: self._since.get(task, now) for task in in_patterns(spark)}
            return any(now - since > PATTERN_S for since in self._since.values())
        return False


def in_patterns(spark: SparkSession) -> list[str]:
    """The tasks of Spark that are within a regular expression now, by the names of their threads."""
    jvm: Any = spark.sparkContext._jvm
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean().dumpAllThreads(False, False)
    found = []
    for thread in threads:
        name = str(thread.getThreadName())
        if name.startswith("Executor task launch worker for task"):
            frames = thread.getStackTrace()
            if len(frames) and str(frames[0].getClassName()).startswith("java.util.regex."):
                found.append(name)
    return found
