"""Which phase of its work a thread is in, and since when: kept only while somebody profiles it.

A thread that is profiled has a ``Recorder``; all others pay one look at a thread's own variable where a phase begins.
Times are nanoseconds of the system's monotonic clock, the same one in every process of a machine.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Span = tuple[str, int, int]  # (phase, from, to)

# On the engine's thread.
DRIVER, PLANNING, CATALOGUE, SPARK = "driver", "planning", "catalogue", "spark"
# In a Python stage of a task.
ARROW, LOG, OPERATORS, PROBE, WRITE = "arrow", "log", "operators", "probe", "write"
# In both.
MERGE, PUBLISH = "merge", "publish"


class Recorder:
    """The phases of one thread, one after the other, without gaps, from when it was made to ``end``.

    ``base``: the phase that it is in when it is in none by name. ``rows``: phase -> rows, as far as it counts any.
    """

    def __init__(self, base: str) -> None:
        self.base = self.phase = base
        self.spans: list[Span] = []
        self.rows: Counter[str] = Counter()
        self.jobs: list[str] = []  # groups of Spark's jobs
        self.stages: list[Stage] = []
        self._since = time.monotonic_ns()

    def turn(self, phase: str) -> None:
        """From now on it is in this phase."""
        now = time.monotonic_ns()
        self.spans.append((self.phase, self._since, now))
        self.phase, self._since = phase, now

    def end(self) -> None:
        self.turn(self.base)


# What one Python stage of a task did: (the task's id, its spans, rows by phase).
Stage = tuple[int, list[Span], dict[str, int]]


class _Here(threading.local):
    recorder: Recorder | None = None


_HERE = _Here()


def recorder() -> Recorder | None:
    """That of this thread; None when nobody profiles it."""
    return _HERE.recorder


@contextmanager
def recording(base: str) -> Iterator[Recorder]:
    """This thread's phases are recorded in here. Not to be nested."""
    made = _HERE.recorder = Recorder(base)
    try:
        yield made
    finally:
        _HERE.recorder = None
        made.end()


@contextmanager
def phase(name: str) -> Iterator[None]:
    """In here the thread is in this phase; within another one it stays in that."""
    known = _HERE.recorder
    if known is None or known.phase != known.base:
        yield
        return
    known.turn(name)
    try:
        yield
    finally:
        known.turn(known.base)


def timed(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose work is this phase."""

    def decorated(work: Callable[P, R]) -> Callable[P, R]:
        @wraps(work)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if _HERE.recorder is None:
                return work(*args, **kwargs)
            with phase(name):
                return work(*args, **kwargs)

        return run

    return decorated


def pulled(name: str, pieces: Iterable[R]) -> Iterable[R]:
    """The same pieces; to wait for each of them is this phase."""
    return pieces if _HERE.recorder is None else _pulled(name, iter(pieces))


def _pulled(name: str, pieces: Iterator[R]) -> Iterator[R]:
    while True:
        with phase(name):
            try:
                piece = next(pieces)
            except StopIteration:
                return
        yield piece


def passed(rows: int) -> None:
    """So many rows went through the phase that this thread is in."""
    if _HERE.recorder is not None:
        _HERE.recorder.rows[_HERE.recorder.phase] += rows
