"""Goal: window functions recomputed for the touched partitions equal batch after every commit. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS

QUERIES = {
    "top_two": """
        select case_id, k, id, d from
        (select *, row_number() over (partition by case_id, k order by d desc, id) r from items) where r <= 2""",
    "row_number_of_ties": "select case_id, k, id, row_number() over (partition by case_id order by k) r from items",
    "ranks": """
        select case_id, k, id, rank() over (partition by case_id order by s) r,
        dense_rank() over (partition by case_id order by s) d, percent_rank() over (partition by case_id order by s) p
        from items""",
    "neighbours": """
        select case_id, id, lag(s) over w l, lead(d, 2) over w d, first_value(id) over w f
        from items window w as (partition by case_id, k order by s)""",
    "running": """
        select case_id, id, sum(id) over (partition by case_id, k order by s) s,
        count(*) over (partition by case_id, k order by id rows between 1 preceding and current row) c from items""",
    "running_doubles": """
        select case_id, id, sum(f) over (partition by case_id order by id) s, avg(f) over (partition by case_id, k) a
        from items""",
    "whole": "select case_id, id, k, count(*) over (partition by case_id, k) n, max(d) over (partition by case_id) m from items",
    "by_double": "select case_id, id, f, count(*) over (partition by case_id, f) n from items",
    "qualify": """
        select case_id, id, s from items qualify row_number() over (partition by case_id, s order by id desc) = 1""",
    "of_a_multiset": "select case_id, k, s, row_number() over (partition by case_id order by k) r from bag",
    "whole_of_a_multiset": "select case_id, k, s, count(*) over (partition by case_id, k) n from bag",
    "of_an_aggregate": """
        select case_id, k, n, rank() over (partition by case_id order by n desc) r
        from (select case_id, k, count(*) n from items group by case_id, k)""",
}
OPERATOR = Operator("window", (ITEMS, BAG), QUERIES)


@pytest.mark.spark
def test_windows_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
