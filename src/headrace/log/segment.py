"""One segment file as readers see it: memory-mapped, every part checked before it is handed out."""

from __future__ import annotations

import mmap
import os
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path

import pyarrow as pa
from zlib_ng import zlib_ng

from headrace.log.layout import (
    FRAME_MAGIC,
    HEAD_BYTES,
    MARK_NAME,
    SUFFIX,
    FrameHead,
    FrameMeta,
    Mark,
    aligned,
    corrupt,
    digest,
    unpack_head,
    unpack_header,
    unpack_mark,
    unpack_meta,
)

_PASSED_BYTES = 4 << 20
_MARK_ATTEMPTS = 100  # the writer changes the mark in place: a read may see half of it


def segment_names(path: Path) -> list[str]:
    """The names of the log's segments in order; none when there is no log."""
    try:
        return sorted(file.name for file in path.iterdir() if file.suffix == SUFFIX)
    except FileNotFoundError:
        return []


def read_mark(path: Path) -> Mark | None:
    """How far the log in ``path`` is durable; None when there is no mark or its bytes are not sound."""
    for _ in range(_MARK_ATTEMPTS):
        try:
            mark = unpack_mark((path / MARK_NAME).read_bytes())
        except FileNotFoundError:
            return None
        if mark is not None:
            return mark
    return None


class Segment:
    """A mapped segment. It never looks beyond what its caller asks for: the tail may not be durable yet.

    Raises ``HeadraceError`` ``log.corrupt`` with the segment and the offset wherever bytes are not as written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._map()
        with memoryview(self._buffer) as view:
            self.header, self.start = unpack_header(view, self.name)
        self.digest = digest(self.header.pack())
        # The index: one entry a frame, for the frames asked for so far; of plain numbers, as there may be very many.
        self._offsets = array("q")
        self._lasts = array("q")
        self._next = self.start
        self._passed = 0

    def _map(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise corrupt(self.name, 0, "the file is missing") from error
        try:
            if os.fstat(fd).st_size == 0:
                raise corrupt(self.name, 0, "the file is empty")
            self._mapped = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        self._buffer: pa.Buffer = pa.py_buffer(self._mapped)

    @property
    def size(self) -> int:
        return len(self._mapped)

    def part(self, offset: int, length: int) -> pa.Buffer:
        """That part of the file, not copied. Maps again when the file has grown since."""
        if offset + length > self.size:
            self._map()
            if offset + length > self.size:
                raise corrupt(self.name, offset, f"the file ends at {self.size}, inside a frame")
        return self._buffer.slice(offset, length)

    def passed(self, offset: int) -> None:
        """Who reads on has no use for the pages before ``offset``: they are let go of, a few MiB at a time.

        Else they count as this process's memory, up to all segments that it has open. Whoever still looks at them, or
        does so again, is given the same bytes by the file.
        """
        if offset < self._passed:
            self._passed = 0  # somebody began anew
        if offset - self._passed > _PASSED_BYTES:
            self._mapped.madvise(mmap.MADV_DONTNEED, 0, offset & -mmap.PAGESIZE)
            self._passed = offset

    def head(self, offset: int) -> FrameHead:
        """The head of the frame at ``offset``."""
        with memoryview(self.part(offset, HEAD_BYTES)) as view:
            head = unpack_head(view)
        if head is None:
            raise corrupt(self.name, offset, "there is no sound frame here")
        return head

    def digest_at(self, offset: int) -> bytes:
        """The hash of the head of the frame at ``offset``, which the next one must hold."""
        return digest(memoryview(self.part(offset, HEAD_BYTES)))

    def meta(self, offset: int, head: FrameHead) -> FrameMeta:
        """The table of contents of the frame at ``offset``."""
        data = self.part(offset + head.meta_offset, head.meta_length)
        if zlib_ng.crc32(data) != head.meta_crc:
            raise corrupt(self.name, offset, "the checksum of the frame's table of contents differs")
        return unpack_meta(memoryview(data))

    def payload(self, offset: int, meta: FrameMeta, relation: str) -> pa.Buffer:
        """The Arrow IPC stream of ``relation`` in the frame at ``offset``, its checksum verified."""
        entry = meta.payloads[relation]
        data = self.part(offset + entry.offset, entry.length)
        if zlib_ng.crc32(data) != entry.crc:
            raise corrupt(self.name, offset, f"the checksum of the rows of {relation} differs")
        return data

    def linked(self, offset: int, first: int, previous: bytes) -> FrameHead:
        """The head of the whole frame at ``offset`` that begins with commit ``first`` and follows from ``previous``."""
        head = self.head(offset)
        if head.previous != previous:
            raise corrupt(self.name, offset, "the frame does not follow from the one before it")
        if head.first != first or head.last < first:
            raise corrupt(self.name, offset, f"the frame holds commits {head.first} to {head.last}, not from {first}")
        self.part(offset, head.length)
        return head

    def check(self, offset: int, first: int, previous: bytes) -> tuple[FrameHead, FrameMeta]:
        """Everything about the frame at ``offset``: chain, commit numbers, contents."""
        head = self.linked(offset, first, previous)
        meta = self.meta(offset, head)
        for relation in meta.payloads:
            self.payload(offset, meta, relation)
        return head, meta

    def has_head(self, offset: int) -> bool:
        """Whether a sound head stands at ``offset``."""
        if offset + HEAD_BYTES > self.size:
            return False
        with memoryview(self.part(offset, HEAD_BYTES)) as view:
            return unpack_head(view) is not None

    def written_after(self, offset: int) -> bool:
        """Whether behind ``offset`` stands a sound frame that was written when ``offset`` was already synced."""
        data = self.path.read_bytes()  # once, and most of it never mapped before: reading is cheaper than faults
        at = data.find(FRAME_MAGIC, offset)
        while at >= 0 and at + HEAD_BYTES <= len(data):
            if at == aligned(at):
                head = unpack_head(memoryview(data)[at : at + HEAD_BYTES])
                if head is not None and offset < head.durable <= at:
                    return True
            at = data.find(FRAME_MAGIC, at + 1)
        return False

    def frames(self, after: int, upto: int) -> list[tuple[int, FrameHead]]:
        """Offset and head of every frame that holds a commit in (after, upto]; all of them must be durable.

        Work: the frames of the range, plus once the heads of the frames before it in this segment.
        """
        while (self._lasts[-1] if self._lasts else self.header.first - 1) < upto:
            expected = self._lasts[-1] + 1 if self._lasts else self.header.first
            head = self.head(self._next)
            if head.first != expected or head.last < expected:
                raise corrupt(self.name, self._next, f"the frame begins with commit {head.first}, not {expected}")
            self._offsets.append(self._next)
            self._lasts.append(head.last)
            self._next += head.length
        begin = bisect_right(self._lasts, after)
        stop = bisect_left(self._lasts, upto) + 1
        return [(offset, self.head(offset)) for offset in self._offsets[begin:stop]]
