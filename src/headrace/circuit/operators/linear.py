"""d f(A) = f(dA): projections, filters, generators, grouping-set expansion and unions keep no state."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.model.delivery import WEIGHT

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

INSTANT = "_i"


def project(builder: Builder, this: node.Project) -> DataFrame:
    child = builder.delta(this.child)
    return child.select(*[e.column.alias(f"c{i}") for i, e in enumerate(this.expressions)], WEIGHT, INSTANT)


def filter_rows(builder: Builder, this: node.Filter) -> DataFrame:
    return builder.delta(this.child).filter(this.condition.column)


def generate(builder: Builder, this: node.Generate) -> DataFrame:
    child = builder.delta(this.child)
    made = [f"_g{i}" for i in range(this.outputs)]
    kept = [F.col(f"c{i}") for i in this.required]
    frame = child.select(*kept, WEIGHT, INSTANT, this.generator.column.alias(*made))
    columns = [f"c{i}" for i in this.required] + made
    return frame.select(*[F.col(c).alias(f"c{i}") for i, c in enumerate(columns)], WEIGHT, INSTANT)


def expand(builder: Builder, this: node.Expand) -> DataFrame:
    """One pass over the child: an array of rows, exploded (a union would run what is below once a projection)."""
    child = builder.delta(this.child)
    rows = [
        F.struct(*[e.column.cast(t).alias(f"c{i}") for i, (e, t) in enumerate(zip(p, this.types, strict=True))])
        for p in this.projections
    ]
    frame = child.select(F.explode(F.array(*rows)).alias("_row"), WEIGHT, INSTANT)
    return frame.select(*[F.col(f"_row.c{i}").alias(f"c{i}") for i in range(len(this.types))], WEIGHT, INSTANT)


def union(builder: Builder, this: node.Union) -> DataFrame:
    frames = [
        builder.delta(child).select(
            *[F.col(f"c{i}").cast(t).alias(f"c{i}") for i, t in enumerate(this.types)], WEIGHT, INSTANT
        )
        for child in this.inputs
    ]
    return reduce(DataFrame.unionAll, frames)
