"""Goal: intervals go to Arrow and come back as they were, at any depth.

Method: Spark's own literals, their parts written down here by hand; what comes back is shown by Spark as text.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql.types import StructType

from headrace.circuit.handed import handed_schema, handed_type, taken_back, to_hand_over

CASES: list[tuple[str, str, Any]] = [
    ("interval '3' day", "interval day", timedelta(days=3)),
    ("interval '-5' hour", "interval hour", timedelta(hours=-5)),
    ("interval '1 02:03' day to minute", "interval day to minute", timedelta(days=1, hours=2, minutes=3)),
    ("interval '-0.000001' second", "interval second", timedelta(microseconds=-1)),
    ("interval '1-2' year to month", "interval year to month", {"_months": 14}),
    ("interval '-7' year", "interval year", {"_months": -84}),
    ("make_ym_interval(0, -2147483648)", "interval year to month", {"_months": -(2**31)}),
    ("make_interval(1, 2, 0, 3, 4, 5, 6.7)", "interval",
     {"_months": 14, "_days": 3, "_microseconds": 14_706_700_000}),
    ("make_interval(0, -1, 0, -30, -25, 0, -0.000001)", "interval",
     {"_months": -1, "_days": -30, "_microseconds": -90_000_000_001}),
    ("make_interval(0, 0, 0, 2147483647, 2147483647, 59)", "interval",
     {"_months": 0, "_days": 2**31 - 1, "_microseconds": (2**31 - 1) * 3_600_000_000 + 59 * 60_000_000}),
    ("array(interval '1' month, null)", "array<interval month>", [{"_months": 1}, None]),
    ("map('a', interval '2' minute)", "map<string,interval minute>", [("a", timedelta(minutes=2))]),
    ("struct(1 as n, interval '1' year as y)", "struct<n:int,y:interval year>", {"n": 1, "y": {"_months": 12}}),
    ("cast(null as interval year)", "interval year", None),
    ("cast(null as struct<c:interval>)", "struct<c:interval>", None),
]  # fmt: skip


@pytest.mark.spark
def test_values_go_over_and_come_back(spark: Any) -> None:
    columns = tuple((f"x{i}", type_text) for i, (_, type_text, _) in enumerate(CASES))
    given = spark.range(1).selectExpr(*(f"{sql} AS x{i}" for i, (sql, _, _) in enumerate(CASES)))
    over = to_hand_over(given, columns)
    (row,) = over.toArrow().to_pylist()
    assert list(row.values()) == [value for _, _, value in CASES]
    through = over.mapInArrow(lambda batches: batches, handed_schema(columns))
    back = taken_back(through, columns)
    assert [kind.dataType.simpleString() for kind in back.schema] == [t for _, t in columns]
    texts = [f"CAST({n} AS string) AS {n}" for n, _ in columns]
    assert back.selectExpr(*texts).collect() == given.selectExpr(*texts).collect()


@pytest.mark.spark
def test_their_types_are_those_that_spark_reads_from_a_text(spark: Any) -> None:
    plain = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date",
             "timestamp", "timestamp_ntz", "decimal(38,18)", "void", "array<decimal(5,2)>", "map<int,array<date>>",
             "struct<`a b`:timestamp,c:struct<d:float>>"]  # fmt: skip
    columns = [(f"x {i}", text) for i, text in enumerate([*plain, *(text for _, text, _ in CASES)])]
    text = ", ".join(f"`{name}` {handed_type(text)}" for name, text in columns)
    assert handed_schema(columns) == StructType.fromDDL(text)
    assert handed_schema([("a`b", "int")]).fieldNames() == ["a`b"]
