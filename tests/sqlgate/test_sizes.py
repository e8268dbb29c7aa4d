"""Goal: a call that makes much of little raises beyond a bound, and gives what Spark gives below it.

Method: each such call over a row that asks for little, against plain Spark, and over one that asks for too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.engine.batch import Batch
from headrace.sql.sizes import EXCESSES

pytestmark = pytest.mark.spark
LONG = ("compared",)

MADE = {
    "repeated": "length(repeat(s, n))",
    "spaced": "length(space(n))",
    "padded_left": "length(lpad(s, n, 'x'))",
    "padded_right": "length(rpad(s, n))",
    "padded_bytes": "octet_length(lpad(CAST(s AS BINARY), n, x'00'))",
    "formatted": "length(format_string(f, id))",
    "printed": "length(printf(f, id))",
    "in_digits": "length(format_number(id, n))",
    "in_sequence": "size(sequence(0, n))",
    "of_minutes": "size(sequence(TIMESTAMP'2026-01-01', TIMESTAMP'2026-01-01' + make_dt_interval(CAST(n / 1000 AS INT)), INTERVAL 1 MINUTE))",
    "of_days": "size(sequence(DATE'2026-01-01', date_add(DATE'2026-01-01', CAST(n / 10 AS INT))))",
    "an_array": "size(array_repeat(id, n))",
    "texts": "size(array_repeat(s, CAST(n / 100 AS INT)))",
    "inserted": "size(array_insert(array(1), n, 2))",
    "joined": "length(array_join(array_repeat('x', 1000), repeat(s, n div 20000)))",
    "replaced": "length(replace(repeat('x', least(n, 100000)), 'x', repeat(s, least(n, 100000))))",
    "replaced_by_pattern": "length(regexp_replace(repeat('x', least(n, 100000)), 'x', repeat(s, least(n, 100000))))",
    "compared": "levenshtein(repeat(s, least(n, 20000)), repeat('y', least(n, 20000)))",
    "in_a_lambda": "size(transform(array(n), x -> repeat(s, x)))",
}


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> Iterator[Batch]:
    found = Batch(spark)
    yield found
    for name in ("small", "large"):
        found.spark.catalog.dropTempView(name)


def asked(batch: Batch, name: str, row: tuple[Any, ...]) -> None:
    batch.spark.createDataFrame([row], "id int, n int, s string, f string").createOrReplaceTempView(name)


@pytest.mark.parametrize("name", MADE)
def test_a_call_is_bounded(name: str, batch: Batch) -> None:
    asked(batch, "small", (1, 3, "ab", "%5d"))
    asked(batch, "large", (2, 2_000_000_000, "ab", "%2000000000d"))
    found, plain = (
        batch.frame(f"SELECT {MADE[name]} AS made FROM small"),
        batch.spark.sql(f"SELECT {MADE[name]} FROM small"),
    )
    assert found.collect()[0][0] == plain.collect()[0][0]
    assert found.schema[0].nullable == plain.schema[0].nullable
    with pytest.raises(PySparkException, match="takes very long" if name in LONG else "more than 16 MiB of this row"):
        batch.frame(f"SELECT {MADE[name]} AS made FROM large").collect()


def test_of_constants_the_optimizer_computes_none(batch: Batch) -> None:
    asked(batch, "small", (1, 3, "ab", "%5d"))
    either = batch.frame("SELECT CASE WHEN n > 5 THEN length(repeat('x', 2000000000)) ELSE 1 END FROM small")
    assert either.collect()[0][0] == 1
    with pytest.raises(PySparkException, match="more than 16 MiB"):
        batch.frame("SELECT length(repeat('x', 2000000000)) FROM small").collect()


def test_each_bounded_call_is_tried() -> None:
    """Those that are written here make a call of each class."""
    assert len(MADE) >= len(EXCESSES) + 1
