"""Goal: counts, sums and means, kept as accumulators, equal batch after every commit. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS

QUERIES = {
    "count": "select case_id, k, count(*) n, count(s) s, count(f, d) fd from items group by case_id, k",
    "integers": "select case_id, k, sum(id) i, avg(id) a, sum(n) n, avg(n) m from items group by case_id, k",
    "decimals": "select case_id, k, sum(d) s, avg(d) a, sum(d * 3) t from items group by case_id, k",
    "doubles": "select case_id, k, sum(f) s, avg(f) a, sum(cast(f as float)) r from items group by case_id, k",
    "filtered": """
        select case_id, count(*) filter (where k > 0) n, sum(d) filter (where s = 'a') s, avg(f) filter (where k = 1) a
        from items group by case_id""",
    "having": "select case_id, k, sum(id) s from items group by case_id, k having count(*) > 1 and sum(id) <> 4",
    "distinct": "select distinct case_id, k, s from items",
    "by_double": "select case_id, f, count(*) n from items group by case_id, f",
    "by_expression": "select case_id, upper(s) u, k is null m, sum(n) n from items group by case_id, upper(s), k is null",
    "of_a_multiset": "select case_id, s, count(*) n, sum(k) k from bag group by case_id, s",
    "of_an_aggregate": """
        select case_id, n, count(*) groups, sum(i) i from
        (select case_id, k, count(*) n, sum(id) i from items group by case_id, k) group by case_id, n""",
}
OPERATOR = Operator("aggregate", (ITEMS, BAG), QUERIES)


@pytest.mark.spark
def test_accumulated_aggregates_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
