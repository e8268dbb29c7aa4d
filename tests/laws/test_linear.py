"""Goal: projections, filters, generators, grouping sets and unions equal batch after every commit. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS

QUERIES = {
    "project": "select case_id, id, n div 2 h, upper(s) u, coalesce(k, -1) k, d * 2 d, f from items",
    "project_without_the_key": "select case_id, k, s from items",
    "filter": "select case_id, id, s from items where k > 0 or (s is null and f <> 'NaN')",
    "filter_of_doubles": "select case_id, id, f, f = 0 z, f > 1 b from items where not isnan(f) or k = 1",
    "filter_of_a_multiset": "select * from bag where s = 'a' or k is null",
    "explode": "select case_id, id, explode(array(k, id, k)) x from items",
    "explode_constants": "select case_id, s, k - 2 * x y from items lateral view explode(array(0, 1, 2)) as x",
    "explode_longs": "select case_id, explode(array(1L, -1L, 5000000000L)) x from items where k > 0",
    "explode_nulls": "select case_id, id, explode(array(1, null)) x from items",
    "explode_texts": "select case_id, id, explode(array('a', 'b', 'a')) x from items",
    "explode_values_that_throw": "select case_id, id, explode(array(k + 2147483646, id)) x from items where k < 1",
    "explode_outer": """
        select case_id, id, p, x from items
        lateral view outer posexplode(if(k is null or k = 0, array(), sequence(1, k))) as p, x""",
    "inline": "select case_id, inline(array(struct(id as a, s as b), struct(k as a, 'x' as b))) from items",
    "rollup": "select case_id, k, s, grouping_id() g, count(*) n from items group by case_id, rollup(k, s)",
    "grouping_sets": """
        select case_id, k, s, count(f) n from items group by grouping sets ((case_id, k), (case_id, s), (case_id))""",
    "union_all": "select case_id, k, s from items union all select * from bag union all select case_id, id, 'u' from items",
    "union": "select case_id, k from items union select case_id, k from bag",
}
OPERATOR = Operator("linear", (ITEMS, BAG), QUERIES)


@pytest.mark.spark
def test_linear_operators_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
