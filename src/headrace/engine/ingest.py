"""One thread a source: poll whole transactions, append them to the log, confirm what the log holds.

The thread only waits: all that happens, happens in ``turn``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.engine.backlog import Backlog
from headrace.engine.disk import own_refusal
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sources.base import Source

POLL_S = 0.1
# Each poll and each commit to the log costs some 7 ms of a processor, however few rows come: what comes while a step
# runs waits for its end anyway, so small transactions that follow each other closely gather for so long.
GATHER_S = 0.03
GATHERED_ROWS = 1_000  # a batch of as many is worth a poll
ALIVE_S = 5.0  # a source that waits for views or sinks is asked so often how far it is
RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0)
STARTING = frozenset(
    {"source.connect", "source.auth", "source.setup", "source.rights", "source.no_table", "source.port"}
)
HELD = "view.failed"  # a view fails that says that its sources stop
# What may mend itself, or be mended outside.
RETRIED = STARTING | {"source.file", "source.row", "log.full", "state.full", "state.failed"}


class Ingest(threading.Thread):
    """Follows one source until closed. A failure is kept in ``error`` and retried where that can help."""

    def __init__(
        self,
        source: Source,
        log: LogWriter,
        tables: frozenset[str],
        tell: Callable[[dict[str, Any]], None],
        begun: Callable[[], None] | None = None,
        append: Callable[[TransactionBatch], int] | None = None,
        backlog: Backlog | None = None,
    ) -> None:
        """With ``begun`` the source begins as if it were new; it is called once the log has what came first.

        ``append``: how a batch enters the log, where that is more than ``log.append``. ``backlog``: what it waits for.
        """
        super().__init__(name=f"headrace-source-{source.name}", daemon=True)
        self.source, self.log, self.tell = source, log, tell
        self.tables = tables
        self.begun = begun
        self.append = append or log.append
        self.backlog = backlog
        self._alive = float("-inf")
        self.error: HeadraceError | None = None
        self.attempt = 0  # how often in a row it has failed
        self.rows = 0
        self.ready = threading.Event()
        self.caught_up = threading.Event()  # what was at the source at the start is in the log
        self.seen: tuple[str, int] | None = None  # all of the source up to this position is in the log by that commit
        self.held: HeadraceError | None = None  # why nothing is to be taken in
        self._wanted = tables
        self._closed = threading.Event()
        self._following = False
        self._began = 0.0
        self._commit = log.end  # by which the log has all that the source has given
        self._watchers = 0
        self._guard = threading.Lock()
        source.note = self.note

    def follow(self, tables: frozenset[str]) -> None:
        """Also follow these tables, from the source's own thread."""
        self._wanted = self._wanted | tables

    @property
    def wanted(self) -> frozenset[str]:
        """The tables that are to be followed; some of them may not be yet."""
        return self._wanted

    @property
    def ended(self) -> HeadraceError | None:
        """What it failed with for good: nothing more comes of it."""
        return self.error if self.error is not None and not self.is_alive() else None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """``seen`` is kept up to date inside the block."""
        with self._guard:
            self._watchers += 1
        try:
            yield
        finally:
            with self._guard:
                self._watchers -= 1

    def close(self) -> None:
        self._closed.set()
        if self.is_alive():
            self.join(timeout=30)

    def run(self) -> None:
        while not self._closed.is_set():
            wait_s = self.turn()
            if wait_s is None:
                return
            self._closed.wait(wait_s)
        self.source.close()

    def turn(self) -> float | None:
        """One move: start the source, or take what it has. Seconds to wait before the next one; None: it is over."""
        try:
            if not self._following:
                self.begin()
            return self.take()
        except Exception as error:
            self.failed(error)
            self.source.close()
            self._following = False
            if self.error is None or self.error.code not in RETRIED:
                return None
            if time.monotonic() - self._began > RETRY_S[-1]:
                self.attempt = 0
            self.attempt += 1
            return RETRY_S[min(self.attempt, len(RETRY_S)) - 1]

    def begin(self) -> None:
        self._began = time.monotonic()
        position = self.log.positions.get(self.source.name) if self.begun is None else None
        self.source.start(self._wanted, position)
        self._following = True
        self.tables = self._wanted
        self.ready.set()
        self.tell({"event": "source.started", "source": self.source.name, "tables": sorted(self.tables)})
        if self.error is not None and self.error.code in STARTING:
            self.recovered()  # of any other failure only a commit tells that it is over

    def take(self) -> float:
        """The next batch, if there is one, into the log; seconds to wait before the next."""
        if (held := self.held) is not None:
            self.failed(held)
            if not self.pushes:
                return self.rest()
        elif self.error is not None and self.error.code == HELD:
            self.recovered()
        if self._wanted != self.tables:
            self.caught_up.clear()
            self.source.add(self._wanted - self.tables)
            self.tables = self._wanted
        if self.backlog is not None and self.backlog.full():
            return self.rest()
        batch = self.source.poll(POLL_S)
        if batch is not None and self.pushes and (held := self.held) is not None:
            self.source.reject(batch, held)
            return 0.0
        if batch is None:
            self.look()
            if not self.caught_up.is_set() and self._wanted == self.tables and self.source.caught_up():
                self.caught_up.set()
            return 0.0
        try:
            first = self.append(batch)
        except HeadraceError as error:
            self.source.reject(batch, error)
            if error.code != "log.full" or not self.pushes:
                raise  # a source that is read again must begin anew
            self.failed(error)
            return POLL_S
        if self.begun is not None:
            self.begun()
            self.begun = None
        self.source.confirm(batch, first)
        self.rows += batch.rows
        self._commit = first + len(batch.origins) - 1
        if self.backlog is not None:
            self.backlog.add(self._commit, batch.rows)
        self.attempt = 0
        self.look()
        if self.error is not None:
            self.recovered()
        return self.gather(batch)

    def gather(self, batch: TransactionBatch) -> float:
        """Seconds until the next poll, after ``batch``: none where clients wait for answers, or one came alone."""
        return GATHER_S if not self.pushes and len(batch.origins) > 1 and batch.rows < GATHERED_ROWS else 0.0

    def note(self, position: str) -> None:
        """See ``Source.note``."""
        origin = TransactionOrigin(self.source.name, position, time.time_ns() // 1000)
        self._commit = self.append(TransactionBatch((origin,)))

    def rest(self) -> float:
        """Views or sinks that the source waits for are too far behind: nothing is polled. As ``take``."""
        now = time.monotonic()
        if now - self._alive >= ALIVE_S:
            self._alive = now
            self.source.seen()  # a server hears of us
        return POLL_S

    def look(self) -> None:
        """Note how far the source is, if anybody wants to know. All that was polled is in the log."""
        if self._watchers and (position := self.source.seen()) is not None:
            self.seen = (position, self._commit)

    @property
    def pushes(self) -> bool:
        """Whether clients push into this source and get their own answer."""
        return type(self.source).reject is not Source.reject

    def recovered(self) -> None:
        self.error = None
        self.tell({"event": "source.recovered", "source": self.source.name})

    def failed(self, error: Exception) -> None:
        folder = self.log.path.parent
        known = error if isinstance(error, HeadraceError) else own_refusal(error, folder) or HeadraceError(
            "internal", f"source {self.source.name} failed: {error}", why=type(error).__name__
        )  # fmt: skip
        if self.error is None or str(self.error) != str(known):
            self.tell({"event": "source.failed", "source": self.source.name, "error": known.as_dict()})
        self.error = known
