"""A table's circuit: its changes are read from the log, hashed by key, made full rows, and published.

A narrow step does all of it in one Python stage, as far as the key can be hashed there. State: the table (see
``upsert`` and ``multiset``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.circuit.flow import CHANGE, Flow, kept
from headrace.circuit.hashing import group_hash, key_hash
from headrace.circuit.operators.changes import ReadRange, by_task, changes
from headrace.circuit.operators.multiset import Multiset
from headrace.circuit.operators.publish import Publish
from headrace.circuit.operators.upsert import Upsert
from headrace.circuit.task import current, keep_reference, keep_too
from headrace.circuit.written import COLUMNS, Written, files_of, told
from headrace.model.schema import Relation
from headrace.state.phases import PUBLISH, phase
from headrace.state.reference import Reference

if TYPE_CHECKING:
    from headrace.circuit.build import Builder
    from headrace.circuit.work import Operator

LEAST_BYTES = 1 << 20  # of rows that stay in the log: fewer are soon merged, which is to read them where they lie
LEAST_PIECE = 1 << 16  # bytes of a frame of them, in the mean: small ones are slow to open


def circuit(builder: Builder, relation: Relation) -> Flow:
    """A row of ``written`` for each file."""
    with builder.operator(f"{'upsert' if relation.key else 'multiset'} {relation.name}", relation.name) as operator:
        delta, stage = _delta(builder, relation, operator)
        delta = builder.counted(delta, operator.key)
    read = None if builder.shape.wide else builder.read_range  # a task has but some of the rows
    return delta.then(PublishTable(builder.circuit, stage, relation, read), COLUMNS)


class PublishTable(Publish):
    """Writes a table's delta, and makes it what is kept of the step where that is the same.

    A table that begins has no reader of a delta: views begin with all of its contents. ``read``: rows that are as they
    came stay where it finds them, where they are many; None: they do not.
    """

    def __init__(self, circuit: str, contents: Multiset | Upsert, relation: Relation, read: ReadRange | None) -> None:
        super().__init__(circuit, durable=False, consolidated=True)
        self.contents, self.relation, self.read = contents, relation, read
        self.least_bytes, self.least_piece = LEAST_BYTES, LEAST_PIECE

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if isinstance(self.contents, Multiset):
            rows = [piece for piece in pieces if piece.num_rows]
            if self.contents.as_it_came:
                for written in self.referred(rows) or super().__call__(rows):
                    for file in files_of(written):
                        keep_too(self.contents.name, file.path)
                    yield written
                return
            yield from super().__call__(rows)
        elif current().whole:
            for _ in pieces:
                pass
        else:
            yield from super().__call__(pieces)

    def referred(self, rows: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """What tells of a file that says where in the log these rows lie; nothing where they are to be written."""
        step, size = current(), sum(piece.nbytes for piece in rows)
        # A whole table is made while retention may be at what it lies in; of a step it waits for the checkpoint.
        if self.read is None or step.whole or step.instants == "each" or size < self.least_bytes:
            return []
        pieces = self.read.pieces(step, self.relation.name)
        if not pieces or len(pieces) * self.least_piece > size:
            return []
        columns = [(column.name, column.type) for column in self.relation.columns]
        reference = Reference(columns, pieces, sum(piece.num_rows for piece in rows))
        with phase(PUBLISH):
            path = keep_reference(step, self.name, reference)
        return [told([Written(self.circuit, path, reference.rows, "")])]


def _delta(builder: Builder, relation: Relation, operator: Operator) -> tuple[Flow, Multiset | Upsert]:
    from headrace.circuit.build import TABLE

    types = tuple(c.type for c in relation.columns)
    arranged, partitions = builder.claim(TABLE + relation.name), builder.shape.partitions
    operator.inputs.append(f"{operator.key}/changes")
    read = builder.counted(changes(builder, relation), operator.inputs[0])
    columns = [kept(n, t) for n, t in read.columns]
    values = [c for c in columns if c.name.startswith("c")]
    stage: Multiset | Upsert
    as_they_come = False
    if relation.key:
        keys = tuple(relation.names.index(k) for k in relation.key)
        hashed, stage = key_hash([values[k] for k in keys]), Upsert(arranged, types, keys, partitions)
    else:
        # A map has no hash of its own; the rest of the row routes as well, and rows are compared whole.
        hashed = group_hash([v for v in values if "map<" not in v.type and "variant" not in v.type])
        as_they_come = not relation.updates and hashed.local is not None
        every = tuple(range(len(types)))
        stage = Multiset(arranged, types, every, partitions, hashed.local, only_added=as_they_come)
    rows = by_task(builder, read if as_they_come and not builder.shape.wide else read.select([*columns, hashed]))
    return rows.then(stage, (*[(v.name, v.type) for v in values], *CHANGE)), stage
