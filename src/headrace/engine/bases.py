"""A base of the log: each table's rows as of a commit, from the base before and the changes since, in bounded memory.

A table too large to be held is parted by the hash of its key: its changes are written out once, a file or more for each
part of the keys, and each part is replayed by itself.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.formats import recorded
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.log.base import Part, PartsWriter
from headrace.log.read import LogReader
from headrace.model.delivery import WEIGHT
from headrace.model.schema import Relation
from headrace.model.transaction import INSERT, OPERATION, TRUNCATE, UNCHANGED
from headrace.serve.replay import Replay
from headrace.state.order import fixed_width
from headrace.state.row_hash import row_hashes
from headrace.state.run import column
from headrace.state.sorting import stable_order

SHARE_BYTES = 128 << 20  # changes of a table that are replayed together, about
SHARES_MAX = 256  # beyond SHARE_BYTES times this the shares grow
BATCH_ROWS = 65_536
FOLDER = "sorting"  # in the log's folder: what is written out on the way
_HEAD = (OPERATION, UNCHANGED)


def parts(
    log: Path, tables: Mapping[str, Relation], upto: int, writer: PartsWriter, rest: Callable[[], None]
) -> dict[str, tuple[Part, ...]]:
    """The parts of the base at ``upto``, on the disk. A table that has not changed since the base before keeps its own.

    A table of which nothing but its changes is known any more (it is not in ``tables``) keeps them all. ``rest`` is
    called now and then. Work: the tables that have changed, their base and all changes since.
    """
    reader = LogReader(log)
    before, sizes = reader.base, defaultdict[str, int](int)
    for _, meta in reader.frames(before.commit, upto):
        for name, payload in meta.payloads.items():
            sizes[name] += payload.length
    refs = reader.refs(0, upto)
    made: dict[str, tuple[Part, ...]] = {}
    for name in sorted(before.parts.keys() | sizes.keys()):
        if name not in sizes:
            made[name] = before.parts[name]
            continue
        size = sizes[name] + sum(part.bytes for part in before.parts.get(name, ()))
        changes = _restful(reader.read([ref for ref in refs if name in ref.rows], name, 0, upto), rest)
        if name in tables:
            made[name] = writer.write(contents(tables[name], changes, size, log / FOLDER))
        else:
            made[name] = writer.write(batch.select(batch.schema.names[1:]) for batch in changes)
    return made


def contents(
    relation: Relation, changes: Iterable[pa.RecordBatch], size: int, folder: Path
) -> Iterator[pa.RecordBatch]:
    """A table after ``changes`` (as ``LogReader.read`` gives them, about ``size`` bytes), each row as an insert.

    Columns that the log has and the relation has not come behind the relation's. ``folder``: for what has to be
    written out; it is emptied before and after. Memory: about ``SHARE_BYTES``.
    """
    count = min(SHARES_MAX, -(-size // SHARE_BYTES))
    shares: _Held | _Written = _Held() if count <= 1 else _Written(folder, relation, count)
    others: dict[str, pa.DataType] = {}
    try:
        for given in changes:
            truncates = np.flatnonzero(given.column(OPERATION).to_numpy() == TRUNCATE)
            if len(truncates):
                shares.clear()
            batch = given.slice(int(truncates[-1]) + 1) if len(truncates) else given
            known = {*_HEAD, *relation.names}
            others |= {f.name: f.type for f in list(batch.schema)[1:] if f.name not in known}
            shares.add(batch)
        columns = pa.schema([*arrow_schema(relation.columns), *(pa.field(n, t) for n, t in others.items())])
        for share in shares:
            replay = Replay(relation, columns)
            for batch in share:
                replay.add(batch)
            yield from _inserts(replay.contents())
    finally:
        shares.close()


def _inserts(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    copies = column(rows, WEIGHT)
    rows = rows.drop_columns([WEIGHT])
    if (copies != 1).any():
        rows = rows.take(pa.array(np.repeat(np.arange(len(copies)), copies)))
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        operations = pa.array(np.full(batch.num_rows, INSERT, np.int8))
        yield pa.RecordBatch.from_arrays([operations, *batch.columns], names=[OPERATION, *batch.schema.names])


def _restful(batches: Iterable[pa.RecordBatch], rest: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        rest()


class _Held:
    """The changes of a table that is small: one share, in memory."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def clear(self) -> None:
        self._batches = []

    def __iter__(self) -> Iterator[list[pa.RecordBatch]]:
        yield self._batches

    def close(self) -> None:
        self._batches = []


class _Written:
    """The changes of a table by the hash of its key (of its row, where it has none), in files: Arrow IPC streams."""

    def __init__(self, folder: Path, relation: Relation, count: int) -> None:
        self._folder, self._count = folder, count
        names = relation.key or relation.names
        types = {field.name: field.type for field in arrow_schema(relation.columns)}
        # Any column will do that has a hash; rows that differ in the others only go into one share.
        self._by = {name: types[name] for name in names if hashable(types[name])}
        self._open: dict[int, pa.RecordBatchStreamWriter] = {}
        self._schema: pa.Schema | None = None
        self._files = 0
        self.clear()

    def add(self, batch: pa.RecordBatch) -> None:
        if self._schema is None or not batch.schema.equals(self._schema):
            self._finish()
            self._schema, self._files = batch.schema, self._files + 1
        keys = [recorded.values(batch, name, arrow) for name, arrow in self._by.items()]
        share = (row_hashes(keys, batch.num_rows) % np.uint64(self._count)).astype(np.int64)
        order = stable_order(share)
        batch = batch.take(pa.array(order))
        places, starts = np.unique(share[order], return_index=True)
        for place, begin, stop in zip(places.tolist(), starts, [*starts[1:], len(order)], strict=True):
            if place not in self._open:
                path = self._folder / f"{place:04d}.{self._files:06d}"
                self._open[place] = pa.ipc.new_stream(str(path), batch.schema)
            self._open[place].write_batch(batch.slice(int(begin), int(stop - begin)))

    def clear(self) -> None:
        self._finish()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()

    def __iter__(self) -> Iterator[Iterator[pa.RecordBatch]]:
        self._finish()
        for place in range(self._count):
            yield self._share(place)

    def _share(self, place: int) -> Iterator[pa.RecordBatch]:
        for path in sorted(self._folder.glob(f"{place:04d}.*")):
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
                yield from stream

    def _finish(self) -> None:
        for writer in self._open.values():
            writer.close()
        self._open, self._schema = {}, None

    def close(self) -> None:
        self._finish()
        shutil.rmtree(self._folder, ignore_errors=True)


def hashable(arrow: pa.DataType) -> bool:
    """Whether ``row_hashes`` takes values of the type."""
    plain = pa.types.is_string(arrow) or pa.types.is_binary(arrow)
    return plain or fixed_width(arrow) is not None
