"""The rows of a table under some keys as the log holds them, read backwards from its end as far as they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.engine.bases import hashable
from headrace.formats import recorded
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.log.append import LogWriter
from headrace.log.read import FrameRef, LogReader
from headrace.model.delivery import WEIGHT
from headrace.model.schema import Relation
from headrace.model.transaction import OPERATION, STRICT, TRUNCATE, UNCHANGED
from headrace.serve.replay import Replay
from headrace.state.row_hash import row_hashes
from headrace.state.rows import row_codes
from headrace.state.sorting import distinct_numbers


class StoredRows:
    """Of the log that ``writer`` writes, as of its end at each call; from any thread."""

    def __init__(self, writer: LogWriter, reader: LogReader) -> None:
        self._writer, self._reader = writer, reader

    def __call__(self, relation: Relation, keys: pa.Table) -> pa.Table:
        """The rows under ``keys`` (the relation's key columns); perhaps others too, whose keys have the same hash.

        Work: all changes of the table behind the last whole row of each key, and the base where a key has none.
        Memory: the changes of these keys.
        """
        found: list[list[pa.RecordBatch]] = []  # the latest part of the log first
        with self._writer.held():
            wanted = _Wanted(relation, keys)
            for refs in self._backwards():
                upto = max((ref.last for ref in refs), default=0)
                batches = self._reader.read(refs, relation.name, 0, upto) if upto else ()
                found.append([hits for batch in batches if (hits := wanted.of(batch)).num_rows])
                wanted.settle(found[-1])
                if not wanted:
                    break
        replay = Replay(relation)
        for part in reversed(found):
            for batch in part:
                replay.add(batch)
        return replay.contents().drop_columns([WEIGHT])

    def _backwards(self) -> Iterator[list[FrameRef]]:
        """The frames of each segment, the latest segment first; last the parts of the base."""
        for after, upto, _ in self._reader.newest_first():
            yield [ref for ref, _ in self._reader.frames(after, upto)]
        yield self._reader.refs(0, self._reader.base.commit)


class _Wanted:
    """Keys of which no whole row has been found yet."""

    def __init__(self, relation: Relation, keys: pa.Table) -> None:
        types = {field.name: field.type for field in arrow_schema(relation.columns)}
        self._types = {name: types[name] for name in relation.key}
        # Any column of the key will do that has a hash: what has the same is sorted out by ``Replay``.
        self._by = [name for name in relation.key if hashable(types[name])]
        self._keys = pa.table({name: keys[name].cast(arrow) for name, arrow in self._types.items()})
        self._open()

    def __bool__(self) -> bool:
        return bool(self._keys.num_rows)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The changes that tell of these keys."""
        hashes = row_hashes([recorded.values(batch, name, self._types[name]) for name in self._by], batch.num_rows)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        told = (self._hashes[at] == hashes) | (batch.column(OPERATION).to_numpy() == TRUNCATE)
        return batch.filter(pa.array(told))

    def settle(self, found: Sequence[pa.RecordBatch]) -> None:
        """Leave out the keys of which this part of the log tells all."""
        if not found:
            return
        operations = np.concatenate([batch.column(OPERATION).to_numpy() for batch in found])
        if (operations == TRUNCATE).any():
            self._keys = self._keys.slice(0, 0)
            return
        whole = np.concatenate([_complete(batch) for batch in found])
        whole &= (operations & STRICT) == 0  # that may be set aside
        keys = [
            pa.chunked_array([*self._keys[name].chunks, *(recorded.values(b, name, arrow) for b in found)], arrow)
            for name, arrow in self._types.items()
        ]
        codes, count = row_codes(keys), self._keys.num_rows
        self._keys = self._keys.filter(pa.array(~np.isin(codes[:count], codes[count:][whole])))
        self._open()

    def _open(self) -> None:
        self._hashes = distinct_numbers(row_hashes([self._keys[name] for name in self._by], self._keys.num_rows))


def _complete(batch: pa.RecordBatch) -> np.ndarray:
    place = batch.schema.get_field_index(UNCHANGED)
    every: np.ndarray = np.ones(batch.num_rows, bool)
    return every if place < 0 else batch.column(place).is_null().to_numpy(zero_copy_only=False)
