"""d sigma(A) = sessions of the new contents of touched keys - those of their old contents, by Spark's session_window.

A late row may join two sessions and a retraction may split one, so the sessions of a key are found together.
State: the input, arranged by the other group keys; bounded by the input. See ``recompute``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, Flow, fields
from headrace.circuit.operators.recompute import NEXT, VERSION, Difference
from headrace.circuit.operators.regroup import contents

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

MARK = "spark.sessionWindow"  # Spark's planner merges the sessions of a grouping column that has this mark


def delta(builder: Builder, this: node.Sessions) -> Flow:
    by = [k.column.alias(f"k{i}") for i, k in enumerate(this.keys)]
    results = [e.column.alias(f"c{i}") for i, e in enumerate(this.results)]
    session = f"c{this.session}"
    frame = contents(builder, this).frame
    marked = frame.select(
        *[F.col(n) if n != session else F.col(n).alias(n, metadata={MARK: True}) for n in frame.columns]
    )
    grouped = marked.groupBy(*by, session, VERSION, NEXT).agg(*results, F.lit(1).alias("_one"))
    keys = [f"k{i}" for i in range(len(by))]
    named = grouped.toDF(*keys, "_session", VERSION, NEXT, *this.names, "_one")
    columns = (*fields(this), (VERSION, "int"), (NEXT, "int"))
    return Flow(named.select(*[n for n, _ in columns]), columns).then(Difference(), [*fields(this), *CHANGE])
