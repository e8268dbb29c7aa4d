"""A table's changes as the log holds them, read inside the task that needs them. No state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit.flow import INSTANT, Flow
from headrace.circuit.task import Step, batches, current, partition
from headrace.formats import recorded
from headrace.formats.types.arrow import to_arrow
from headrace.model.schema import Relation
from headrace.model.transaction import OPERATION, TRUNCATE, UNCHANGED
from headrace.state.phases import LOG, pulled
from headrace.state.reference import Piece
from headrace.state.rows import canonical

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

COMMIT = "_c"
SEQUENCE = "_q"  # bigint: the row's place among the relation's changes of the step
BUCKET = "_b"  # int: the task a TRUNCATE is copied to; null for every other change


class ReadRange(Protocol):
    """A relation's changes in the step's range of the log: `_c`, `_op`, maybe `_unchanged`, columns. Of the engine."""

    def __call__(self, step: Step, relation: str) -> Iterator[pa.RecordBatch]: ...

    def pieces(self, step: Step, relation: str) -> list[Piece] | None:
        """Where they lie, for a reference from the step's folder; None where that cannot be said of them alone."""


class ReadChanges:
    """Output ``_q``, ``_b``, ``_i``, ``_op``, ``_unchanged``, ``c0 ..``; task p of n takes every n-th batch."""

    def __init__(self, read: ReadRange, relation: Relation, partitions: int) -> None:
        self.read, self.relation, self.partitions = read, relation, partitions
        self.types = [to_arrow(c.type) for c in relation.columns]

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        step, part, sequence = current(), partition() % self.partitions, 0
        for number, batch in enumerate(pulled(LOG, self.read(step, self.relation.name))):
            if number % self.partitions == part:
                yield from batches(self.changes(step, batch, sequence))
            sequence += batch.num_rows

    def changes(self, step: Step, batch: pa.RecordBatch, sequence: int) -> pa.Table:
        rows = batch.num_rows
        # Entries of maps in one order, so that a row goes as it came.
        columns = [
            canonical(recorded.values(batch, c.name, t)) for c, t in zip(self.relation.columns, self.types, strict=True)
        ]
        instants = np.ones(rows, np.int32)
        if step.instants == "each":
            instants = (batch.column(COMMIT).to_numpy() - step.after).astype(np.int32)
        marks = recorded.marks(batch, self.relation.names)
        order = pa.array(np.arange(sequence, sequence + rows))
        head = [order, pa.nulls(rows, pa.int32()), pa.array(instants), batch.column(OPERATION), marks]
        names = [SEQUENCE, BUCKET, INSTANT, OPERATION, UNCHANGED, *[f"c{i}" for i in range(len(columns))]]
        table = pa.table([*head, *columns], names=names)
        return self.copied(table) if pc.any(pc.equal(table[OPERATION], TRUNCATE)).as_py() else table

    def copied(self, table: pa.Table) -> pa.Table:
        """A TRUNCATE concerns every task: one copy for each."""
        truncates = table.filter(pc.equal(table[OPERATION], TRUNCATE))
        parts = [table.filter(pc.not_equal(table[OPERATION], TRUNCATE))]
        at = table.column_names.index(BUCKET)
        for task in range(self.partitions):
            parts.append(truncates.set_column(at, BUCKET, pa.array(np.full(truncates.num_rows, task, np.int32))))
        return pa.concat_tables(parts)


def changes(builder: Builder, relation: Relation) -> Flow:
    """The changes of a table in this step: see ``ReadChanges``."""
    head = ((SEQUENCE, "bigint"), (BUCKET, "int"), (INSTANT, "int"), (OPERATION, "tinyint"), (UNCHANGED, "binary"))
    columns = tuple((f"c{i}", c.type) for i, c in enumerate(relation.columns))
    return builder.made(ReadChanges(builder.read_range, relation, builder.shape.partitions), (*head, *columns))


def by_task(builder: Builder, rows: Flow) -> Flow:
    """Like ``builder.gather``, and every copy of a TRUNCATE to its own task."""
    if not builder.shape.wide:
        return builder.alone(rows)
    return builder.dealt(rows, BUCKET)
