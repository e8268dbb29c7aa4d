"""Functions of users over groups, called on the list of a group's rows.

Spark gives such a function a group's rows in any order, and the last bits of a mean of doubles follow it. Here the list
is sorted by the canonical form, so that circuit and batch give the function the same columns. Over no rows it is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType
from pyspark.util import PythonEvalType

from headrace.sql.user_functions import UserFunction

NAME = "_0"
Call = Callable[[pa.RecordBatch], pa.Array]


def over_lists(function: UserFunction, zone: str) -> Callable[[pa.Array], pa.Array]:
    """list<struct> (n,) to the function's values (n,), each field of the struct being an argument.

    ``zone``: the session's time zone. Values are converted by Spark's own code for such functions.
    """
    body, result = function.made.func, function.made.returnType
    pandas = function.made.evalType == PythonEvalType.SQL_GROUPED_AGG_PANDAS_UDF
    call = _of_series(body, result, zone) if pandas else _of_arrays(body, result)
    nothing = to_arrow_schema(_schema(result), timezone=zone).field(NAME).type

    def each(lists: pa.Array) -> pa.Array:
        found = [pa.nulls(0, nothing)]
        for group in lists:
            rows = group.values
            if rows is None or not len(rows):
                found.append(pa.nulls(1, nothing))
                continue
            columns = rows.flatten()
            found.append(call(pa.RecordBatch.from_arrays(columns, names=[f"_{i}" for i in range(len(columns))])))
        return pa.concat_arrays([part.cast(nothing) for part in found])

    # Unlike any name of SQL, and another after an edit: in a plan's text it stands for the function.
    each.__name__ = f"{function.name.lower()}@{function.digest}"
    return each


def _schema(result: DataType) -> StructType:
    return StructType([StructField(NAME, result)])


def _of_series(body: Callable[..., Any], result: DataType, zone: str) -> Call:
    schema = _schema(result)

    def call(rows: pa.RecordBatch) -> pa.Array:
        local = pa.RecordBatch.from_arrays([c.cast(_placed(c.type, zone)) for c in rows.columns], rows.schema.names)
        value = body(*ArrowBatchTransformer.to_pandas(local, timezone=zone))
        made = PandasToArrowConversion.convert([pd.Series([value])], schema, timezone=zone, arrow_cast=True)
        return made.column(0)

    return call


def _placed(of: pa.DataType, zone: str) -> pa.DataType:
    """The type with its timestamps in the zone: so Spark hands them to pandas, and to Arrow in UTC."""
    if pa.types.is_timestamp(of) and of.tz is not None:
        return pa.timestamp(of.unit, zone)
    if pa.types.is_list(of):
        return pa.list_(of.value_field.with_type(_placed(of.value_type, zone)))
    if pa.types.is_struct(of):
        return pa.struct([field.with_type(_placed(field.type, zone)) for field in of])
    return of


def _of_arrays(body: Callable[..., Any], result: DataType) -> Call:
    schema = to_arrow_schema(_schema(result), timezone="UTC")

    def call(rows: pa.RecordBatch) -> pa.Array:
        made = pa.RecordBatch.from_arrays([pa.array([body(*rows.columns)])], [NAME])
        return ArrowBatchTransformer.enforce_schema(made, schema).column(0)

    return call
