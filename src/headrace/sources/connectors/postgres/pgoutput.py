"""The pgoutput protocol (versions 1 and 2), read from bytes; no connection, no clock.

Control messages (Begin, Commit, Relation, Truncate) are parsed one by one. Row messages (Insert, Update, Delete) are
many, so they stay bytes until a whole batch is there; then one pass per *column* finds that column's values in all
rows at once. Message layouts: PostgreSQL's manual, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BEGIN, COMMIT, RELATION, TRUNCATE = b"BCRT"
INSERT, UPDATE, DELETE = b"IUD"
STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT = b"SEcA"
NEW, OLD_KEY, OLD_ROW = b"NKO"
NULL, UNCHANGED_TOAST, TEXT = b"nut"

EPOCH_US = 946_684_800_000_000  # 2000-01-01, where PostgreSQL's clock starts
_PADDING = bytes(8)  # lets a four-byte read at the last position stay inside

Integers = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Begin:
    """``final_lsn``: where the commit record of this transaction starts."""

    final_lsn: int
    committed_us: int


@dataclass(frozen=True, slots=True)
class Commit:
    """``end_lsn``: where the next record starts; a reader that has this transaction resumes there."""

    end_lsn: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type_oid: int
    modifier: int


@dataclass(frozen=True, slots=True)
class RelationMessage:
    oid: int
    schema: str
    table: str
    columns: tuple[RelationColumn, ...]


def begin(data: bytes, at: int) -> Begin:
    """The Begin message whose kind byte is at ``at``."""
    final_lsn, clock = struct.unpack_from(">Qq", data, at + 1)
    return Begin(final_lsn, clock + EPOCH_US)


def commit(data: bytes, at: int) -> Commit:
    return Commit(struct.unpack_from(">Q", data, at + 10)[0])


def stream_start(data: bytes, at: int) -> tuple[int, bool]:
    """(transaction, whether this is the first of it): what comes now is a part of that one, which has not committed.

    Each message then has the number of its subtransaction behind its kind.
    """
    xid, first = struct.unpack_from(">IB", data, at + 1)
    return xid, bool(first)


def stream_commit(data: bytes, at: int) -> tuple[int, Begin, Commit]:
    """(transaction, and of what its Begin and Commit would have told): all of it has been sent."""
    xid, _, final_lsn, end_lsn, clock = struct.unpack_from(">IBQQq", data, at + 1)
    return xid, Begin(final_lsn, clock + EPOCH_US), Commit(end_lsn)


def stream_abort(data: bytes, at: int) -> tuple[int, int]:
    """(transaction, its subtransaction that is undone): itself, when all of it is."""
    xid, subtransaction = struct.unpack_from(">II", data, at + 1)
    return xid, subtransaction


def relation(data: bytes, at: int) -> RelationMessage:
    oid = struct.unpack_from(">I", data, at + 1)[0]
    schema, at = _text(data, at + 5)
    table, at = _text(data, at)
    count = struct.unpack_from(">H", data, at + 1)[0]  # the byte before is the replica identity
    at += 3
    columns = []
    for _ in range(count):
        name, at = _text(data, at + 1)  # the byte before says whether it is part of the identity
        type_oid, modifier = struct.unpack_from(">Ii", data, at)
        at += 8
        columns.append(RelationColumn(name, type_oid, modifier))
    return RelationMessage(oid, schema or "pg_catalog", table, tuple(columns))


def truncated(data: bytes, at: int) -> tuple[int, ...]:
    """The relations of a Truncate message."""
    count = struct.unpack_from(">I", data, at + 1)[0]
    relations: tuple[int, ...] = struct.unpack_from(f">{count}I", data, at + 6)
    return relations


def truncate_row(oid: int, header: int) -> bytes:
    """A row message of our own: this relation is emptied. Goes among the others, so that order is kept."""
    return bytes(header) + struct.pack(">BI", TRUNCATE, oid)


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A zero-terminated string, and where the next field starts."""
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


@dataclass(frozen=True, slots=True)
class Tuples:
    """Where the values of n tuples lie: arrays of shape (columns, n). ``end``: first position after each tuple."""

    kinds: Kinds
    starts: Integers
    lengths: Integers
    end: Integers


class RowMessages:
    """Row messages laid end to end. Positions are offsets into ``bytes``; one entry per message, in order."""

    def __init__(self, messages: Sequence[bytes], header: int = 0) -> None:
        """``header``: how many bytes before the kind byte belong to the transport, the same in all."""
        lengths = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        self.bytes = np.frombuffer(b"".join([*messages, _PADDING]), dtype=np.uint8)
        # Overlapping views with a stride of one byte: an unaligned big-endian number at any position is one gather.
        self._wide = np.ndarray((len(self.bytes) - 3,), dtype=">u4", buffer=self.bytes, strides=(1,))
        self._short = np.ndarray((len(self.bytes) - 1,), dtype=">u2", buffer=self.bytes, strides=(1,))
        self.at: Integers = np.cumsum(lengths) - lengths + header
        self.kinds: Kinds = self.bytes[self.at]
        self.relations: Integers = self._wide[self.at + 1].astype(np.int64)

    def widths(self, at: Integers) -> Integers:
        """The number of columns of the tuples that start at ``at``."""
        return self._short[at].astype(np.int64)

    def tuples(self, at: Integers, columns: int) -> Tuples:
        """The tuples that start at ``at``; each must have that many columns (see ``widths``)."""
        kinds = np.empty((columns, len(at)), dtype=np.uint8)
        starts = np.empty((columns, len(at)), dtype=np.int64)
        lengths = np.zeros((columns, len(at)), dtype=np.int64)
        at = at + 2
        for column in range(columns):
            kinds[column] = kind = self.bytes[at]
            starts[column] = at + 5
            has_text = kind == TEXT
            if has_text.all():
                lengths[column] = self._wide[at + 1]
                at = starts[column] + lengths[column]
            else:
                lengths[column, has_text] = self._wide[at[has_text] + 1]
                at = at + 1 + np.where(has_text, 4 + lengths[column], 0)
        return Tuples(kinds, starts, lengths, at)
