"""A table's circuit: its changes are read from the log, hashed by key, made full rows, and published.

A narrow step with a key of fixed size does all of it in one Python stage; otherwise Spark hashes the key and, in
a wide step, deals the changes out by it. State: the table (see ``upsert`` and ``multiset``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.circuit.operators.changes import ReadChanges, by_task, changes
from headrace.circuit.operators.multiset import Multiset
from headrace.circuit.operators.publish import DESCRIPTION, Publish
from headrace.circuit.operators.upsert import Upsert
from headrace.circuit.xxhash import hashable, xxhash64
from headrace.model.schema import Relation
from headrace.state.run import HASH

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Chain:
    """Stages one after the other in one Python worker, without Spark in between."""

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for stage in self.stages:
            pieces = stage(pieces)
        yield from pieces


class HashKeys:
    """Adds ``_h``, the hash of some columns as Spark computes it."""

    def __init__(self, names: Sequence[str], types: Sequence[str]) -> None:
        self.names, self.types = list(names), list(types)

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in pieces:
            hashes = xxhash64([batch.column(name) for name in self.names], self.types)
            yield batch.append_column(HASH, pa.array(hashes))


def circuit(builder: Builder, relation: Relation) -> DataFrame:
    """One row for each file written: see ``publish``."""
    from headrace.circuit.build import TABLE, group_hash

    types = tuple(c.type for c in relation.columns)
    names = [f"c{i}" for i in range(len(types))]
    name, partitions = TABLE + relation.name, builder.shape.partitions
    builder.own(name)
    publish = Publish(builder.circuit, durable=False, consolidated=True)
    if not relation.key:
        rows = changes(builder, relation).withColumn(HASH, group_hash([F.col(n) for n in names]))
        stage = Multiset(name, types, tuple(range(len(types))), partitions)
        return by_task(builder, rows).mapInArrow(Chain(stage, publish), DESCRIPTION)
    keys = tuple(relation.names.index(k) for k in relation.key)
    upsert = Upsert(name, types, keys, partitions)
    if not builder.shape.wide and hashable([types[k] for k in keys]):
        read = ReadChanges(builder.read_range, relation, partitions)
        hashed = HashKeys([names[k] for k in keys], [types[k] for k in keys])
        return builder.leaf().mapInArrow(Chain(read, hashed, upsert, publish), DESCRIPTION)
    rows = changes(builder, relation).withColumn(HASH, F.xxhash64(*[F.col(names[k]) for k in keys]))
    return by_task(builder, rows).mapInArrow(Chain(upsert, publish), DESCRIPTION)
