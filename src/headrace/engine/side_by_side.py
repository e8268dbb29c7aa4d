"""Work of first contents that waits for no other: begun before its turn, some of it at once, and had in its turn.

A first step is one task of Spark's in one Python worker, as dealing rows out by key costs more than it gains: so the
machine's other cores are for other tables and views.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from headrace.circuit.prepare import in_session

T = TypeVar("T")


class SideBySide:
    """Up to ``threads`` works at once. Leaving it waits for those that run; what did not begin never does."""

    def __init__(self, spark: SparkSession, threads: int) -> None:
        self.seconds: dict[str, float] = {}  # what the last run of each took
        self._begun: dict[str, Future[Any]] = {}
        self._pool = None
        if threads > 1:
            self._pool = ThreadPoolExecutor(threads, "headrace-first", initializer=in_session, initargs=(spark,))

    def begin(self, name: str, work: Callable[[], Any]) -> None:
        """``work`` may run from now on. It must not touch what the engine's thread writes meanwhile."""
        if self._pool is not None:
            self._begun[name] = self._pool.submit(self._timed, name, work)

    def had(self, name: str, work: Callable[[], T]) -> Callable[[], T]:
        """``work`` as the engine's thread calls it in its turn: the first call gives, or throws, what was begun."""

        def run() -> T:
            begun = self._begun.pop(name, None)
            if begun is None:
                return self._timed(name, work)
            result: T = begun.result()
            return result

        return run

    def _timed(self, name: str, work: Callable[[], T]) -> T:
        started = time.monotonic()
        try:
            return work()
        finally:
            self.seconds[name] = time.monotonic() - started

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
