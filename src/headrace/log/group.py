"""The end of the log: a group of batches is made durable by one sync, or refused whole. No thread, no waiting."""

from __future__ import annotations

import contextlib
import errno
import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.log.active import TEMPORARY, ActiveSegment
from headrace.log.base import Base
from headrace.log.files import Files, SyncFailed, write_all
from headrace.log.layout import MARK_NAME, Mark, segment_name
from headrace.log.merge import check, frames, size_of
from headrace.log.recover import find_tail, mark_of
from headrace.log.retain import begin_at, sweep
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # the last: over `ulimit -f`
_PASSING = _NO_SPACE | {errno.EMFILE, errno.ENFILE}  # refused, but the log can go on


def bytes_of(batch: TransactionBatch) -> int:
    """About how many bytes a batch takes on disk."""
    return sum(size_of(table) for table in batch.changes.values()) + 64 * len(batch.origins) + 256


class Appender:
    """The one writer of the log in the folder ``path``, for one thread. What it does follows from its calls alone.

    Opening recovers, as ``LogWriter`` says, which is this with a queue and a thread.
    """

    def __init__(self, path: Path, *, segment_bytes: int, files: Files) -> None:
        self.path = path
        self._segment_bytes = segment_bytes
        self._files = files
        self.failed: HeadraceError | None = None
        self._segment: ActiveSegment | None = None
        try:
            self._mark_fd = self._take()
        except OSError as error:
            raise self._not_opened(error) from error
        try:
            self._recover()
        except OSError as error:
            self.failed = self._not_opened(error)
            self.close()  # leaves the files as they are
            raise self.failed from error
        except BaseException:
            self.close()
            raise

    def _take(self) -> int:
        """Open the mark and lock it: there is one writer."""
        new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        if new:
            self._files.sync_directory(self.path.parent)
        fd = self._files.open(self.path / MARK_NAME)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._files.close(fd)
            raise HeadraceError(
                "project.locked", "Another writer has the log open.", where=str(self.path), next="Stop it first."
            ) from error
        return fd

    def _recover(self) -> None:
        tail = find_tail(self.path)
        for leftover in self.path.glob("*" + TEMPORARY):
            self._files.remove(leftover)
        sweep(self.path, self._files)
        self._reached = (tail.end, tail.positions) if tail else (0, {})
        if tail:
            file = self.path / segment_name(tail.first)
            self._segment = ActiveSegment(self._files, file, tail.first, tail.offset, tail.link)
            self._segment.rewrite(tail.confirmed)
        self._mark(mark_of(tail))
        self._files.sync(self._mark_fd)
        self._files.sync_directory(self.path)

    def _mark(self, mark: Mark) -> None:
        write_all(self._files, self._mark_fd, mark.pack(), 0)

    @property
    def end(self) -> int:
        """The last durable commit, 0 when the log is empty."""
        return self._reached[0]

    @property
    def positions(self) -> dict[str, str]:
        """The last durable position of every source."""
        return dict(self._reached[1])

    def append(self, batch: TransactionBatch) -> int:
        """A group of one; the commit number of ``batch.origins[0]``."""
        check(batch)
        return self.write([batch], bytes_of(batch))

    def write(self, group: Sequence[TransactionBatch], size: int) -> int:
        """Make checked batches durable and visible; the commit number of the first transaction, the others follow.

        ``size``: about how many bytes they take. Raises ``log.full`` (nothing kept, try again later), and
        ``log.failed`` at this call and all later ones.
        """
        with self._refusing():
            return self._write(group, size)

    def roll(self) -> int:
        """Close the present segment, unless it is empty, and begin another; the last commit before that one.

        Raises as ``write`` does.
        """
        with self._refusing():
            old, end = self._segment, self.end
            if old is not None and old.first <= end:
                new = self._following(end + 1)
                self._mark(Mark(new.first, new.end, end))
            return end

    def begin_at(self, base: Base) -> None:
        """Remove the commits up to that of ``base``, whose parts are on the disk. From any thread."""
        self._files.sync(self._mark_fd)  # on the disk it may still name a segment that goes
        begin_at(self.path, base, self._files)

    def close(self) -> None:
        """Give back reserved space, and let go of the log."""
        if self._segment is not None:
            if self.failed:
                self._segment.close()
            else:
                self._segment.seal()
                with contextlib.suppress(OSError):  # opening the log finds the end without the mark
                    self._files.sync(self._mark_fd)
        self._files.close(self._mark_fd)

    def _write(self, group: Sequence[TransactionBatch], size: int) -> int:
        last, positions = self._reached[0], self.positions
        first = last + 1
        segment = self._segment_for(size, first)
        before = segment.end, segment.link
        try:
            segment.reserve(size, self._segment_bytes)
            for frame in frames(group, first):
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
        self._reached = (last, positions)
        return first

    def _undo(self, segment: ActiveSegment, end: int, link: bytes) -> None:
        """Leave no trace of a group that was refused; if that cannot be had, the log cannot go on."""
        try:
            segment.undo(end, link)
            self._mark(Mark(segment.first, end, self.end))
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error

    def _segment_for(self, size: int, first: int) -> ActiveSegment:
        """The segment that takes the next ``size`` bytes: the present one, or a new one when that is full."""
        old = self._segment
        if old is not None and (old.first == first or old.end + size <= self._segment_bytes):
            return old
        return self._following(first)

    def _following(self, first: int) -> ActiveSegment:
        """The next segment, beginning with commit ``first``, in the place of the present one."""
        old = self._segment
        new = ActiveSegment.create(
            self._files,
            self.path,
            first=first,
            previous=old,
            positions=self.positions,
            size=self._segment_bytes,
        )
        self._segment = new
        if old is not None:
            old.seal()
        return new

    def _not_opened(self, error: OSError) -> HeadraceError:
        where, why = str(self.path), str(error)
        if error.errno in _NO_SPACE:
            return HeadraceError(
                "log.full",
                "No space is left to open the log; what it holds is all there.",
                where=where,
                why=why,
                next="Free some space, then start again.",
            )
        return HeadraceError(
            "log.failed",
            "The log cannot be opened.",
            where=where,
            why=why,
            next="Check the disk and who may write there, then start again: opening the log finds what was kept.",
        )

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """What fails inside is told as a refusal."""
        if self.failed:
            raise self.failed
        try:
            yield
        except Exception as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> HeadraceError:
        """What the callers of a group get; remembers it when the log cannot go on."""
        number = error.errno if isinstance(error, OSError) else None
        where, why = str(self.path), str(error)
        if not isinstance(error, SyncFailed):
            if number in _NO_SPACE:
                return HeadraceError(
                    "log.full",
                    "No space is left for the log; nothing of the transactions was kept.",
                    where=where,
                    why=why,
                    next=f"Free some space; the log takes {max(1, self._segment_bytes >> 20)} MiB at a time. A"
                    " `headrace up` that still runs goes on by itself; start one that has ended, or `--once`, again.",
                )
            if number in _PASSING:
                return HeadraceError(
                    "log.failed", "The log could not open a file.", where=where, why=why, next="Raise `ulimit -n`."
                )
            if number is None:
                return HeadraceError("internal", "The transactions could not be written.", where=where, why=repr(error))
        self.failed = HeadraceError(
            "log.failed",
            "The disk did not confirm a write; the log takes no more.",
            where=where,
            why=why,
            next="Check the disk, then start again: opening the log finds what was kept.",
        )
        return self.failed
