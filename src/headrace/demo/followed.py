"""The views as a subscriber sees them: read once, then kept by their changes; and how late a commit was seen."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.model.delivery import WEIGHT
from headrace.model.schema import ViewSchema
from headrace.serve import snapshot

Row = tuple[Any, ...]
RECENT_S = 10.0  # the span of the figures that are shown while it runs


class Followed:
    """One view's rows, kept in a thread by following its feed. A Python loop over rows: for a demo's few hundred."""

    def __init__(self, path: Path, view: str, on_commit: Callable[[int], None]) -> None:
        self.view = view
        self.error: Exception | None = None
        self.changes = 0  # row changes since the beginning
        self.schema: ViewSchema | None = None
        self._path, self._on_commit = path, on_commit
        self._rows: Counter[Row] = Counter()
        self._changed: dict[Row, float] = {}
        self._commit = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follow {view}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def rows(self, fresh_s: float = 0.0) -> tuple[list[Row], set[Row]]:
        """(its rows, copies written out; those of them that came within the last ``fresh_s`` seconds)."""
        since = time.monotonic() - fresh_s
        with self._lock:
            fresh = {row for row, at in self._changed.items() if at >= since and row in self._rows}
            self._changed = {row: at for row, at in self._changed.items() if at >= since}
            return list(self._rows.elements()), fresh

    def contents(self) -> Counter[Row]:
        with self._lock:
            return Counter(self._rows)

    def _run(self) -> None:
        try:
            commit, self.schema, table = snapshot.contents(self._path, self.view)
            self._take(commit, table, first=True)
            for later, delta in snapshot.follow(self._path, self.view, commit, self._stop):
                self._take(later, delta, first=False)
        except Exception as error:
            self.error = error

    def _take(self, commit: int, delta: pa.Table, *, first: bool) -> None:
        assert self.schema is not None
        changes = weighted(delta, self.schema.names)
        with self._lock:
            now = time.monotonic()
            for row, weight in changes.items():
                self._rows[row] += weight
                if not self._rows[row]:
                    del self._rows[row]
                if weight > 0 and not first:
                    self._changed[row] = now
            self.changes += len(changes)
            self._commit = commit
        self._on_commit(commit)


def weighted(table: pa.Table, names: Sequence[str]) -> Counter[Row]:
    """Rows (as tuples in the order of ``names``) with the sum of their weights, none of which is 0."""
    found: Counter[Row] = Counter()
    columns = [table[name].to_pylist() for name in names]
    for row, weight in zip(zip(*columns, strict=True), table[WEIGHT].to_pylist(), strict=True):
        found[row] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


class Latency:
    """From the sending of a push to the first subscriber that was given its commit."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, float]] = deque()  # last commit of a push, sent at
        self._seen: deque[tuple[int, float]] = deque()  # a commit, first seen at; both grow
        self._all: list[float] = []
        self._recent: deque[tuple[float, float]] = deque()
        self._lock = threading.Lock()
        self._highest = 0

    def seen(self, commit: int) -> None:
        """A view that holds ``commit`` was read just now."""
        now = time.monotonic()
        with self._lock:
            if commit > self._highest:
                self._highest = commit
                self._seen.append((commit, now))

    @property
    def commit(self) -> int:
        """The highest commit seen."""
        return self._highest

    def pushed(self, requests: Sequence[tuple[int, float, float]]) -> None:
        """Pushes that were answered: (last commit, sent at, answered at), in order."""
        with self._lock:
            self._waiting.extend((commit, sent) for commit, sent, _ in requests)
            seen = list(self._seen)
            commits = [commit for commit, _ in seen]
            place = 0
            while self._waiting and seen and self._waiting[0][0] <= commits[-1]:
                commit, sent = self._waiting.popleft()
                place = bisect_left(commits, commit, place)
                at = seen[place][1]
                self._all.append(at - sent)
                self._recent.append((at, at - sent))
            for _ in range(place):
                self._seen.popleft()
            while self._recent and self._recent[0][0] < time.monotonic() - RECENT_S:
                self._recent.popleft()

    def recent(self) -> dict[str, float | None]:
        """``{"p50", "p99"}`` in milliseconds over the last seconds; None before there is any."""
        with self._lock:
            return _percentiles(sorted(value for _, value in self._recent))

    def overall(self) -> dict[str, float | None]:
        with self._lock:
            return _percentiles(sorted(self._all))


def _percentiles(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"p50": None, "p99": None}
    return {f"p{percent}": round(1000 * values[(len(values) - 1) * percent // 100], 1) for percent in (50, 99)}
