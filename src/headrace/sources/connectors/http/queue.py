"""Submissions on their way to the engine: bounded in bytes, taken in order, many at a time."""

from __future__ import annotations

import threading
import time
from collections import deque

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.http.transactions import Submission


class SubmissionQueue:
    """A queue between request handlers and the one thread that polls.

    ``limit`` bounds the bytes of requests that are being read, wait, or are not answered yet. One submission
    alone is always let in.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refused = self.dropped = self.dropped_bytes = 0  # requests since it was made, and their bytes
        self._held = 0
        self._waiting: deque[Submission] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        return self._closed

    def reserve(self, size: int, already: int = 0) -> None:
        """Room for ``size`` bytes more, for a request that holds ``already``. Raises ``HeadraceError``: source.busy."""
        with self._changed:
            if self._held > already and self._held + size > self.limit:
                raise HeadraceError(
                    "source.busy",
                    "too many pushed rows wait to be logged",
                    why=f"{self._held >> 20} MiB of at most {self.limit >> 20} MiB wait",
                    next="push again in a second",
                )
            self._held += size

    def wait_for_room(self, size: int, wait_s: float) -> None:
        """As ``reserve``, waiting up to ``wait_s`` for it."""
        deadline = time.monotonic() + wait_s
        with self._changed:
            while True:
                left = deadline - time.monotonic()
                if self._closed or left <= 0 or not self._held or self._held + size <= self.limit:
                    break
                self._changed.wait(left)
        self.reserve(size)

    def turned_away(self, size: int, busy: HeadraceError, *, drop: bool) -> HeadraceError:
        """Counts a request of that size that there was no room for, and gives what its client is told."""
        with self._changed:
            if not drop:
                self.refused += 1
                return busy
            self.dropped, self.dropped_bytes = self.dropped + 1, self.dropped_bytes + size
        return HeadraceError(
            "source.dropped", "the request was dropped: too many pushed rows wait to be logged",
            why="the source says `when_full: drop`", next="headrace status counts what was dropped",
        )  # fmt: skip

    @property
    def held(self) -> int:
        """Bytes of requests that are being read, wait, or are not answered yet."""
        return self._held

    def release(self, size: int) -> None:
        """Give room back."""
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def put(self, submission: Submission) -> None:
        """Queue a submission whose room is reserved; the room is given back when its future is done."""
        with self._changed:
            if self._closed:
                raise stopped()
            self._waiting.append(submission)
            self._changed.notify()
        submission.future.add_done_callback(lambda _: self.release(submission.size))

    def take(self, wait_s: float, transactions: int, rows: int) -> list[Submission]:
        """The next submissions: at least one unless none came within ``wait_s``, then up to the two limits."""
        deadline = time.monotonic() + wait_s
        taken: list[Submission] = []
        with self._changed:
            while not self._waiting and not self._closed:
                left = deadline - time.monotonic()
                if left <= 0:
                    return []
                self._changed.wait(left)
            while self._waiting and transactions > 0 and rows > 0:
                if taken and len(self._waiting[0].transactions) > transactions:
                    break
                taken.append(self._waiting.popleft())
                transactions -= len(taken[-1].transactions)
                rows -= taken[-1].rows
        return taken

    def open(self) -> None:
        """Let submissions in again."""
        with self._changed:
            self._closed = False

    def close(self) -> list[Submission]:
        """Let nothing in any more; what waited is returned."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        return left


def stopped() -> HeadraceError:
    return HeadraceError("source.busy", "the source is stopping", next="push again when `headrace up` runs")
