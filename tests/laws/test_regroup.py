"""Goal: aggregates recomputed for the touched groups equal batch after every commit. See harness.py.

Most of these have a cheaper rule by now (test_extremes.py, test_distinct_aggregates.py, test_variance.py), of which
this one is the oracle: here all are recomputed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS

from headrace.sql import canonical
from headrace.sql.lowering import aggregate

QUERIES = {
    "extremes": "select case_id, k, min(f) a, max(f) b, min(s) c, max(d) d, max(n) n from items group by case_id, k",
    "count_distinct": "select case_id, k, count(distinct s) s, count(*) n from items group by case_id, k",
    "several_distinct": "select case_id, count(distinct s) s, count(distinct k) k, sum(distinct d) d from items group by case_id",
    "collected": "select case_id, k, collect_list(s) l, collect_set(f) f, array_agg(id) i from items group by case_id, k",
    "first_and_last": "select case_id, k, first(s) a, last(f) b, first(d, true) c, any_value(id) d from items group by case_id, k",
    "percentiles": "select case_id, k, percentile(id, 0.5) p, median(d) m from items group by case_id, k",
    "by_another": "select case_id, k, max_by(s, d) a, min_by(id, f) b, mode(s) m from items group by case_id, k",
    "with_exact_sums": "select case_id, k, max(s) m, sum(f) s, avg(f) a, sum(n) n from items group by case_id, k",
    "booleans": "select case_id, bool_and(k > 0) a, bool_or(s = 'a') o, bit_xor(id) x from items group by case_id",
    "of_a_multiset": "select case_id, s, max(k) m, collect_list(k) l from bag group by case_id, s",
    "spread": "select case_id, k, stddev(f) s, corr(f, id) c, regr_slope(id, d) r from items group by case_id, k",
    "pivoted": "select * from (select case_id, k, s, d from items) pivot (max(d) m for k in (0, 1, 2))",
    "by_the_tables_key": "select case_id, id, max(s) m, collect_list(k) l from items group by case_id, id",
    "having": "select case_id, k, max(id) m from items group by case_id, k having min(id) < 3",
}
OPERATOR = Operator("regroup", (ITEMS, BAG), QUERIES)


@pytest.mark.spark
def test_recomputed_aggregates_equal_batch(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (canonical, aggregate):
        monkeypatch.setattr(module, "maintained", lambda *_: False)
    hold(spark, tmp_path, OPERATOR)
