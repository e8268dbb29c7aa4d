"""Goal: variances, correlations and regressions equal batch after every commit, to the last bit. See harness.py.

Batch computes them by their definitions over fractions. That what both mean is what Spark means, up to Spark's own
rounding, is asked at the end, of sums and means too.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from histories import INF, NAN, Table
from shop import ITEMS

POINTS = Table(
    "points",
    {"id": "int", "k": "int", "x": "double", "y": "double", "f": "float", "n": "bigint"},
    {
        "id": range(6),
        "k": (None, 0, 1),
        "x": (None, 0.0, -0.0, 0.1, 0.2, 0.7, 1.5, -3.25, 1e16, 1e-300, 5e-324, 1.7e308, NAN, INF),
        "y": (None, 0.0, 0.1, 0.3, 1.5, 2.5, -1e15, 1e200, 1e-200, -INF),
        "f": (None, 0.5, 0.1, -2.5, 3.4e38, 1e-45),
        "n": (None, 0, 1, 3, 2**53 + 1, -(2**62)),
    },
    ("id",),
)
# Without what makes every answer NaN or NULL, so that more of the histories say something.
PLAIN = Table(
    "plain",
    {"id": "int", "k": "int", "x": "double", "y": "double"},
    {"id": range(8), "k": (0, 1), "x": (0.1, 0.2, 0.7, 1.1, 1e8, -3.3), "y": (None, 0.3, 2.5, 1e8, -0.1)},
    ("id",),
)
ONE = ["var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "std", "skewness", "kurtosis"]
TWO = [
    "covar_pop",
    "covar_samp",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "regr_count",
    "regr_avgx",
]


def of_one(column: str) -> str:
    return ", ".join(f"{f}({column}) {f}" for f in ONE)


def of_two(pair: str) -> str:
    return ", ".join(f"{f}({pair}) {f}" for f in TWO)


QUERIES = {
    "of_doubles": f"select case_id, k, {of_one('x')} from points group by case_id, k",
    "of_plain_doubles": f"select case_id, k, {of_one('x')} from plain group by case_id, k",
    "of_floats_and_integers": "select case_id, k, var_pop(f) f, stddev(n) n, skewness(id) i from points group by case_id, k",
    "of_decimals": "select case_id, k, var_samp(d) v, std(d) s, corr(d, id) c from items group by case_id, k",
    "of_pairs": f"select case_id, k, {of_two('x, y')} from points group by case_id, k",
    "of_plain_pairs": f"select case_id, k, {of_two('y, x')} from plain group by case_id, k",
    "filtered": """
        select case_id, var_pop(x) filter (where k = 1) v, corr(x, y) filter (where x > y) c from plain group by case_id""",
    "of_distinct": """
        select case_id, k, var_pop(distinct x) v, corr(distinct x, y) c, stddev(distinct y) s
        from plain group by case_id, k""",
    "with_others": "select case_id, k, var_pop(x) v, sum(x) s, avg(x) a, max(y) m, count(*) n from plain group by case_id, k",
    "with_recomputed": "select case_id, k, stddev(x) s, corr(x, y) c, collect_list(id) l from plain group by case_id, k",
    "rolled_up": "select case_id, k, id % 2 o, covar_samp(x, y) c from plain group by case_id, cube (k, id % 2)",
}
OPERATOR = Operator("variance", (POINTS, PLAIN, ITEMS), QUERIES)


@pytest.mark.spark
def test_variances_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


@pytest.mark.spark
def test_they_are_what_spark_means(spark: Any) -> None:
    from headrace.engine.batch import Batch

    draw = random.Random(5)
    rows = [(g, draw.uniform(-5, 5), draw.uniform(-5, 5)) for g in range(50) for _ in range(g % 7)]
    judge = Batch(spark)
    judge.spark.createDataFrame(rows, "g int, x double, y double").createOrReplaceTempView("drawn")
    sums = "sum(x) total, avg(x) mean, sum(float(y)) total_of_floats, avg(float(y)) mean_of_floats"
    query = f"select g, {sums}, {of_one('x')}, {of_two('x, y')} from drawn group by g"
    exact = {row["g"]: row for row in judge.run(query).to_pylist()}
    plain = {row["g"]: row.asDict() for row in judge.spark.sql(query).collect()}
    assert exact.keys() == plain.keys()
    for g, row in plain.items():
        for name, value in row.items():
            found = exact[g][name]
            assert (found is None) == (value is None), (g, name, found, value)
            assert value is None or math.isclose(found, value, rel_tol=1e-9, abs_tol=1e-9), (g, name, found, value)
