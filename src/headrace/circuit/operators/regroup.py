"""d gamma(A) = gamma(new contents of touched groups) - gamma(their old contents): every aggregate.

State: the input, arranged by group key; bounded by the input. See ``recompute``.

Without a key all rows are one group, which any change touches; it has its row over nothing as well, so each version
of its contents is shown to Spark with a row more that no aggregate counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, change, fields, kept
from headrace.circuit.hashing import group_hash
from headrace.circuit.operators.recompute import NEXT, VERSION, Difference, ProbeContents, versions
from headrace.circuit.operators.sides import Side
from headrace.circuit.task import batches, current, gathered, keep
from headrace.model.delivery import WEIGHT
from headrace.state.keys import distinct
from headrace.state.run import HASH, column
from headrace.state.sorting import distinct_numbers

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

COUNTED = node.Regroup.COUNTED


def contents(builder: Builder, this: node.Regroup | node.Window) -> Flow:
    """The child's rows of every touched key and version: ``c0 ..``, ``_v``, ``_n``."""

    side = Side("c", this.child.types, builder.arrange(this.child, this.keys))
    columns = [*fields(this.child), (VERSION, "int"), (NEXT, "int")]
    return builder.gather(_changed(builder, this)).then(ProbeContents(side), columns)


def _changed(builder: Builder, this: node.Regroup | node.Window) -> Flow:

    columns = [kept(n, t) for n, t in fields(this.child)]
    return builder.delta(this.child).select([group_hash(this.keys), *change(), *columns])


class ProbeEverything(ProbeContents):
    """Like ``ProbeContents`` of the one group there is, in the one task that has it; ``_p`` tells the input's rows
    (true) from the row more of each version.

    ``begun``: an arrangement that holds a row once the first version has been shown.
    """

    def __init__(self, side: Side, begun: Arranged, partitions: int) -> None:
        super().__init__(side)
        self.begun, self.partitions = begun, partitions

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = gathered(pieces)
        if given is None and self.partitions > 1:  # another task has the one group
            return
        begun = bool(current().runs.get(self.begun.name))
        table = self.side.empty if given is None else given.filter(pa.array(column(given, WEIGHT) != 0))
        if begun and table.num_rows == 0:
            return
        delta = self.side.sorted(table)
        rows = versions(delta, self.side.kept(current().runs, distinct(column(delta, HASH))))
        copies = np.repeat(np.arange(rows.num_rows), np.maximum(column(rows, WEIGHT), 0))
        shown = rows.drop_columns([HASH, WEIGHT]).take(pa.array(copies))
        shown = shown.append_column(COUNTED, pa.array(np.ones(shown.num_rows, bool)))
        yield from batches(pa.concat_tables([shown, self.marks(delta, begun, shown.schema)]))
        self.side.write(delta)
        if not begun and self.begun.owned:
            row = pa.table({HASH: pa.array([0], pa.int64()), WEIGHT: pa.array([1], pa.int64())})
            keep(current(), self.begun.name, row)

    def marks(self, delta: pa.Table, begun: bool, schema: pa.Schema) -> pa.Table:
        """The row more of each version; nothing before the first."""
        instants = distinct_numbers(column(delta, INSTANT))
        starts = np.r_[0, instants] if begun else instants if len(instants) else np.array([1])
        ends = np.r_[starts[1:], 0]
        known = {VERSION: starts, NEXT: ends, COUNTED: np.zeros(len(starts), bool)}
        columns = [
            pa.array(known[f.name]).cast(f.type) if f.name in known else pa.nulls(len(starts), f.type) for f in schema
        ]
        return pa.table(columns, schema=schema)


def _everything(builder: Builder, this: node.Regroup) -> Flow:
    """The contents of every version of all rows: ``c0 ..``, ``_v``, ``_n``, ``_p``."""

    side = Side("c", this.child.types, builder.arrange(this.child, this.keys))
    begun = builder.claim(hashlib.blake2b(f"regroup:{this.fingerprint}".encode(), digest_size=12).hexdigest())
    stage = ProbeEverything(side, begun, builder.shape.partitions)
    columns = [*fields(this.child), (VERSION, "int"), (NEXT, "int"), (COUNTED, "boolean")]
    return builder.gather_all(_changed(builder, this)).then(stage, columns)


def delta(builder: Builder, this: node.Regroup) -> Flow:

    by = [k.column.alias(f"k{i}") for i, k in enumerate(this.keys)]
    results = [e.column.alias(f"c{i}") for i, e in enumerate(this.results)]
    rows = (contents if this.keys else _everything)(builder, this)
    grouped = rows.frame.groupBy(*by, VERSION, NEXT).agg(*results, F.lit(1).alias("_one"))
    columns = [*fields(this), (VERSION, "int"), (NEXT, "int")]
    return Flow(grouped.select(*this.names, VERSION, NEXT), tuple(columns)).then(Difference(), [*fields(this), *CHANGE])
