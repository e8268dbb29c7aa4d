"""Appending: every queued batch goes out with one sync, and only then is anyone told."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from headrace.log.base import Base
from headrace.log.files import Files
from headrace.log.group import Appender, bytes_of
from headrace.log.merge import check
from headrace.log.turns import Turns
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch

SEGMENT_BYTES = 64 << 20
_GROUP_BYTES = 32 << 20  # a group takes at most this much, and never less than one batch
_QUEUE_BYTES = 64 << 20  # `submit` waits while more than this is queued


class _Group:
    """Batches that go out with one sync, and what becomes of them.

    Whoever waits for it waits for one lock, and who comes through lets the next one through. Were all woken at once,
    they would only sleep again until the interpreter is free, and switches are most of what a small transaction costs.
    """

    __slots__ = ("_commit", "_error", "_pending", "_transactions", "batches", "entries", "size")

    def __init__(self) -> None:
        self.batches: list[TransactionBatch] = []  # none: the segment is to be closed
        self.entries = 0  # how many answers hang on it
        self.size = 0  # about how many bytes it takes on disk
        self._transactions = 0
        self._pending = threading.Lock()
        self._pending.acquire()
        self._commit = 0
        self._error: HeadraceError | None = None

    def takes(self, size: int) -> bool:
        """Whether a batch of so many bytes can go along."""
        return bool(self.batches) and self.size + size <= _GROUP_BYTES

    def add(self, batch: TransactionBatch | None, size: int) -> Answer:
        answer = Answer(self, self._transactions)
        self.entries += 1
        self.size += size
        if batch is not None:
            self.batches.append(batch)
            self._transactions += len(batch.origins)
        return answer

    def set(self, commit: int, error: HeadraceError | None = None) -> None:
        """The commit of its first transaction, or why there is none."""
        self._commit, self._error = commit, error
        self.batches = []  # an answer may be kept for longer than they are needed
        self._pending.release()

    def result(self) -> int:
        with self._pending:  # and no less than that: who is interrupted here must not keep the others waiting
            pass
        if self._error is not None:
            raise self._error
        return self._commit


class Answer:
    """What becomes of a batch: the commit of its first transaction, or the error."""

    __slots__ = ("_before", "_group")

    def __init__(self, group: _Group, before: int) -> None:
        self._group = group
        self._before = before  # how many transactions of the group come first

    def result(self) -> int:
        """Wait until the batch is on the disk; raises what went wrong."""
        return self._group.result() + self._before


class LogWriter:
    """The one writer of the log in the folder ``path``. Its methods may be called from any thread.

    Opening recovers: a torn tail is cut; damage raises ``log.corrupt`` with segment and offset; a log that
    another writer holds raises ``project.locked``. ``segment_bytes`` is the size at which the next segment begins.

    A batch is answered only when it is on the disk. When space runs out the callers get ``log.full``, nothing of
    their batches is kept, and the log goes on. When the disk does not confirm a write the callers get
    ``log.failed``, and so does everyone after them: whether those last batches were kept shows when the log is
    opened again.
    """

    def __init__(self, path: Path, *, segment_bytes: int = SEGMENT_BYTES, files: Files | None = None) -> None:
        self.path = path
        self._log = Appender(path, segment_bytes=segment_bytes, files=files or Files())
        self._lock = threading.RLock()  # of all below
        self._work = threading.Condition(self._lock)  # the flusher's alone
        self._changed = threading.Condition(self._lock)  # the end of the log, or of the queue
        self._queue: deque[_Group] = deque()
        self._queued = 0
        self._queued_bytes = 0
        self._awaited = 1  # how many are to be queued before the flusher looks
        self._turns = Turns()
        self._closed = False
        self._holding = threading.Condition()
        self._holders = 0
        self._flusher = threading.Thread(target=self._run, name="headrace-log", daemon=True)
        self._flusher.start()

    @property
    def end(self) -> int:
        """The last durable commit, 0 when the log is empty."""
        return self._log.end

    @property
    def positions(self) -> dict[str, str]:
        """The last durable position of every source."""
        return self._log.positions

    def append(self, batch: TransactionBatch) -> int:
        """Append and wait until durable; the commit number of ``batch.origins[0]``, the others follow densely.

        Raises ``log.full`` (nothing kept, try again later), ``log.failed``, or ``ValueError`` for a batch whose
        ``_t`` is out of order.
        """
        return self.submit(batch).result()

    def submit(self, batch: TransactionBatch) -> Answer:
        """As ``append``, without waiting for the disk; waits only while more than 64 MiB are queued."""
        check(batch)
        return self._enqueue(batch, bytes_of(batch))

    def roll(self) -> int:
        """Close the present segment, unless it is empty, and begin another; the last commit before that one.

        Raises as ``append`` does.
        """
        return self._enqueue(None, 0).result()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, nothing of the log is removed. For who reads it from its base on, in tasks too."""
        with self._holding:  # waits for a removal, which takes milliseconds
            self._holders += 1
        try:
            yield
        finally:
            with self._holding:
                self._holders -= 1
                self._holding.notify_all()

    def begin_at(self, base: Base, timeout_s: float) -> bool:
        """Remove the commits up to that of ``base``, whose parts are on the disk; appends go on meanwhile.

        Waits until nobody holds the log; False, and nothing is done, when that takes longer than ``timeout_s`` seconds.
        """
        with self._holding:
            if not self._holding.wait_for(lambda: not self._holders, timeout_s):
                return False
            self._log.begin_at(base)
            return True

    def _enqueue(self, batch: TransactionBatch | None, size: int) -> Answer:
        with self._lock:
            while self._queued_bytes > _QUEUE_BYTES and not (self._log.failed or self._closed):
                self._changed.wait()
            if self._log.failed:
                raise self._log.failed
            if self._closed:
                raise HeadraceError("log.failed", "The log is closed.", where=str(self.path))
            if batch is None or not self._queue or not self._queue[-1].takes(size):
                self._queue.append(_Group())
            answer = self._queue[-1].add(batch, size)
            self._queued += 1
            self._queued_bytes += size
            if self._queued == self._awaited or self._queued_bytes > _GROUP_BYTES:
                self._work.notify()
        return answer

    def wait(self, after: int, timeout_s: float) -> int:
        """Wait until the log holds more than ``after``, or ``timeout_s`` seconds; returns ``end``.

        A log that has failed holds no more, and is waited for like one to which nothing comes.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.end > after or self._closed, timeout_s)
            return self.end

    def close(self) -> None:
        """Write what is queued, give back reserved space, and let go of the log."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._work.notify()
            self._changed.notify_all()
        self._flusher.join()
        self._log.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The flusher thread, alone from here on.

    def _run(self) -> None:
        while group := self._next_group():
            began = time.monotonic()
            try:
                commit = self._log.write(group.batches, group.size) if group.batches else self._log.roll()
            except HeadraceError as refused:
                self._tell()
                group.set(0, refused)
            else:
                self._tell()
                self._turns.done(group.entries, self._queued, time.monotonic() - began)
                group.set(commit)

    def _next_group(self) -> _Group | None:
        """What is queued, up to a limit; waits for something. None when the log is closed and all is written."""
        with self._lock:
            self._work.wait_for(lambda: self._queue or self._closed)
            self._gather()
            if not self._queue:
                return None
            group = self._queue.popleft()
            self._queued -= group.entries
            self._queued_bytes -= group.size
            self._changed.notify_all()
            return group

    def _gather(self) -> None:
        """Wait, if that is worth it, for those that have just been answered: under the lock, with something queued."""
        wanted, at_most_s = self._turns.wanted(self._queued)
        if wanted > self._queued and not (self._closed or self._log.failed):
            self._awaited = wanted
            self._work.wait_for(
                lambda: self._queued >= wanted or self._queued_bytes > _GROUP_BYTES or self._closed, at_most_s
            )
            self._awaited = 1
            self._turns.came(self._queued >= wanted)

    def _tell(self) -> None:
        """Whoever waits for the end, or for room, looks again."""
        with self._lock:
            self._changed.notify_all()
