"""Goal: the first ranks of each partition equal batch after every commit, ties and copies included. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS

QUERIES = {
    "row_numbers": """
        select case_id, k, id, d, r from
        (select *, row_number() over (partition by case_id, k order by d desc, id) r from items) where r <= 2""",
    "first_of_ties": "select case_id, k, s from items qualify row_number() over (partition by case_id order by k) = 1",
    "second_alone": "select case_id, id, f from items qualify row_number() over (partition by case_id order by f) = 2",
    "ranks": "select case_id, s, id, rank() over (partition by case_id order by s) r from items qualify r < 3",
    "ranks_of_doubles": """
        select case_id, f, id, r from (select *, rank() over (partition by case_id order by f desc nulls last) r
        from items) where 2 >= r and id <> 3""",
    "dense_ranks": """
        select case_id, k, s, id, dense_rank() over (partition by case_id, k order by s desc) r from items
        qualify r <= 2""",
    "dense_ranks_of_pairs": """
        select case_id, r, k, n from (select *, dense_rank() over (partition by case_id order by k, n desc) r
        from items) where r <= 3""",
    "by_double": """
        select case_id, f, id from items qualify row_number() over (partition by case_id, f order by n nulls last) <= 1""",
    "by_expression": """
        select case_id, id, r from (select *, rank() over (partition by case_id, k % 2 order by id % 3, d) r from items)
        where r <= 2""",
    "copies": "select case_id, k, s, row_number() over (partition by case_id order by s) r from bag qualify r <= 3",
    "ranks_of_copies": "select case_id, k, s, rank() over (partition by case_id order by s) r from bag qualify r <= 3",
    "dense_ranks_of_copies": """
        select case_id, k, s, dense_rank() over (partition by case_id order by s, k) r from bag qualify r <= 3""",
    "of_an_aggregate": """
        select case_id, k, t, r from (select case_id, k, t, rank() over (partition by case_id order by t desc) r
        from (select case_id, k, sum(id) t from items group by case_id, k)) where r = 1""",
    "none": "select case_id, id from items qualify rank() over (partition by case_id order by id) < 1",
}
OPERATOR = Operator("top_k", (ITEMS, BAG), QUERIES, truncated=("items", "bag"))


@pytest.mark.spark
def test_top_k_equals_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
