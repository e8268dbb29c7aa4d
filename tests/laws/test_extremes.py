"""Goal: functions of the order of a group's values equal batch after every commit. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS

QUERIES = {
    "of_text": "select case_id, k, min(s) a, max(s) b from items group by case_id, k",
    "of_doubles": "select case_id, k, min(f) a, max(f) b, min(cast(f as float)) c from items group by case_id, k",
    "of_numbers": "select case_id, k, max(d) a, min(d) b, min(n) c, max(n) d, max(n + id) e from items group by case_id, k",
    "with_sums": "select case_id, k, max(s) m, sum(f) s, avg(f) a, sum(n) n, count(*) c from items group by case_id, k",
    "by_another": "select case_id, k, max_by(s, d) a, min_by(id, f) b, max_by(f, s) c from items group by case_id, k",
    "first_and_last": "select case_id, k, first(s) a, last(f) b, first(d, true) c, any_value(id) d from items group by case_id, k",
    "of_structs": "select case_id, k, min(struct(s, f)) a, max(array(k, id)) b from items group by case_id, k",
    "filtered": "select case_id, max(d) filter (where k = 1) a, min(s) filter (where n > 0) b from items group by case_id",
    "booleans": "select case_id, bool_and(k > 0) a, bool_or(s = 'a') o, every(d > 0) e, any(n < 0) x from items group by case_id",
    "of_times": """
        select case_id, k, min(date'2024-01-01' + id) a, max(timestamp'2024-01-01 00:00:00' + make_dt_interval(id)) b
        from items group by case_id, k""",
    "of_a_multiset": "select case_id, s, max(k) m, min(k) n, first(k) f from bag group by case_id, s",
    "having": "select case_id, k, max(id) m from items group by case_id, k having min(id) < 3",
    "by_double": "select case_id, f, max(s) m from items group by case_id, f",
    "of_an_aggregate": """
        select case_id, max(n) m, min(t) t from
        (select case_id, k, count(*) n, max(s) t from items group by case_id, k) group by case_id""",
    "percentiles": """
        select case_id, k, percentile(id, 0.5) p, median(d) m, percentile(f, 0.3) f,
        percentile(n, array(0.0, 0.25, 1.0)) a from items group by case_id, k""",
    "percentiles_in_a_group": """
        select case_id, k, percentile_cont(0.4) within group (order by f) a,
        percentile_cont(0.2) within group (order by id desc) b, percentile_disc(0.5) within group (order by d) c,
        percentile_disc(array(0.0, 0.7)) within group (order by id desc) d from items group by case_id, k""",
    "rolled_up": "select case_id, k, s, max(d) m, median(id) p from items group by case_id, rollup (k, s)",
}
OPERATOR = Operator("extremes", (ITEMS, BAG), QUERIES)


@pytest.mark.spark
def test_functions_of_the_order_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
