"""Goal: intervals of every kind pass through every operator as Spark has them, alone and inside other values.

Method: see harness.py. Arrow has intervals with months as structs, as the rows of a table here are given.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from histories import Table

MONTHS = (None, {"_months": 0}, {"_months": 14}, {"_months": -1}, {"_months": 2**31 - 1})
TERMS = Table(
    "terms",
    {"id": "int", "k": "int", "d": "date", "m": "interval year to month", "y": "interval year",
     "h": "interval hour", "t": "interval day to second", "c": "interval"},
    {
        "id": range(5),
        "k": (None, 0, 1),
        "d": (None, date(2024, 2, 29), date(1969, 12, 31), date(9999, 12, 31)),
        "m": MONTHS,
        "y": (None, {"_months": 24}, {"_months": -12}),
        "h": (None, timedelta(hours=-5), timedelta(hours=30)),
        "t": (None, timedelta(microseconds=1), timedelta(days=-3, seconds=5)),
        "c": (None, {"_months": 1, "_days": -30, "_microseconds": 0},
              {"_months": -13, "_days": 0, "_microseconds": -3_600_000_001},
              {"_months": 0, "_days": 2**31 - 1, "_microseconds": 2**42}),
    },
    ("id",),
)  # fmt: skip

QUERIES = {
    "as_they_are": "select * from terms",
    "made": """
        select case_id, id, d - date'2020-01-01' e, make_ym_interval(k, id) y, make_interval(k, id, 0, -id, 3) c,
            interval '1' month one, h * 2 as twice, m is null n from terms""",
    "compared": "select case_id, id from terms where m > interval '1' year or d - date'2020-01-01' < interval '3' day",
    "inside": """
        select case_id, id, array(m, null, y) a, map('k', c) mc, struct(m, h, struct(y, d - date'2020-01-01' as e) s) s,
            array(struct(t, c)) deep from terms""",
    "grouped": "select case_id, m, h, count(*) n, sum(k) s from terms group by case_id, m, h",
    "grouped_by_days": "select case_id, d - date'2020-01-01' e, count(*) n from terms group by 1, 2",
    "distinct_terms": "select distinct case_id, y, struct(m, t) s from terms",
    "aggregates": """
        select case_id, k, sum(t) st, sum(y) sy, avg(h) ah, min(m) lm, max(m) mm, max(h) mh, count(distinct m) cd,
            max_by(id, y) b, collect_list(h) ch, median(t) mt, first(m) fm from terms group by case_id, k""",
    "joined": "select a.case_id, a.id, b.id j, a.c, b.m from terms a join terms b on a.case_id = b.case_id and a.m = b.m",
    "outer": """
        select a.case_id, a.id, b.y, b.h from terms a left join terms b
        on a.case_id = b.case_id and a.h = b.h and a.id < b.id""",
    "near": "select a.case_id, a.id, b.id j, b.t from terms a join terms b on a.case_id = b.case_id and a.t < b.t",
    "ranked": """
        select case_id, id, m, rank() over (partition by case_id order by m) r, lag(t) over (partition by case_id order by id) l,
            max(y) over (partition by case_id, k) my, last_value(h) over (partition by case_id order by t desc, id) lh
        from (select case_id, id, k, m, y, h, t from terms)""",
    "top": """
        select * from (select case_id, id, m, h, row_number() over (partition by case_id order by y desc, id) n
        from (select case_id, id, m, h, y from terms))
        where n <= 2""",
    "both": "select case_id, m, c from terms union all select case_id, y, c from terms where k = 1",
    "without": "select case_id, m from terms except select case_id, cast(y as interval year to month) from terms",
    "filled": """
        select case_id, id, coalesce(m, interval '7' month) m, coalesce(h, interval '1' hour) h from terms where k = 0""",
    "rows_of_a_list": "select case_id, id, e.m, e.h, p from terms lateral view posexplode(array(struct(m, h))) x as p, e",
    "constants": """
        select t.case_id, t.id, v.i, v.n from terms t join values (interval '14' month, 1), (null, 2) as v(i, n)
        on t.m <=> v.i""",
}  # fmt: skip
OPERATOR = Operator("intervals", (TERMS,), QUERIES, judged=True)


@pytest.mark.spark
def test_intervals_pass_as_spark_has_them(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
