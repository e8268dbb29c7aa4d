"""The bytes of a segment: its header, frame heads, and the mark that says how far the log is durable.

    segment  = header | frame | frame | ... | zeros (reserved space)
    frame    = head (128 bytes) | one Arrow IPC stream per relation | meta (JSON)

Everything is little-endian; header, frames and payloads start at multiples of 64 bytes. The head holds the
CRC of the meta, the meta the CRC of every payload, and each head the hash of the head before it: whoever
checks the chain of heads has pinned every byte. Nothing here touches a file.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from zlib_ng import zlib_ng

from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionOrigin

COMMIT = "_c"  # int64: the commit number; stands in the place of the batch's `_t`
LAYOUT = 1
ALIGNMENT = 64
HEAD_BYTES = 128
DIGEST_BYTES = 16
SUFFIX = ".segment"
MARK_NAME = "durable"
FRAME_MAGIC = b"HRf\x01"

_SEGMENT_MAGIC = b"HRlog\r\n\x1a"
_MARK_MAGIC = b"HRm\x01"
_SEGMENT = struct.Struct("<8sIIQQQ16sI")  # magic, crc, layout, first, previous first, previous length, digest, meta
_HEAD = struct.Struct("<4sIQQQQQII16s")  # magic, crc, length, first, last, durable, meta at, meta length, crc, digest
_MARK = struct.Struct("<4sIQQQ")  # magic, crc, segment, offset, end
MARK_BYTES = _MARK.size


def aligned(offset: int) -> int:
    return (offset + ALIGNMENT - 1) & -ALIGNMENT


def segment_name(first: int) -> str:
    return f"{first:020d}{SUFFIX}"


def digest(data: bytes | memoryview) -> bytes:
    """The link of the chain: 16 bytes over a frame's head or a segment's header."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def corrupt(segment: str, offset: int, why: str) -> HeadraceError:
    return HeadraceError(
        "log.corrupt",
        "The log is damaged.",
        where=f"segment {segment}, offset {offset}",
        why=why,
        next="`headrace log verify` tells what still stands. `headrace restore BACKUP DIR` makes the project anew from "
        "a backup, or set it up anew from its sources. Nothing was changed.",
    )


def other_layout(what: str, layout: int, known: int, where: str) -> HeadraceError:
    return HeadraceError(
        "log.layout",
        f"The {what} has layout {layout}; this version reads layout {known}.",
        where=where,
        next="Use the version of Headrace that wrote it, or a later one; `headrace restore BACKUP DIR` brings one of "
        "before back, for this version. Nothing was changed.",
    )


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment knows of the log before it, so that opening the log reads the last segment alone.

    ``previous_first`` and ``previous_length`` (bytes in use) name the segment before, 0 for the first one;
    ``previous`` is the hash of its last head; ``positions`` the last position of every source by then.
    """

    first: int
    previous_first: int
    previous_length: int
    previous: bytes
    positions: Mapping[str, str]

    def pack(self) -> bytes:
        """The header, padded to where frames start."""
        meta = orjson.dumps(dict(self.positions))
        fields = (self.first, self.previous_first, self.previous_length, self.previous, len(meta))
        crc = zlib_ng.crc32(_SEGMENT.pack(_SEGMENT_MAGIC, 0, LAYOUT, *fields) + meta)
        data = _SEGMENT.pack(_SEGMENT_MAGIC, crc, LAYOUT, *fields) + meta
        return data.ljust(aligned(len(data)), b"\0")


def unpack_header(view: memoryview, segment: str) -> tuple[SegmentHeader, int]:
    """The header and the offset of the first frame; ``log.corrupt`` or ``log.layout``."""
    if len(view) < _SEGMENT.size:
        raise corrupt(segment, 0, "the file is shorter than its header")
    magic, crc, layout, first, previous_first, previous_length, previous, meta_length = _SEGMENT.unpack_from(view)
    if magic != _SEGMENT_MAGIC:
        raise corrupt(segment, 0, "the file does not begin like a segment")
    meta = bytes(view[_SEGMENT.size : _SEGMENT.size + meta_length])
    fields = (layout, first, previous_first, previous_length, previous, meta_length)
    if zlib_ng.crc32(_SEGMENT.pack(magic, 0, *fields) + meta) != crc:
        raise corrupt(segment, 0, "the checksum of the segment's header differs")
    if layout != LAYOUT:  # every layout keeps the header's form
        raise other_layout("log", layout, LAYOUT, f"segment {segment}")
    if segment != segment_name(first):
        raise corrupt(segment, 0, f"the segment says that its first commit is {first}")
    header = SegmentHeader(first, previous_first, previous_length, previous, orjson.loads(meta))
    return header, aligned(_SEGMENT.size + meta_length)


@dataclass(frozen=True, slots=True)
class FrameHead:
    """A frame's first 128 bytes. ``length`` covers the whole frame with its padding.

    ``durable``: the offset up to which the segment was synced when the frame was written. A broken frame with
    a sound one behind it that was written *after* a sync of the broken one is damage, not a torn write.
    """

    length: int
    first: int
    last: int
    durable: int
    meta_offset: int
    meta_length: int
    meta_crc: int
    previous: bytes

    def pack(self) -> bytes:
        fields = (self.length, self.first, self.last, self.durable, self.meta_offset, self.meta_length, self.meta_crc)
        data = _HEAD.pack(FRAME_MAGIC, 0, *fields, self.previous).ljust(HEAD_BYTES, b"\0")
        return data[:4] + zlib_ng.crc32(data[8:]).to_bytes(4, "little") + data[8:]


def unpack_head(data: memoryview) -> FrameHead | None:
    """The head in exactly 128 bytes, or None when its bytes are not sound."""
    magic, crc, *fields = _HEAD.unpack_from(data)
    if magic != FRAME_MAGIC or zlib_ng.crc32(data[8:]) != crc:
        return None
    return FrameHead(*fields)


@dataclass(frozen=True, slots=True)
class Payload:
    """Where one relation's Arrow IPC stream lies: ``offset`` from the frame's start, bytes, rows, CRC-32."""

    offset: int
    length: int
    rows: int
    crc: int


@dataclass(frozen=True, slots=True)
class FrameMeta:
    """A frame's table of contents: payload per relation, and the origin of each of its transactions.

    ``sources`` is run-length coded: (name, how many transactions).
    """

    payloads: dict[str, Payload]
    sources: list[tuple[str, int]]
    positions: list[str]
    committed_us: list[int]

    def pack(self) -> bytes:
        payloads = {name: [p.offset, p.length, p.rows, p.crc] for name, p in self.payloads.items()}
        fields = {"relations": payloads, "sources": self.sources}
        return orjson.dumps({**fields, "positions": self.positions, "committed_us": self.committed_us})

    @property
    def rows(self) -> dict[str, int]:
        return {name: payload.rows for name, payload in self.payloads.items()}

    def origins(self) -> Iterator[TransactionOrigin]:
        names = (name for name, count in self.sources for _ in range(count))
        for name, position, committed_us in zip(names, self.positions, self.committed_us, strict=True):
            yield TransactionOrigin(name, position, committed_us)

    def last_positions(self) -> dict[str, str]:
        """The newest position of every source that occurs."""
        found, at = {}, 0
        for name, count in self.sources:
            at += count
            found[name] = self.positions[at - 1]
        return found


def unpack_meta(data: bytes | memoryview) -> FrameMeta:
    fields: dict[str, Any] = orjson.loads(data)
    payloads = {name: Payload(*numbers) for name, numbers in fields["relations"].items()}
    sources = [(name, count) for name, count in fields["sources"]]
    return FrameMeta(payloads, sources, fields["positions"], fields["committed_us"])


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the log is durable: segment (its first commit), offset in it, last commit (0 when empty)."""

    segment: int
    offset: int
    end: int

    def pack(self) -> bytes:
        data = _MARK.pack(_MARK_MAGIC, 0, self.segment, self.offset, self.end)
        return data[:4] + zlib_ng.crc32(data[8:]).to_bytes(4, "little") + data[8:]


def unpack_mark(data: bytes) -> Mark | None:
    """The mark, or None when its bytes are not sound."""
    if len(data) != MARK_BYTES:
        return None
    magic, crc, segment, offset, end = _MARK.unpack(data)
    if magic != _MARK_MAGIC or zlib_ng.crc32(data[8:]) != crc:
        return None
    return Mark(segment, offset, end)
