"""Columns spelled as Spark DDL (``id bigint not null, name string``), read by Spark itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.formats.types.arrow import to_arrow
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column
from headrace.sql.java_names import type_text


def columns(spark: SparkSession, table: str, ddl: str) -> tuple[Column, ...]:
    """The columns of a table. Raises ``HeadraceError`` (config.invalid) for what is no DDL or cannot be carried."""
    where = f"table {table}"
    try:
        jvm: Any = spark._jvm
        fields = jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl).fields()
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.startswith("[")), str(error))
        raise HeadraceError(
            "config.invalid", f"'{ddl}' is not a list of columns", where=where, why=first,
            next="as in CREATE TABLE: `id bigint, name string, amount decimal(12,2)`",
        ) from error  # fmt: skip
    found = tuple(Column(f.name(), type_text(f), bool(f.nullable())) for f in fields)
    for column in found:
        to_arrow(column.type)
    return found
