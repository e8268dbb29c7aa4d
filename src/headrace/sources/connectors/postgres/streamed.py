"""Large transactions that the server sends before they commit: kept on disk, in files without a name, until they do.

Such a file goes with its last reader, however that ends; after a lost connection the server sends all of it again.
In memory are about 50 bytes a row.
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
import weakref
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import psycopg
import pyarrow as pa

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.postgres.pgoutput import Integers, RelationMessage

VERSION_MIN = 140_000  # of a server that can
PIECE_BYTES = 16 << 20  # of messages read back, and so decoded, at a time
_HELD_BYTES = 1 << 20  # of messages that are written at a time
_XID_BYTES = 4  # behind the kind of each message in a stream
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# What has become of transactions, of whose numbers messages have the lower half only.
_FATES = """
SELECT x, pg_xact_status(((((next >> 32) - (x >= (next & 4294967295))::int) << 32) + x)::text::xid8)
FROM unnest(%s::bigint[]) AS x, (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) AS _
"""


@dataclass(slots=True)
class Streaming:
    """Whether transactions are to come before they commit; ``failed``: the server has ended a stream with an error.

    PostgreSQL does so where a savepoint that is undone has emptied a table that is altered later: it can send it whole.
    """

    wanted: bool
    project: Path  # beneath its folder the files lie
    side: Callable[[], psycopg.Connection[Any]] | None = None  # a connection for queries
    failed: bool = False

    def protocol(self, server_version: int) -> str:
        """What START_REPLICATION is told."""
        if self.wanted and not self.failed and server_version >= VERSION_MIN:
            return "proto_version '2', streaming 'on'"
        return "proto_version '1'"

    @property
    def folder(self) -> Path:
        state = self.project / ".headrace"
        return state if state.is_dir() else Path(tempfile.gettempdir())

    def ended(self, error: psycopg.Error) -> None:
        """The server has ended the stream: unless it stops, or the session was ended, it is asked to send all whole."""
        self.failed = self.failed or not (error.sqlstate or "57").startswith(("08", "53", "57"))

    def undone(self, subtransactions: Collection[int]) -> list[int]:
        """Those of a committed transaction that have not happened.

        The server is asked, since it does not tell of all: where it had to write changes to its own files before it
        could send them (after a lost connection, or beside a large value), it forgets that it has sent them (seen with
        15.18). Raises ``LookupError`` where the server no longer knows; then it is asked to send all whole.
        """
        if not subtransactions:
            return []
        assert self.side is not None
        fates = dict(self.side().execute(_FATES, [list(subtransactions)]).fetchall())
        if None in fates.values():
            self.failed = True
            raise LookupError("the server does not know any more which savepoints were undone")
        return [number for number, fate in fates.items() if fate == "aborted"]


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """A full disk is told as such."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise HeadraceError(
            "log.full",
            "no space is left for a transaction that the server sends before it commits",
            where=str(folder),
            why=str(error),
            next="free some space: a `headrace up` that still runs goes on by itself; start one that has ended, or"
            " `--once`, again",
        ) from error


class _File:
    """A file without a name, written at its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _room(folder), tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            self._fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._fd)
        self._held = bytearray()

    def write(self, content: bytes) -> None:
        self._held += content
        if len(self._held) >= _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        with _room(self._folder):
            left = memoryview(self._held)
            while left:
                left = left[os.write(self._fd, left) :]
        self._held = bytearray()

    def read(self, begin: int, end: int) -> bytes:
        """The bytes from ``begin`` to ``end``, which have been flushed."""
        found = bytearray()
        while len(found) < end - begin:
            found += os.pread(self._fd, end - begin - len(found), begin + len(found))
        return bytes(found)


class OnDisk(Sequence[bytes]):
    """Row messages of one transaction, read when they are asked for; ``sizes``: of each, in bytes."""

    def __init__(self, file: _File, folder: Path, starts: Integers, sizes: Integers) -> None:
        self._file, self._folder, self._starts, self.sizes = file, folder, starts, sizes

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, int):
            return self._file.read(int(self._starts[place]), int(self._starts[place] + self.sizes[place]))
        starts, sizes = self._starts[place], self.sizes[place]
        if not len(starts):
            return []
        first = int(starts[0])
        content = self._file.read(first, int(starts[-1] + sizes[-1]))
        bounds = zip((starts - first).tolist(), (starts - first + sizes).tolist(), strict=True)
        return [content[begin:end] for begin, end in bounds]

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces():
            yield from self[piece]

    def chosen(self, numbers: Sequence[int]) -> OnDisk:
        """The messages of these numbers, which rise."""
        at = np.asarray(numbers, dtype=np.int64)
        return OnDisk(self._file, self._folder, self._starts[at], self.sizes[at])

    def pieces(self) -> Iterator[slice]:
        """Runs of messages of about ``PIECE_BYTES`` in the file, or of one message."""
        if not len(self):
            return
        part = (self._starts + self.sizes) // PIECE_BYTES
        bounds = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
        for begin, end in pairwise(bounds):
            yield slice(begin, end)

    def put(self, table: pa.Table) -> pa.Table:
        """The same table, its values in a file that is mapped."""
        with _room(self._folder), tempfile.TemporaryFile(dir=self._folder) as file:
            with pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
            file.flush()
            # Not by Python's mmap, which keeps the file open: there may be thousands of them.
            with pa.memory_map(f"/dev/fd/{file.fileno()}") as mapped, pa.ipc.open_stream(mapped) as found:
                return found.read_all()


class Streamed:
    """One transaction, as far as the server has sent it. Its messages have ``header`` bytes of transport each."""

    def __init__(self, folder: Path, header: int) -> None:
        self._folder, self._cut = folder, header + 1
        self._file = _File(folder)
        self._sizes, self._xids = array("I"), array("I")
        self._described: list[tuple[int, int, RelationMessage]] = []
        self._aborted: set[int] = set()

    def add(self, message: bytes) -> None:
        """A row message as it came, with the number of its subtransaction."""
        self.put(self.xid(message), message[: self._cut] + message[self._cut + _XID_BYTES :])

    def put(self, xid: int, message: bytes) -> None:
        """A row message as it would have come outside of a stream."""
        self._xids.append(xid)
        self._sizes.append(len(message))
        self._file.write(message)

    def xid(self, message: bytes) -> int:
        """The subtransaction of a message, or the transaction itself."""
        number: int = struct.unpack_from(">I", message, self._cut)[0]
        return number

    def describe(self, xid: int, message: RelationMessage) -> None:
        """The rows that come now, until the next such message, are of that form."""
        self._described.append((len(self._sizes), xid, message))

    def abort(self, xid: int) -> None:
        """Nothing of that subtransaction has happened. Those within it are told of by themselves."""
        self._aborted.add(xid)

    def subtransactions(self, xid: int) -> set[int]:
        """What is left of transaction ``xid`` is of these, or its own."""
        return {*np.unique(np.array(self._xids)).tolist(), *(d[1] for d in self._described)} - self._aborted - {xid}

    def committed(self) -> tuple[OnDisk, list[tuple[int, RelationMessage]]]:
        """What is left of it, and before which of these messages a description came."""
        self._file.flush()
        sizes = np.array(self._sizes, dtype=np.int64)
        left = np.isin(np.array(self._xids, dtype=np.int64), list(self._aborted), invert=True)
        kept = np.flatnonzero(left)
        starts = np.cumsum(sizes) - sizes
        described = [
            (int(np.searchsorted(kept, at)), message)
            for at, xid, message in self._described
            if xid not in self._aborted
        ]
        return OnDisk(self._file, self._folder, starts[kept], sizes[kept]), described
