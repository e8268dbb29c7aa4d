"""d gamma(A) = gamma(new contents of touched groups) - gamma(their old contents): every aggregate with a key.

State: the input, arranged by group key; bounded by the input. See ``recompute``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, Flow, change, fields, kept
from headrace.circuit.hashing import group_hash
from headrace.circuit.operators.recompute import NEXT, VERSION, Difference, ProbeContents
from headrace.circuit.operators.sides import Side

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


def contents(builder: Builder, this: node.Regroup | node.Window) -> Flow:
    """The child's rows of every touched key and version: ``c0 ..``, ``_v``, ``_n``."""

    side = Side("c", this.child.types, builder.arrange(this.child, this.keys))
    columns = fields(this.child)
    changed = builder.delta(this.child).select([group_hash(this.keys), *change(), *[kept(n, t) for n, t in columns]])
    return builder.gather(changed).then(ProbeContents(side), [*columns, (VERSION, "int"), (NEXT, "int")])


def delta(builder: Builder, this: node.Regroup) -> Flow:

    by = [k.column.alias(f"k{i}") for i, k in enumerate(this.keys)]
    results = [e.column.alias(f"c{i}") for i, e in enumerate(this.results)]
    grouped = contents(builder, this).frame.groupBy(*by, VERSION, NEXT).agg(*results, F.lit(1).alias("_one"))
    columns = [*fields(this), (VERSION, "int"), (NEXT, "int")]
    rows = Flow(grouped.select(*this.names, VERSION, NEXT), tuple(columns))
    return rows.then(Difference(), [*fields(this), *CHANGE])
