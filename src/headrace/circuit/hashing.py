"""Hashes of keys, as Spark and as Arrow compute them: they route rows and find them, and never decide equality."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F

from headrace.circuit.flow import Value
from headrace.circuit.local import hash_of
from headrace.circuit.node import Expression
from headrace.state.run import HASH


def strict_hash(keys: Sequence[Expression]) -> Value:
    """``_h`` of keys compared by ``=``: null when any of them is null, as such rows meet nothing."""
    present = F.lit(True)
    for key in keys:
        if key.nullable:
            present = present & key.column.isNotNull()
    hashed = F.when(present, F.xxhash64(*[key.column for key in keys]))
    return Value(HASH, "bigint", hashed, hash_of((k.local for k in keys), (k.type for k in keys), strict=True))


def key_hash(keys: Sequence[Value]) -> Value:
    """``_h`` of a table's key, which is never null: the strict hash of the same columns."""
    hashed = F.xxhash64(*[key.column for key in keys])
    return Value(HASH, "bigint", hashed, hash_of((k.local for k in keys), (k.type for k in keys), strict=True))


def group_hash(keys: Sequence[Expression | Value]) -> Value:
    """``_h`` of keys grouped by: null is a value, and (null, 1) is not (1, null)."""
    hashed = F.lit(0).cast("bigint")
    if keys:
        hashed = F.xxhash64(*[part for key in keys for part in (key.column, key.column.isNull())])
    return Value(HASH, "bigint", hashed, hash_of((k.local for k in keys), (k.type for k in keys), strict=False))
