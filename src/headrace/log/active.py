"""The segment that is being written: frames go in whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from zlib_ng import zlib_ng

from headrace.log.files import Files, SyncFailed, write_all
from headrace.log.layout import (
    HEAD_BYTES,
    FrameHead,
    FrameMeta,
    Payload,
    SegmentHeader,
    aligned,
    digest,
    segment_name,
)
from headrace.log.merge import Frame, pieces

TEMPORARY = ".tmp"
_BUFFER_BYTES = 1 << 20
_GROWTH_BYTES = 1 << 20


class ActiveSegment:
    """Appends frames to one file. ``end`` is the durable length; what lies behind it is not yet part of the log.

    Methods raise ``OSError``; after one, ``undo`` takes the file back to ``end``.
    """

    def __init__(self, files: Files, path: Path, first: int, end: int, link: bytes) -> None:
        self._files = files
        self.path = path
        self.first = first
        self.end = end
        self.link = link  # the hash of the last durable head
        self._fd = files.open(path)
        self._allocated = end
        self._written = end
        self._written_link = link

    @classmethod
    def create(
        cls,
        files: Files,
        folder: Path,
        *,
        first: int,
        previous: ActiveSegment | None,
        positions: Mapping[str, str],
        size: int,
    ) -> ActiveSegment:
        """A new segment of ``size`` reserved bytes; it has its name only once its header is on the disk."""
        before = (previous.first, previous.end, previous.link) if previous else (0, 0, bytes(16))
        header = SegmentHeader(first, *before, positions).pack()
        path = folder / segment_name(first)
        temporary = path.with_suffix(TEMPORARY)
        try:
            fd = files.open(temporary)
            try:
                files.allocate(fd, 0, max(size, len(header)))
                write_all(files, fd, header, 0)
                files.sync(fd)
            finally:
                files.close(fd)
            files.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                files.remove(temporary)
            raise
        try:
            files.sync_directory(folder)
            segment = cls(files, path, first, len(header), digest(header))
        except OSError as error:  # the new segment may be there after a restart: the old one must not grow any more
            raise SyncFailed(error.errno, error.strerror) from error
        segment._allocated = max(size, len(header))
        return segment

    def reserve(self, length: int, size: int) -> None:
        """Make sure of ``length`` more bytes, and of ``size`` in all, before anything is written."""
        self._grow(max(self._written + length, size))

    def _grow(self, upto: int) -> None:
        if upto > self._allocated:
            self._files.allocate(self._fd, self._allocated, upto - self._allocated)
            self._allocated = upto

    def write(self, frame: Frame) -> None:
        """Append one frame. Its head goes last: until then no reader can take the bytes for a frame."""
        out = _Out(self, self._written + HEAD_BYTES)
        payloads = {}
        for name, table in frame.tables.items():
            out.align()
            begin = out.position
            out.crc = 0
            buffered = pa.BufferedOutputStream(pa.PythonFile(out, mode="w"), _BUFFER_BYTES)
            with pa.ipc.new_stream(buffered, table.schema) as stream:
                for batch in pieces(table):
                    stream.write_batch(batch)
            buffered.flush()
            payloads[name] = Payload(begin - self._written, out.position - begin, table.num_rows, out.crc)
        out.align()
        meta = _meta(frame, payloads).pack()
        head = FrameHead(
            length=aligned(out.position + len(meta)) - self._written,
            first=frame.first,
            last=frame.last,
            durable=self.end,
            meta_offset=out.position - self._written,
            meta_length=len(meta),
            meta_crc=zlib_ng.crc32(meta),
            previous=self._written_link,
        )
        out.write(meta)
        out.align()
        out.flush()
        packed = head.pack()
        write_all(self._files, self._fd, packed, self._written)
        self._written += head.length
        self._written_link = digest(packed)

    def put(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write ``data`` at ``offset``, reserving more space when the estimate was short."""
        if offset + len(data) > self._allocated:
            self._grow(offset + len(data) + _GROWTH_BYTES)
        write_all(self._files, self._fd, data, offset)

    def sync(self) -> None:
        """Make every written frame durable."""
        self._files.sync(self._fd)
        self.end, self.link = self._written, self._written_link

    def undo(self, end: int, link: bytes) -> None:
        """Go back to the length ``end``, durably: nothing of what was written behind it can come back."""
        self._files.truncate(self._fd, end)
        self._allocated = end
        self._files.sync(self._fd)
        self.end = self._written = end
        self.link = self._written_link = link

    def rewrite(self, begin: int) -> None:
        """Write the bytes from ``begin`` to the end once more, cut what is behind, and sync.

        After a sync that failed, the page cache may hold as clean what the disk never got; only bytes that
        are written again are surely on it.
        """
        for offset in range(begin, self.end, _BUFFER_BYTES):
            data = self._files.read(self._fd, min(_BUFFER_BYTES, self.end - offset), offset)
            write_all(self._files, self._fd, data, offset)
        self.undo(self.end, self.link)

    def seal(self) -> None:
        """Give back the reserved space and close."""
        try:
            with contextlib.suppress(OSError):  # only space is lost
                self._files.truncate(self._fd, self.end)
        finally:
            self.close()

    def close(self) -> None:
        self._files.close(self._fd)


class _Out:
    """The file-like object that Arrow writes a frame to: gathers small pieces, counts and sums them."""

    closed = False

    def __init__(self, segment: ActiveSegment, position: int) -> None:
        self._segment = segment
        self._held = bytearray()
        self.position = position
        self.crc = 0

    def write(self, data: bytes) -> int:
        length = len(data)
        self.crc = zlib_ng.crc32(data, self.crc)
        if length >= _BUFFER_BYTES:
            self.flush()
            self._segment.put(data, self.position)
        else:
            self._held += data
        self.position += length
        if len(self._held) >= _BUFFER_BYTES:
            self.flush()
        return length

    def align(self) -> None:
        self.write(bytes(aligned(self.position) - self.position))

    def flush(self) -> None:
        if self._held:
            self._segment.put(self._held, self.position - len(self._held))
            self._held = bytearray()

    def close(self) -> None:
        """Arrow closes its stream after every relation; the frame goes on."""


def _meta(frame: Frame, payloads: dict[str, Payload]) -> FrameMeta:
    sources: list[tuple[str, int]] = []
    for origin in frame.origins:
        if sources and sources[-1][0] == origin.source:
            sources[-1] = (origin.source, sources[-1][1] + 1)
        else:
            sources.append((origin.source, 1))
    positions = [origin.position for origin in frame.origins]
    return FrameMeta(payloads, sources, positions, [origin.committed_us for origin in frame.origins])
