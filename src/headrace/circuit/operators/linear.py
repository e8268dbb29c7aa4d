"""d f(A) = f(dA): projections, filters, generators, grouping-set expansion and unions keep no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, Together, Value, change, computed, fields, kept, united
from headrace.circuit.local import Reference
from headrace.circuit.picked import Select
from headrace.circuit.task import batches
from headrace.model.delivery import WEIGHT

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


def project(builder: Builder, this: node.Project) -> Flow:

    child = builder.delta(this.child)
    return child.select([*[computed(f"c{i}", e) for i, e in enumerate(this.expressions)], *change()])


def filter_rows(builder: Builder, this: node.Filter) -> Flow:
    return builder.delta(this.child).where(this.condition)


def generate(builder: Builder, this: node.Generate) -> Flow:

    child = builder.delta(this.child).frame
    made = [f"_g{i}" for i in range(this.outputs)]
    kept = [F.col(f"c{i}") for i in this.required]
    frame = child.select(*kept, WEIGHT, INSTANT, this.generator.column.alias(*made))
    columns = [f"c{i}" for i in this.required] + made
    rows = frame.select(*[F.col(c).alias(f"c{i}") for i, c in enumerate(columns)], WEIGHT, INSTANT)
    return Flow(rows, (*fields(this), *CHANGE))


class Expanded:
    """A stage: each row once for every projection, one after the other however the rows are cut into pieces."""

    def __init__(self, projections: tuple[Select, ...]) -> None:
        self.projections = projections

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in pieces:
            made = [row for projection in self.projections for row in projection((batch,))]
            rows = pa.Table.from_batches([m.cast(made[0].schema) for m in made])
            order = np.arange(rows.num_rows).reshape(len(made), batch.num_rows).T.ravel()
            yield from batches(rows.take(pa.array(order)))


def expand(builder: Builder, this: node.Expand) -> Flow:
    """One pass over the child: an array of rows, exploded (a union would run what is below once a projection)."""

    flow, columns = builder.delta(this.child), (*fields(this), *CHANGE)
    forms = [[e.local if e.type == t else None for e, t in zip(p, this.types, strict=True)] for p in this.projections]
    if flow.in_python and all(form is not None for projection in forms for form in projection):
        names = tuple(name for name, _ in columns)
        kept = (Reference(WEIGHT), Reference(INSTANT))
        projections = [tuple(form for form in projection if form is not None) for projection in forms]
        return flow.then(Expanded(tuple(Select(names, (*p, *kept)) for p in projections)), columns)
    child = flow.frame
    rows = [
        F.struct(*[e.column.cast(t).alias(f"c{i}") for i, (e, t) in enumerate(zip(p, this.types, strict=True))])
        for p in this.projections
    ]
    frame = child.select(F.explode(F.array(*rows)).alias("_row"), WEIGHT, INSTANT)
    made = [F.col(f"_row.c{i}").alias(f"c{i}") for i in range(len(this.types))]
    return Flow(frame.select(*made, WEIGHT, INSTANT), columns)


def union(builder: Builder, this: node.Union) -> Flow:

    columns = (*fields(this), *CHANGE)
    flows = [builder.delta(child) for child in this.inputs]
    if all(f.made and f.columns == columns for f in flows):
        return builder.made(Together(*[f.chain for f in flows]), columns)
    return united([_as(this.types, flow) for flow in flows])


def _as(types: Sequence[str], flow: Flow) -> Flow:
    """The rows with values of these types."""
    columns, given = [(f"c{i}", t) for i, t in enumerate(types)], dict(flow.columns)
    values = [kept(n, t) if given[n] == t else Value(n, t, F.col(n).cast(t), None) for n, t in columns]
    return flow.select([*values, *change()])
