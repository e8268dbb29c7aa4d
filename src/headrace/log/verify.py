"""Checking a log by reading all of it: what is damaged, which commits cannot be read for it, what still stands.

Every byte in use is covered: what the log begins with, the mark, segment headers, frame heads, tables of contents and
rows by checksums, the sequence by the chain of hashes and the commit numbers, what lies between the parts by being
zero. Not covered is the space behind the last durable frame, reserved or not acknowledged yet. Changes nothing.
"""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headrace.log.base import BEGIN_NAME, Base, opened, read_base
from headrace.log.layout import HEAD_BYTES, MARK_NAME, FrameHead, FrameMeta, Mark, corrupt, segment_name
from headrace.log.segment import Segment, read_mark, segment_names
from headrace.model.errors import HeadraceError

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not as written: in ``segment`` (a file's name), not before ``offset``.

    For it commits ``first`` to ``last`` cannot be read; none when ``last`` is below ``first``. ``relation``: only its
    rows are concerned.
    """

    segment: str
    offset: int
    first: int
    last: int
    why: str
    relation: str | None = None

    def error(self) -> HeadraceError:
        return corrupt(self.segment, self.offset, self.why)


@dataclass(slots=True)
class LogReport:
    """What was walked: counts, ``bytes`` in use, ``reserved`` bytes behind them, which were not looked at.

    ``base``: the commit that the log begins behind; ``parts`` of its base were read; ``rows`` are those of segments.
    """

    base: int = 0
    parts: int = 0
    segments: int = 0
    frames: int = 0
    end: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    reserved: int = 0
    damages: list[Damage] = field(default_factory=list)

    def stands(self) -> list[tuple[int, int]]:
        """The commits that can be read in whole, as ranges (first, last)."""
        lost: list[tuple[int, int]] = []
        for damage in self.damages:
            if damage.first <= damage.last:
                insort(lost, (damage.first, damage.last))
        found, at = [], self.base + 1
        for first, last in lost:
            if at < first:
                found.append((at, first - 1))
            at = max(at, last + 1)
        return [*found, (at, self.end)] if at <= self.end else found


Progress = Callable[[int, int], None]  # bytes done, bytes in all


def verify(path: Path, on_progress: Progress = lambda done, total: None) -> LogReport:
    """Read the durable log in the folder ``path``, and go on behind damage as far as the rest can be told."""
    return _Walk(path, on_progress).run()


class _Broken(Exception):
    """Behind this offset nothing of the segment can be told."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(why)
        self.offset, self.why = offset, why


class _Walk:
    """``previous``: where the segment before ends, as its successor must say; None when that cannot be known."""

    def __init__(self, path: Path, on_progress: Progress) -> None:
        self.path, self.on_progress = path, on_progress
        self.report = LogReport()
        self.previous: tuple[int, int, bytes] | None = (0, 0, bytes(16))
        self.total = 0

    def run(self) -> LogReport:
        mark, names = read_mark(self.path), self._begin()
        if mark is None and names:
            self._lost(MARK_NAME, 0, "the mark that says how far the log is durable is missing or damaged", 0)
        if mark is not None:
            names = [name for name in names if name <= segment_name(mark.segment)]
        self.total += sum((self.path / name).stat().st_size for name in names)
        for name, following in zip(names, [*names[1:], None], strict=False):
            self._segment(name, self._last_of(name, following, mark), mark)
            self.report.segments += 1
        if mark is not None and mark.end and segment_name(mark.segment) not in names:
            self._lost(segment_name(mark.segment), 0, "the file is missing", mark.end)
        return self.report

    def _begin(self) -> list[str]:
        """Read the base, where the log has one; the names of the segments behind it."""
        names = segment_names(self.path)
        try:
            base = read_base(self.path)
        except HeadraceError as error:
            if error.code != "log.corrupt":
                raise
            self.report.damages.append(Damage(BEGIN_NAME, 0, 1, 0, error.why))
            self.previous = None
            self.report.base = self.report.end = int(names[0].partition(".")[0]) - 1 if names else 0
            return names
        self.report.base = self.report.end = base.commit
        self.previous, self.total = base.previous, base.size
        self._parts(base)
        return [name for name in names if name >= segment_name(base.commit + 1)]

    def _parts(self, base: Base) -> None:
        for table, parts in base.parts.items():
            for part in parts:
                try:
                    with _Readable(self.path / part.name) as file:
                        file.touch(0, part.bytes)
                    found = _rows(opened(self.path, part))
                    why = "" if found == part.rows else f"the part does not hold {part.rows} rows of {table}"
                except _Broken as broken:
                    why = broken.why
                except OSError as error:
                    why = f"the disk cannot read it: {error.strerror}"
                except HeadraceError as error:
                    why = error.why
                if why:
                    self.report.damages.append(Damage(part.name, 0, base.commit, base.commit, why, table))
                self.report.parts += 1
                self.report.bytes += part.bytes
                self.on_progress(self.report.bytes, self.total)

    def _lost(self, segment: str, offset: int, why: str, last: int) -> None:
        """From the next commit on, up to ``last``, nothing can be read."""
        self.report.damages.append(Damage(segment, offset, self.report.end + 1, last, why))
        if last > self.report.end:
            self.report.end, self.previous = last, None

    def _last_of(self, name: str, following: str | None, mark: Mark | None) -> int | None:
        """The last commit of a segment as its successor or the mark says; None when only its own frames can tell."""
        if following is None:
            return mark.end if mark is not None and name == segment_name(mark.segment) else None
        try:
            with _Readable(self.path / following) as file:
                before = segment_name(file.segment().header.previous_first)
        except _Broken:
            before = name  # it will be told of; its name says enough
        return int(following.partition(".")[0]) - 1 if before == name else None

    def _segment(self, name: str, upto: int | None, mark: Mark | None) -> None:
        """``upto``: its last commit, if known."""
        report = self.report
        try:
            with _Readable(self.path / name) as file:
                segment = file.segment()
                self._header(segment)
                offset, link = segment.start, segment.digest
                report.bytes += offset
                while report.end < upto if upto is not None else not _ended(segment, offset):
                    head = self._head(file, segment, offset, link, upto)
                    self._contents(file, segment, offset, head)
                    link, report.end = segment.digest_at(offset), head.last
                    offset += head.length
                    report.frames += 1
                    report.bytes += head.length
                    self.on_progress(report.bytes, self.total)
                if mark is not None and name == segment_name(mark.segment) and offset != mark.offset:
                    why = f"the log ends at offset {offset}, the mark says {mark.offset}"
                    raise _Broken(min(offset, mark.offset), why)
                report.reserved += segment.size - offset
                self.previous = (segment.header.first, offset, link)
        except _Broken as broken:
            self._lost(name, broken.offset, broken.why, upto or 0)

    def _header(self, segment: Segment) -> None:
        header = segment.header
        if header.first != self.report.end + 1:
            missing = segment_name(header.previous_first)
            self._lost(missing, 0, f"the file is missing; {segment.name} follows it", header.first - 1)
        before = (header.previous_first, header.previous_length, header.previous)
        if self.previous not in (None, before):
            raise _Broken(0, "the segment does not follow from the one before it")
        if segment.size < segment.start:
            raise _Broken(0, f"the file ends at {segment.size}, inside its header")
        if header.pack() != segment.part(0, segment.start).to_pybytes():
            self._unclean(segment, 0)

    def _head(self, file: _Readable, segment: Segment, offset: int, link: bytes, upto: int | None) -> FrameHead:
        try:
            file.touch(offset, HEAD_BYTES)
            head = segment.linked(offset, self.report.end + 1, link)
        except OSError as error:
            raise _Broken(offset, f"the disk cannot read it: {error.strerror}") from error
        except HeadraceError as error:
            raise _Broken(offset, error.why) from error
        if upto is not None and head.last > upto:
            raise _Broken(
                offset, f"the frame holds commits {head.first} to {head.last}, and the segment ends at {upto}"
            )
        return head

    def _contents(self, file: _Readable, segment: Segment, offset: int, head: FrameHead) -> None:
        """All behind the head; what is broken here leaves the frames behind it readable."""
        try:
            file.touch(offset, head.length)
            meta = segment.meta(offset, head)
        except (OSError, HeadraceError) as error:
            why = error.why if isinstance(error, HeadraceError) else f"the disk cannot read it: {error.strerror}"
            self.report.damages.append(Damage(segment.name, offset, head.first, head.last, why))
            return
        if sum(1 for _ in meta.origins()) != head.last - head.first + 1:
            why = "the frame does not name the origin of each of its transactions"
            self.report.damages.append(Damage(segment.name, offset, head.first, head.last, why))
        for relation, payload in meta.payloads.items():
            try:
                if _rows(segment.payload(offset, meta, relation)) != payload.rows:
                    raise corrupt(segment.name, offset, f"the frame does not hold {payload.rows} rows of {relation}")
            except HeadraceError as error:
                self.report.damages.append(Damage(segment.name, offset, head.first, head.last, error.why, relation))
            else:
                self.report.rows[relation] = self.report.rows.get(relation, 0) + payload.rows
        if any(segment.part(offset + at, length).to_pybytes().strip(b"\0") for at, length in _gaps(head, meta)):
            self._unclean(segment, offset)

    def _unclean(self, segment: Segment, offset: int) -> None:
        why = "bytes between the parts are not the zeros that were written; no row is concerned"
        self.report.damages.append(Damage(segment.name, offset, self.report.end + 1, self.report.end, why))


class _Readable:
    """A file that is read with ordinary calls first: a disk that fails then raises, where a mapping would kill."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _Broken(0, f"the file cannot be opened: {error.strerror}") from error
        self._piece = bytearray(_PIECE_BYTES)

    def __enter__(self) -> _Readable:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._fd)

    def touch(self, offset: int, length: int) -> None:
        """Read these bytes, and forget them."""
        with memoryview(self._piece) as view:
            for at in range(offset, offset + length, _PIECE_BYTES):
                os.preadv(self._fd, [view[: min(_PIECE_BYTES, offset + length - at)]], at)

    def segment(self) -> Segment:
        try:
            self.touch(0, _PIECE_BYTES)  # more than a header has
            return Segment(self._path)
        except OSError as error:
            raise _Broken(0, f"the disk cannot read it: {error.strerror}") from error
        except HeadraceError as error:
            if error.code != "log.corrupt":  # a log of another version is not damaged
                raise
            raise _Broken(0, error.why) from error


def _ended(segment: Segment, offset: int) -> bool:
    """Whether the frames end here, where no mark says so. A frame that was synced and is broken is no end."""
    if segment.has_head(offset):
        return False
    if segment.written_after(offset):
        raise _Broken(offset, "there is no sound frame here, and sound frames follow")
    return True


def _rows(payload: pa.Buffer) -> int:
    with pa.ipc.open_stream(payload) as stream:
        return sum(batch.num_rows for batch in stream)


def _gaps(head: FrameHead, meta: FrameMeta) -> Iterator[tuple[int, int]]:
    """(offset in the frame, length) of what lies between its parts, which is zeros."""
    parts = [(payload.offset, payload.length) for payload in meta.payloads.values()]
    at = HEAD_BYTES
    for begin, length in [*sorted(parts), (head.meta_offset, head.meta_length), (head.length, 0)]:
        if begin > at:
            yield at, begin - at
        at = begin + length
