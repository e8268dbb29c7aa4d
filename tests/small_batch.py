"""Spark batch as a judge of small tables: to compile each query for itself, and to deal its rows out, is most of its cost.

Its expressions are interpreted: another half of Spark than what circuits run.
"""

from __future__ import annotations

from headrace.engine.batch import Batch


def small(batch: Batch) -> Batch:
    """The same, set for small tables; its session is its own."""
    batch.spark.conf.set("spark.sql.codegen.wholeStage", "false")
    batch.spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    batch.spark.conf.set("spark.sql.shuffle.partitions", "1")
    return batch
