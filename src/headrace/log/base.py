"""What the log has in the place of commits that retention removed: every table's rows as of one commit, in part files.

    begin              which parts count, and what the first segment that is left must follow: a line of CRC, then JSON
    COMMIT.NUMBER.base a part: an Arrow IPC stream of one table's changes (``_op``, [``_unchanged``], columns)

A part is on the disk before ``begin`` names it, and ``begin`` takes the place of the one before by a rename: that is
the moment from which the commits up to ``commit`` are gone, whether or not their segments are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa
from zlib_ng import zlib_ng

from headrace.log.files import Files, write_all
from headrace.log.layout import DIGEST_BYTES, corrupt, other_layout, segment_name
from headrace.log.segment import Segment, segment_names
from headrace.model.transaction import TransactionOrigin

BEGIN_NAME = "begin"
PART_SUFFIX = ".base"
TEMPORARY = ".begin.tmp"
LAYOUT = 1
PART_BYTES = 32 << 20
_NONE = TransactionOrigin("", "", 0)


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a base: its name in the log's folder, rows, bytes, CRC-32 of all of it."""

    name: str
    rows: int
    bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class Base:
    """Every table as of ``commit``; 0, and nothing in it: the log has its beginning.

    ``origin``: of that commit. ``previous``: first commit, bytes in use and last hash of the segment that the first one
    left follows. ``parts[table]``: in the order in which they are read.
    """

    commit: int = 0
    origin: TransactionOrigin = _NONE
    previous: tuple[int, int, bytes] = (0, 0, bytes(DIGEST_BYTES))
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(part.bytes for parts in self.parts.values() for part in parts)

    @property
    def rows(self) -> dict[str, int]:
        return {table: sum(part.rows for part in parts) for table, parts in self.parts.items()}

    def names(self) -> set[str]:
        """The files that it is made of."""
        return {part.name for parts in self.parts.values() for part in parts}

    def pack(self) -> bytes:
        first, length, link = self.previous
        text = orjson.dumps({
            "layout": LAYOUT, "commit": self.commit, "previous": [first, length, link.hex()],
            "origin": [self.origin.source, self.origin.position, self.origin.committed_us],
            "parts": {table: [[p.name, p.rows, p.bytes, p.crc] for p in parts] for table, parts in self.parts.items()},
        })  # fmt: skip
        return b"%08x\n" % zlib_ng.crc32(text) + text


def unpack_base(data: bytes) -> Base:
    """``log.corrupt`` when the bytes are not as written, ``log.layout`` for those of another version."""
    crc, _, text = data.partition(b"\n")
    if crc != b"%08x" % zlib_ng.crc32(text):
        raise corrupt(BEGIN_NAME, 0, "the checksum of what says where the log begins differs")
    fields = orjson.loads(text)
    if fields["layout"] != LAYOUT:
        raise other_layout("log's base", fields["layout"], LAYOUT, BEGIN_NAME)
    first, length, link = fields["previous"]
    parts = {table: tuple(Part(*part) for part in of) for table, of in fields["parts"].items()}
    return Base(fields["commit"], TransactionOrigin(*fields["origin"]), (first, length, bytes.fromhex(link)), parts)


def read_base(path: Path) -> Base:
    """The base of the log in the folder ``path`` as it is now."""
    try:
        return unpack_base((path / BEGIN_NAME).read_bytes())
    except FileNotFoundError:
        return Base()


def retained(path: Path) -> tuple[Base, list[str]]:
    """The base, and the names of the segments behind it; what a crash has left of those before does not count."""
    while True:
        base = read_base(path)
        names = segment_names(path)
        if read_base(path).commit == base.commit:  # else it was moved between the two looks
            return base, [name for name in names if name >= segment_name(base.commit + 1)]


def link_to(segment: Segment) -> tuple[int, int, bytes]:
    """``previous`` of a base that ends where ``segment`` begins."""
    header = segment.header
    return header.previous_first, header.previous_length, header.previous


def opened(path: Path, part: Part) -> pa.Buffer:
    """A part's bytes, mapped and checked; ``log.corrupt`` where they are not as written.

    Raises ``FileNotFoundError`` for one that is gone.
    """
    with pa.memory_map(str(path / part.name)) as file:
        data = file.read_buffer()
    if len(data) != part.bytes or zlib_ng.crc32(data) != part.crc:
        raise corrupt(part.name, 0, "the checksum of this part of a table's base differs")
    return data


class PartsWriter:
    """Writes the parts of the base at ``commit``, each on the disk before the next is begun. Memory: one part."""

    def __init__(self, path: Path, commit: int, files: Files) -> None:
        self._path, self._commit, self._files = path, commit, files
        self._number = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[Part, ...]:
        """One table's changes in order: ``_op``, [``_unchanged``], columns. A part has one schema."""
        parts: list[Part] = []
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if held and (size + batch.nbytes > PART_BYTES or not batch.schema.equals(held[0].schema)):
                parts.append(self._part(held))
                held, size = [], 0
            if batch.num_rows:
                held.append(batch)
                size += batch.nbytes
        if held:
            parts.append(self._part(held))
        return tuple(parts)

    def _part(self, batches: list[pa.RecordBatch]) -> Part:
        made = pa.BufferOutputStream()
        with pa.ipc.new_stream(made, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        data = made.getvalue()
        name = f"{self._commit:020d}.{self._number:06d}{PART_SUFFIX}"
        self._number += 1
        self._files.remove(self._path / name)  # a crash may have left one that nobody names
        fd = self._files.open(self._path / name)
        try:
            with memoryview(data) as view:
                write_all(self._files, fd, view, 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        return Part(name, sum(batch.num_rows for batch in batches), len(data), zlib_ng.crc32(data))
