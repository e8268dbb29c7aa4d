"""Many small batches into few large ones: for a frame when it is written, for a task when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.log.layout import COMMIT
from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin

BATCH_ROWS = 65_536
BATCH_BYTES = 16 << 20
_ORDINAL_TYPE, _OPERATION_TYPE = pa.int32(), pa.int8()


@dataclass(frozen=True, slots=True)
class Frame:
    """What one frame will hold: consecutive transactions, their rows merged by relation.

    ``first``: the commit of ``origins[0]``. ``tables[relation]``: columns ``_c``, ``_op``, ...; at least one row.
    """

    first: int
    origins: Sequence[TransactionOrigin]
    tables: dict[str, pa.Table]

    @property
    def last(self) -> int:
        return self.first + len(self.origins) - 1


def check(batch: TransactionBatch) -> None:
    """Refuse (``ValueError``) what would break the order of the log; looks at ``_t`` alone."""
    if not batch.origins:
        raise ValueError("a batch without transactions")
    for relation, table in batch.changes.items():
        if table.num_columns < 2 or table.field(0).name != ORDINAL or table.field(1).name != OPERATION:
            raise ValueError(f"{relation}: the columns must begin with {ORDINAL}, {OPERATION}")
        ordinals, operations = table.column(0), table.column(1)
        if ordinals.type != _ORDINAL_TYPE or operations.type != _OPERATION_TYPE:
            raise ValueError(f"{relation}: {ORDINAL} must be int32 and {OPERATION} int8")
        if ordinals.null_count or operations.null_count:
            raise ValueError(f"{relation}: {ORDINAL} and {OPERATION} must not be null")
        if table.num_rows and not _rises(_integers(ordinals), len(batch.origins)):
            raise ValueError(f"{relation}: {ORDINAL} must rise from 0 to below {len(batch.origins)}")


def _integers(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """An int32 column without nulls. Arrow's own way lets go of the interpreter: with many writers another switch."""
    if column.num_chunks != 1:
        return column.to_numpy()  # type: ignore[no-any-return]
    chunk = column.chunk(0)
    return np.frombuffer(chunk.buffers()[1], np.int32, len(chunk), chunk.offset * 4)


def _rises(ordinals: npt.NDArray[np.int32], transactions: int) -> bool:
    if transactions == 1:  # most batches: half the work
        return not np.count_nonzero(ordinals)
    inside = ordinals[0] >= 0 and ordinals[-1] < transactions
    return bool(inside and (ordinals[1:] >= ordinals[:-1]).all())


def size_of(part: pa.Table | pa.RecordBatch, small: int = 64 << 10) -> int:
    """About how many bytes it holds; below ``small`` perhaps too many. Exact counting costs 2 µs a column and chunk."""
    whole: int = part.get_total_buffer_size()  # of the buffers, even when it is a small part of them
    exact: int = whole if whole <= small else part.nbytes
    return exact


def frames(batches: Iterable[TransactionBatch], first: int) -> Iterator[Frame]:
    """The batches as frames, numbered from ``first``; a relation whose columns changed begins another frame."""
    group: list[TransactionBatch] = []
    schemas: dict[str, pa.Schema] = {}
    for batch in batches:
        filled = {name: table.schema for name, table in batch.changes.items() if table.num_rows}
        if any(not schemas.get(name, schema).equals(schema, check_metadata=True) for name, schema in filled.items()):
            frame = _merged(group, first)
            yield frame
            first, group, schemas = frame.last + 1, [], {}
        group.append(batch)
        schemas |= filled
    if group:
        yield _merged(group, first)


def _merged(group: list[TransactionBatch], first: int) -> Frame:
    origins: list[TransactionOrigin] = []
    parts: dict[str, tuple[list[pa.Table], list[int]]] = {}
    for batch in group:
        for name, table in batch.changes.items():
            if table.num_rows:
                tables, bases = parts.setdefault(name, ([], []))
                tables.append(table)
                bases.append(first + len(origins))
        origins.extend(batch.origins)
    return Frame(first, origins, {name: _numbered(tables, bases) for name, (tables, bases) in parts.items()})


def _numbered(tables: list[pa.Table], bases: list[int]) -> pa.Table:
    """The tables one after another, ``_t`` replaced by the commit number."""
    table = pa.concat_tables(tables)
    commits = table.column(0).to_numpy().astype(np.int64)
    commits += np.repeat(np.array(bases, dtype=np.int64), [part.num_rows for part in tables])
    return table.set_column(0, COMMIT, pa.array(commits))


def pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The table as record batches of at most ``BATCH_ROWS`` rows and about ``BATCH_BYTES``."""
    size = size_of(table, BATCH_BYTES)
    if table.num_rows <= BATCH_ROWS and size <= BATCH_BYTES:
        return iter(table.combine_chunks().to_batches())  # of many small chunks a third of the work of joining slices
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES * table.num_rows // size))
    return coalesced(table.to_batches(max_chunksize=rows))


def coalesced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, small neighbours of equal columns joined; large ones are not copied."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if held and (
            rows + batch.num_rows > BATCH_ROWS
            or size + size_of(batch) > BATCH_BYTES
            or not batch.schema.equals(held[0].schema, check_metadata=True)
        ):
            yield _joined(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size += size_of(batch)
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
