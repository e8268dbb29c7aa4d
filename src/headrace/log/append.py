"""Appending: every queued batch goes out with one sync, and only then is anyone told."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from headrace.log.active import TEMPORARY, ActiveSegment
from headrace.log.base import Base
from headrace.log.files import Files, SyncFailed, write_all
from headrace.log.layout import MARK_NAME, Mark, segment_name
from headrace.log.merge import check, frames, size_of
from headrace.log.recover import find_tail, mark_of
from headrace.log.retain import begin_at, sweep
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch

SEGMENT_BYTES = 64 << 20
_GROUP_BYTES = 32 << 20  # a group takes at most this much, and never less than one batch
_QUEUE_BYTES = 64 << 20  # `submit` waits while more than this is queued
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # the last: over `ulimit -f`
_PASSING = _NO_SPACE | {errno.EMFILE, errno.ENFILE}  # refused, but the log can go on


@dataclass(frozen=True, slots=True)
class _Entry:
    batch: TransactionBatch | None  # None: the segment is to be closed
    size: int  # about how many bytes it takes on disk
    answer: Future[int]


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
        self._path = path
        self._segment_bytes = segment_bytes
        self._files = files or Files()
        self._changed = threading.Condition()
        self._queue: deque[_Entry] = deque()
        self._queued_bytes = 0
        self._failed: HeadraceError | None = None
        self._closed = False
        self._segment: ActiveSegment | None = None
        self._holding = threading.Condition()
        self._holders = 0
        self._mark_fd = self._take()
        try:
            self._recover()
        except BaseException:
            self._release()
            raise
        self._flusher = threading.Thread(target=self._run, name="headrace-log", daemon=True)
        self._flusher.start()

    def _take(self) -> int:
        """Open the mark and lock it: there is one writer."""
        new = not self._path.exists()
        self._path.mkdir(parents=True, exist_ok=True)
        if new:
            self._files.sync_directory(self._path.parent)
        fd = self._files.open(self._path / MARK_NAME)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._files.close(fd)
            raise HeadraceError(
                "project.locked", "Another writer has the log open.", where=str(self._path), next="Stop it first."
            ) from error
        return fd

    def _recover(self) -> None:
        tail = find_tail(self._path)
        for leftover in self._path.glob("*" + TEMPORARY):
            self._files.remove(leftover)
        sweep(self._path, self._files)
        self._end = tail.end if tail else 0
        self._positions = tail.positions if tail else {}
        if tail:
            file = self._path / segment_name(tail.first)
            self._segment = ActiveSegment(self._files, file, tail.first, tail.offset, tail.link)
            self._segment.rewrite(tail.confirmed)
        self._mark(mark_of(tail))
        self._files.sync(self._mark_fd)
        self._files.sync_directory(self._path)

    def _mark(self, mark: Mark) -> None:
        write_all(self._files, self._mark_fd, mark.pack(), 0)

    @property
    def end(self) -> int:
        """The last durable commit, 0 when the log is empty."""
        return self._end

    @property
    def positions(self) -> dict[str, str]:
        """The last durable position of every source."""
        with self._changed:
            return dict(self._positions)

    def append(self, batch: TransactionBatch) -> int:
        """Append and wait until durable; the commit number of ``batch.origins[0]``, the others follow densely.

        Raises ``log.full`` (nothing kept, try again later), ``log.failed``, or ``ValueError`` for a batch whose
        ``_t`` is out of order.
        """
        return self.submit(batch).result()

    def submit(self, batch: TransactionBatch) -> Future[int]:
        """As ``append``, without waiting for the disk; waits only while more than 64 MiB are queued."""
        check(batch)
        size = sum(size_of(table) for table in batch.changes.values()) + 64 * len(batch.origins) + 256
        return self._queued(_Entry(batch, size, Future()))

    def roll(self) -> int:
        """Close the present segment, unless it is empty, and begin another; the last commit before that one.

        Raises as ``append`` does.
        """
        return self._queued(_Entry(None, 0, Future())).result()

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
            self._files.sync(self._mark_fd)  # on the disk it may still name a segment that goes
            begin_at(self._path, base, self._files)
            return True

    def _queued(self, entry: _Entry) -> Future[int]:
        with self._changed:
            while self._queued_bytes > _QUEUE_BYTES and not (self._failed or self._closed):
                self._changed.wait()
            if self._failed:
                raise self._failed
            if self._closed:
                raise HeadraceError("log.failed", "The log is closed.", where=str(self._path))
            self._queue.append(entry)
            self._queued_bytes += entry.size
            self._changed.notify_all()
        return entry.answer

    def wait(self, after: int, timeout_s: float) -> int:
        """Wait until the log holds more than ``after``, or ``timeout_s`` seconds; returns ``end``."""
        with self._changed:
            self._changed.wait_for(lambda: self._end > after or self._closed or self._failed is not None, timeout_s)
            return self._end

    def close(self) -> None:
        """Write what is queued, give back reserved space, and let go of the log."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._flusher.join()
        self._release()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _release(self) -> None:
        if self._segment is not None:
            if self._failed:
                self._segment.close()
            else:
                self._segment.seal()
                with contextlib.suppress(OSError):  # opening the log finds the end without the mark
                    self._files.sync(self._mark_fd)
        self._files.close(self._mark_fd)

    # The flusher thread, alone from here on.

    def _run(self) -> None:
        while group := self._next_group():
            batches = [entry.batch for entry in group if entry.batch is not None]
            try:
                first = self._write(group, batches) if batches else self._roll()
            except Exception as error:
                answer = self._refused(error)
                for entry in group:
                    entry.answer.set_exception(answer)
            else:
                for entry in group:
                    entry.answer.set_result(first)
                    first += len(entry.batch.origins) if entry.batch is not None else 0

    def _next_group(self) -> list[_Entry]:
        """What is queued, up to a limit; waits for something. Empty when the log is closed and all is written."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._queue or self._closed)
                group: list[_Entry] = []
                size = 0
                while self._queue and (not group or self._fits(group, size)):
                    entry = self._queue.popleft()
                    self._queued_bytes -= entry.size
                    if not entry.answer.set_running_or_notify_cancel():
                        continue
                    if self._failed:
                        entry.answer.set_exception(self._failed)
                        continue
                    group.append(entry)
                    size += entry.size
                self._changed.notify_all()
                if group or (self._closed and not self._queue):
                    return group

    def _fits(self, group: list[_Entry], size: int) -> bool:
        following = self._queue[0]
        apart = group[0].batch is None or following.batch is None
        return not apart and size + following.size <= _GROUP_BYTES

    def _write(self, group: list[_Entry], batches: list[TransactionBatch]) -> int:
        """Make the group durable and visible; the commit number of its first transaction."""
        first = self._end + 1
        size = sum(entry.size for entry in group)
        segment = self._segment_for(size, first)
        positions = dict(self._positions)
        last = self._end
        before = segment.end, segment.link
        try:
            segment.reserve(size, self._segment_bytes)
            for frame in frames(batches, first):
                segment.write(frame)
                last = frame.last
                positions |= {origin.source: origin.position for origin in frame.origins}
            segment.sync()
            self._mark(Mark(segment.first, segment.end, last))
        except SyncFailed:
            raise
        except Exception:
            self._undo(segment, *before)
            raise
        with self._changed:
            self._end, self._positions = last, positions
            self._changed.notify_all()
        return first

    def _undo(self, segment: ActiveSegment, end: int, link: bytes) -> None:
        """Leave no trace of a group that was refused; if that cannot be had, the log cannot go on."""
        try:
            segment.undo(end, link)
            self._mark(Mark(segment.first, end, self._end))
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error

    def _segment_for(self, size: int, first: int) -> ActiveSegment:
        """The segment that takes the next ``size`` bytes: the present one, or a new one when that is full."""
        old = self._segment
        if old is not None and (old.first == first or old.end + size <= self._segment_bytes):
            return old
        return self._following(first)

    def _roll(self) -> int:
        old, end = self._segment, self._end
        if old is not None and old.first <= end:
            new = self._following(end + 1)
            self._mark(Mark(new.first, new.end, end))
        return end

    def _following(self, first: int) -> ActiveSegment:
        """The next segment, beginning with commit ``first``, in the place of the present one."""
        old = self._segment
        new = ActiveSegment.create(
            self._files,
            self._path,
            first=first,
            previous=old,
            positions=self._positions,
            size=self._segment_bytes,
        )
        self._segment = new
        if old is not None:
            old.seal()
        return new

    def _refused(self, error: Exception) -> HeadraceError:
        """What the callers of a group get; remembers it when the log cannot go on."""
        number = error.errno if isinstance(error, OSError) else None
        where, why = str(self._path), str(error)
        if not isinstance(error, SyncFailed):
            if number in _NO_SPACE:
                return HeadraceError(
                    "log.full",
                    "No space is left for the log; nothing of the transactions was kept.",
                    where=where,
                    why=why,
                    next="Free some space; the log goes on by itself.",
                )
            if number in _PASSING:
                return HeadraceError(
                    "log.failed", "The log could not open a file.", where=where, why=why, next="Raise `ulimit -n`."
                )
            if number is None:
                return HeadraceError("internal", "The transactions could not be written.", where=where, why=repr(error))
        failed = HeadraceError(
            "log.failed",
            "The disk did not confirm a write; the log takes no more.",
            where=where,
            why=why,
            next="Check the disk, then start again: opening the log finds what was kept.",
        )
        with self._changed:
            self._failed = failed
            self._changed.notify_all()
        return failed
