"""A table's circuit: its changes are read from the log, hashed by key, made full rows, and published.

A narrow step does all of it in one Python stage, as far as the key can be hashed there. State: the table (see
``upsert`` and ``multiset``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.circuit.flow import CHANGE, Flow, kept
from headrace.circuit.hashing import group_hash, key_hash
from headrace.circuit.operators.changes import by_task, changes
from headrace.circuit.operators.multiset import Multiset
from headrace.circuit.operators.publish import Publish
from headrace.circuit.operators.upsert import Upsert
from headrace.circuit.task import current, keep_too
from headrace.circuit.written import COLUMNS, files_of
from headrace.model.schema import Relation

if TYPE_CHECKING:
    from headrace.circuit.build import Builder
    from headrace.circuit.work import Operator


def circuit(builder: Builder, relation: Relation) -> Flow:
    """A row of ``written`` for each file."""
    with builder.operator(f"{'upsert' if relation.key else 'multiset'} {relation.name}", relation.name) as operator:
        delta, stage = _delta(builder, relation, operator)
        delta = builder.counted(delta, operator.key)
    return delta.then(PublishTable(builder.circuit, stage), COLUMNS)


class PublishTable(Publish):
    """Writes a table's delta, and makes it what is kept of the step where that is the same.

    A table that begins has no reader of a delta: views begin with all of its contents.
    """

    def __init__(self, circuit: str, contents: Multiset | Upsert) -> None:
        super().__init__(circuit, durable=False, consolidated=True)
        self.contents = contents

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if current().whole and not isinstance(self.contents, Multiset):
            for _ in pieces:
                pass
            return
        for written in super().__call__(pieces):
            if isinstance(self.contents, Multiset) and self.contents.as_it_came:
                for file in files_of(written):
                    keep_too(self.contents.name, file.path)
            yield written


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
