"""Tables of a test: name -> columns as Spark DDL, and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.catalog.document import did_you_mean
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def relations(spark: SparkSession, tables: Mapping[str, str], keys: Mapping[str, Sequence[str]]) -> dict[str, Relation]:
    """The tables. Raises ``HeadraceError`` (config.invalid, source.no_table)."""
    for name in keys:
        if name not in tables:
            hint = did_you_mean(name, tables) or f"tables: {', '.join(sorted(tables))}"
            raise HeadraceError("source.no_table", f"'keys' names a table '{name}' that is not there", next=hint)
    return {name: _relation(spark, name, ddl, keys.get(name, ())) for name, ddl in tables.items()}


def _relation(spark: SparkSession, name: str, ddl: str, key: Sequence[str]) -> Relation:
    from headrace.engine.ddl import columns

    found = columns(spark, name, ddl)
    names = [column.name for column in found]
    key = (key,) if isinstance(key, str) else tuple(key)
    for column in key:
        if column not in names:
            raise HeadraceError(
                "config.invalid", f"the key of table {name} has a column '{column}' that the table has not",
                next=did_you_mean(column, names) or f"columns: {', '.join(names)}",
            )  # fmt: skip
    required = tuple(Column(c.name, c.type, c.nullable and c.name not in key) for c in found)
    return Relation(name, required, key)
