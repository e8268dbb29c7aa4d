"""Transactions as they enter the log: changes to one or more relations that must be seen together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

# Values of the `_op` column of a change table.
INSERT = 0  # the full new row; on a keyed relation it replaces a row of the same key
UPDATE = 1  # keyed relations only: the full new row, its key unchanged; may leave columns out (`_unchanged`)
DELETE = 2  # keyed: the key columns suffice; without a key: the full old row
TRUNCATE = 3  # every row of the relation goes; the row's columns are all null
# Added to INSERT, UPDATE or DELETE on a keyed relation: without effect, and set aside, where the key is there
# already (INSERT) or is not there. Without it an INSERT replaces, an UPDATE inserts, such a DELETE is nothing.
STRICT = 4
# Added to INSERT on a keyed relation: the source does not know whether the key was there. Only who shows changes tells
# it apart: the rows are those of an INSERT, and `& (STRICT - 1)` gives that.
UPSERT = 8

SELF = "headrace"  # the source of our own transactions: a change of definitions, what is sent again after a refusal

ORDINAL = "_t"  # int32: the transaction's ordinal within its batch
OPERATION = "_op"  # int8
UNCHANGED = "_unchanged"  # binary, null when complete: bit n (little-endian) set = column n keeps its old value


@dataclass(frozen=True, slots=True)
class TransactionOrigin:
    """Where a transaction came from.

    ``position`` is the source's own resume point *after* this transaction (text, opaque to everyone
    else); ``committed_us`` the source's commit time in microseconds since the epoch.
    """

    source: str
    position: str
    committed_us: int


Form = Literal["json", "csv", "request"]


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """What a source could not read as a row of ``relation``, for the quarantine: as it was found, where, and why not.

    ``form``: json (one object), csv (the header and the row) or request (whole transactions as JSON). ``ordinal``: the
    transaction of the batch without it.
    """

    relation: str
    place: str
    reason: str
    payload: bytes
    form: Form
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class TransactionBatch:
    """Consecutive whole transactions of one source, columnar.

    ``changes[relation]`` is an Arrow table: ``_t``, ``_op``, optionally ``_unchanged``, then the
    relation's columns in order. Rows are in the order they happened, so ``_t`` never decreases.
    A key change arrives as DELETE of the old key then INSERT of the new row.

    ``refused``: what stood between these rows at the source and is to be kept in the quarantine.
    """

    origins: tuple[TransactionOrigin, ...]
    changes: Mapping[str, pa.Table] = field(default_factory=dict)
    refused: tuple[RefusedRow, ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.changes.values())
