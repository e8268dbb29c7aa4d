"""Reading: ranges of commits, from any process, while the writer goes on."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.log.base import BEGIN_NAME, PART_SUFFIX, Base, opened, read_base, retained
from headrace.log.layout import COMMIT, FrameHead, FrameMeta, Mark, corrupt, segment_name
from headrace.log.merge import coalesced
from headrace.log.segment import Segment, read_mark, segment_names
from headrace.log.verify import LogReport, verify
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionOrigin

_OPEN_SEGMENTS = 16


@dataclass(frozen=True, slots=True)
class FrameRef:
    """Where a frame lies: plain values, so that it can go to a task as JSON (``dataclasses.asdict``).

    It holds the commits ``first`` to ``last``; ``rows[relation]`` counts its changes, and it takes ``bytes`` of the
    file. Of a part of the log's base both commits are the base's.
    """

    segment: str
    offset: int
    first: int
    last: int
    rows: dict[str, int]
    bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """``length`` bytes of a segment from ``offset`` on, whose CRC-32 is ``crc``: a stream of Arrow IPC."""

    segment: str
    offset: int
    length: int
    crc: int


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A segment file: its commits, its bytes in use, and whether it is the last one, to which the writer appends."""

    name: str
    first: int
    last: int
    bytes: int
    active: bool


class LogReader:
    """Reads the log in the folder ``path``; opening costs nothing. Usable from several threads; pickles as its path.

    It sees what the writer has made durable, and follows a writer in another process. Bytes that are not as
    written raise ``log.corrupt`` with segment and offset; commits that retention has removed ``log.retained``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []
        self._segments: OrderedDict[str, Segment] = OrderedDict()
        self._base: tuple[tuple[int, int, int], Base] = ((0, 0, 0), Base())
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[LogReader], tuple[Path]]:
        return LogReader, (self._path,)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def end(self) -> int:
        """The last durable commit now, 0 when the log is empty."""
        return self._mark().end

    @property
    def base(self) -> Base:
        """What there is of the commits that retention has removed; its ``commit`` is 0 as long as none is."""
        try:
            found = (self._path / BEGIN_NAME).stat()
        except FileNotFoundError:
            return Base()
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        with self._lock:
            if self._base[0] != seen:
                self._base = seen, read_base(self._path)
            return self._base[1]

    def _mark(self) -> Mark:
        mark = read_mark(self._path)
        if mark is not None:
            return mark
        if segment_names(self._path):
            raise HeadraceError(
                "log.corrupt",
                "The mark that says how far the log is durable is missing or damaged.",
                where=str(self._path),
                next="Start `headrace up`: opening the log for writing makes it anew.",
            )
        return Mark(0, 0, 0)

    def refs(self, after: int, upto: int) -> list[FrameRef]:
        """The frames that hold a commit in (after, upto], in order; ``ValueError`` when the log ends before ``upto``.

        From 0 on: the parts of the base, then the frames behind it, so that all of it adds up to the same tables.
        Work: the frames of the range; in a segment not looked at before also a walk over the heads before it.
        """
        base = self.base
        if after > 0 or base.commit == 0:
            return [ref for ref, _ in self.frames(after, upto)]
        if upto < base.commit:
            raise removed(base, upto)
        at = base.commit
        parts = [FrameRef(p.name, 0, at, at, {table: p.rows}, p.bytes) for table, of in base.parts.items() for p in of]
        return parts + [ref for ref, _ in self.frames(at, upto)]

    def frames(self, after: int, upto: int) -> Iterator[tuple[FrameRef, FrameMeta]]:
        """As ``refs``, one at a time, with each frame's table of contents; no payload is read, and no base is in it."""
        for segment, offset, head in self._frames(after, upto):
            meta = segment.meta(offset, head)
            yield FrameRef(segment.name, offset, head.first, head.last, meta.rows, head.length), meta

    def segments(self) -> list[SegmentRef]:
        """The segments in order, from their headers alone; none when the log is empty."""
        mark = self._mark()
        names = [name for name in retained(self._path)[1] if name <= segment_name(mark.segment)] if mark.end else []
        headers = [Segment(self._path / name).header for name in names]
        found = []
        for header, following in zip(headers, [*headers[1:], None], strict=False):
            last, used = (following.first - 1, following.previous_length) if following else (mark.end, mark.offset)
            found.append(SegmentRef(segment_name(header.first), header.first, last, used, following is None))
        return found

    def read(self, refs: Iterable[FrameRef], relation: str, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        """The changes of ``relation`` in commits (after, upto]: ``_c`` (int64), ``_op``, maybe ``_unchanged``, columns.

        Rows in the order they happened. Large batches are views of the mapped file; small ones are joined. A batch
        has one schema; it changes where the relation's did.
        """
        return coalesced(self._batches(refs, relation, after, upto))

    def places(self, refs: Iterable[FrameRef], relation: str, after: int, upto: int) -> list[Place] | None:
        """Where the changes lie that ``read`` gives; None where those frames hold others too, or a base does.

        No payload is read: ``read`` is what finds out whether one is sound.
        """
        found = []
        for ref in refs:
            if relation not in ref.rows or ref.last <= after or ref.first > upto:
                continue
            if ref.segment.endswith(PART_SUFFIX) or ref.first <= after or ref.last > upto:
                return None
            segment = self._segment(ref.segment)
            entry = segment.meta(ref.offset, segment.head(ref.offset)).payloads[relation]
            found.append(Place(ref.segment, ref.offset + entry.offset, entry.length, entry.crc))
        return found

    def origins(self, after: int, upto: int) -> Iterator[tuple[int, TransactionOrigin]]:
        """Commit number and origin of every transaction in (after, upto]; the base's own is known too."""
        base = self.base
        if after < upto and after + 1 == base.commit:
            yield base.commit, base.origin
            after = base.commit
        for ref, meta in self.frames(after, upto):
            for commit, origin in enumerate(meta.origins(), start=ref.first):
                if after < commit <= upto:
                    yield commit, origin

    def newest_first(self) -> Iterator[tuple[int, int, Mapping[str, str]]]:
        """Segment by segment: its commits as (after, upto], and the last position of each source before it."""
        mark = self._mark()
        upto = mark.end
        for name in reversed([name for name in retained(self._path)[1] if name <= segment_name(mark.segment)]):
            header = self._segment(name).header
            yield header.first - 1, upto, header.positions
            upto = header.first - 1

    def verify(self) -> LogReport:
        """Walk the whole durable log: headers, chain, commit numbers, every byte. Raises the first ``log.corrupt``."""
        report = verify(self._path)
        if report.damages:
            raise report.damages[0].error()
        return report

    def _batches(self, refs: Iterable[FrameRef], relation: str, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        for ref in refs:
            if relation not in ref.rows or ref.last <= after or ref.first > upto:
                continue
            if ref.segment.endswith(PART_SUFFIX):
                yield from self._part(ref, relation)
                continue
            segment = self._segment(ref.segment)
            head = segment.head(ref.offset)
            if (head.first, head.last) != (ref.first, ref.last):
                raise corrupt(ref.segment, ref.offset, f"the frame holds commits {head.first} to {head.last}")
            payload = segment.payload(ref.offset, segment.meta(ref.offset, head), relation)
            cut = head.first <= after or head.last > upto
            with pa.ipc.open_stream(payload) as stream:
                for batch in stream:
                    part = _within(batch, after, upto) if cut else batch
                    if part.num_rows:
                        yield part
            segment.passed(ref.offset + head.length)

    def _part(self, ref: FrameRef, relation: str) -> Iterator[pa.RecordBatch]:
        """A part of the base, as if its rows had come with the base's commit."""
        base = self.base
        part = next((part for part in base.parts.get(relation, ()) if part.name == ref.segment), None)
        try:
            if part is None:
                raise FileNotFoundError
            data = opened(self._path, part)
        except FileNotFoundError as error:
            if base.commit == ref.last:
                raise corrupt(ref.segment, 0, "the file is missing") from error
            raise removed(base, ref.last) from error
        with pa.ipc.open_stream(data) as stream:
            for batch in stream:
                commits = pa.array(np.full(batch.num_rows, ref.last, np.int64))
                yield pa.RecordBatch.from_arrays([commits, *batch.columns], names=[COMMIT, *batch.schema.names])

    def _frames(self, after: int, upto: int) -> Iterator[tuple[Segment, int, FrameHead]]:
        if after >= upto:
            return
        base = self.base
        if after < base.commit:
            raise removed(base, after + 1)
        mark = self._mark()
        if upto > mark.end:
            raise ValueError(f"the log ends at commit {mark.end}, before {upto}")
        with self._lock:
            if not self._names or self._names[-1] < segment_name(mark.segment):
                self._names = segment_names(self._path)
            names = self._names
        place = max(0, bisect_right(names, segment_name(after + 1)) - 1)
        for at in range(place, len(names)):
            if names[at] > segment_name(upto):
                return
            segment = self._segment(names[at])
            stop = upto
            if at + 1 < len(names):
                stop = min(upto, int(names[at + 1].partition(".")[0]) - 1)
            with self._lock:
                found = segment.frames(after, stop)
            for offset, head in found:
                yield segment, offset, head
                segment.passed(offset + head.length)

    def _segment(self, name: str) -> Segment:
        with self._lock:
            if name not in self._segments:
                try:
                    self._segments[name] = Segment(self._path / name)
                except HeadraceError:
                    base = read_base(self._path)
                    if name < segment_name(base.commit + 1):  # it was removed between looking it up and opening it
                        raise removed(base, int(name.partition(".")[0])) from None
                    raise
                if len(self._segments) > _OPEN_SEGMENTS:
                    self._segments.popitem(last=False)
            self._segments.move_to_end(name)
            return self._segments[name]


def removed(base: Base, commit: int) -> HeadraceError:
    """The error of who asks for a commit that is not there any more."""
    return HeadraceError(
        "log.retained",
        f"The log begins with commit {base.commit + 1:,} now; what was asked for lies before.",
        where=f"commit {commit:,}",
        why=f"retention or compaction has removed the commits up to {base.commit:,}; tables are kept as of that one",
        next=f"Ask from commit {base.commit + 1:,} on; a table's contents also at {base.commit:,}.",
    )


def _within(batch: pa.RecordBatch, after: int, upto: int) -> pa.RecordBatch:
    """The rows of commits in (after, upto]; commits never decrease within a batch."""
    commits = batch.column(0).to_numpy()
    begin, stop = np.searchsorted(commits, [after, upto], side="right")
    return batch.slice(int(begin), int(stop - begin))
