"""d gamma(A) = gamma(new contents of touched groups) - gamma(their old contents): every aggregate with a key.

State: the input, arranged by group key; bounded by the input. See ``recompute``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.operators.inner_join import Side
from headrace.circuit.operators.recompute import NEXT, VERSION, Difference, ProbeContents
from headrace.model.delivery import WEIGHT
from headrace.state.run import HASH

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

INSTANT = "_i"


def contents(builder: Builder, this: node.Regroup | node.Window) -> DataFrame:
    """The child's rows of every touched key and version: ``c0 ..``, ``_v``, ``_n``."""
    from headrace.circuit.build import ddl, fields, group_hash

    side = Side("c", this.child.types, builder.arrange(this.child, this.keys))
    keyed = builder.delta(this.child).select(
        group_hash([k.column for k in this.keys]).alias(HASH), WEIGHT, INSTANT, *side.names
    )
    schema = ddl([*fields(this.child), (VERSION, "int"), (NEXT, "int")])
    return builder.gather(keyed).mapInArrow(ProbeContents(side), schema)


def delta(builder: Builder, this: node.Regroup) -> DataFrame:
    from headrace.circuit.build import CHANGE, ddl, fields

    by = [k.column.alias(f"k{i}") for i, k in enumerate(this.keys)]
    results = [e.column.alias(f"c{i}") for i, e in enumerate(this.results)]
    grouped = contents(builder, this).groupBy(*by, VERSION, NEXT).agg(*results, F.lit(1).alias("_one"))
    rows = grouped.select(*this.names, VERSION, NEXT)
    return rows.mapInArrow(Difference(), ddl([*fields(this), *CHANGE]))
