"""Goal: aggregates of distinct values, and others whose work follows the change, equal batch after every commit.

See harness.py.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from histories import Table
from shop import BAG, ITEMS

from headrace.engine.compile import Compiler
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation

WIDE = Table(
    "wide",
    {"id": "int", "k": "int", "d": "decimal(38,2)", "i": "interval day to second", "t": "tinyint"},
    {
        "id": range(5),
        "k": (None, 0, 1),
        "d": (None, Decimal("0.01"), Decimal("9" * 35 + ".99"), Decimal("-" + "9" * 35 + ".99"), Decimal("-1.50")),
        "i": (None,),
        "t": (None, 0, 1, -1, 127, -128),
    },
    ("id",),
)
QUERIES = {
    "counted": "select case_id, k, count(distinct s) s, count(*) n from items group by case_id, k",
    "counted_alone": "select case_id, count(distinct f) f from items group by case_id",
    "summed": "select case_id, k, sum(distinct n) n, avg(distinct n) a, sum(f) f from items group by case_id, k",
    "summed_doubles": "select case_id, sum(distinct f) f, avg(distinct f) a, max(f) m from items group by case_id",
    "of_two_columns": "select case_id, count(distinct k, s) n, count(k) c from items group by case_id",
    "of_a_column_twice": "select case_id, k, count(distinct s, s) n, count(distinct s, id, s) m from items group by case_id, k",
    "several": "select case_id, count(distinct s) s, count(distinct k) k, sum(distinct d) d from items group by case_id",
    "several_with_others": """
        select case_id, k, count(distinct s) s, count(distinct n) n, sum(f) f, avg(d) d, min(id) i, first(s) x
        from items group by case_id, k""",
    "filtered": """
        select case_id, count(distinct s) filter (where k = 1) a, count(distinct s) filter (where n > 0) b, sum(id) i
        from items group by case_id""",
    "of_a_multiset": "select case_id, k, count(distinct s) n, count(s) c from bag group by case_id, k",
    "grouping_sets": """
        select case_id, k, s, count(distinct n) n, count(distinct id) i, grouping(k) g, grouping_id() x
        from items group by grouping sets ((case_id, k, s), (case_id, k), (case_id))""",
    "bits": "select case_id, k, bit_and(n) a, bit_or(n) o, bit_xor(n) x, bit_xor(id) i from items group by case_id, k",
    "small_bits": "select case_id, k, bit_and(t) a, bit_or(t) o, bit_xor(t) x, count_if(t > 0) c from wide group by case_id, k",
    "wide_decimals": "select case_id, k, try_sum(d) s, try_avg(d) a from wide group by case_id, k",
    "recomputed_decimals": "select case_id, k, try_sum(d) s, try_avg(d) a, collect_list(id) l from wide group by case_id, k",
    "forgiving": "select case_id, k, try_sum(n * 4) s, try_avg(n) a, try_sum(f) f from items group by case_id, k",
    "intervals": "select case_id, k, sum(make_dt_interval(id, k)) s, avg(make_dt_interval(id, k)) a, max(id) m from items group by case_id, k",
    "pivoted": """
        select * from (select case_id, k, s, d from items) pivot (sum(d) t, count(distinct s) n for k in (0, 1, 2))""",
    "having": """
        select case_id, k, count(distinct s) n from items group by case_id, k having count(distinct s) > 1 and max(n) > 0""",
    "modes_in_order": """
        select case_id, mode() within group (order by f) a, mode() within group (order by n desc) b,
        mode(s, true) c, mode(k) d, count(distinct k) e from items group by case_id""",
    "modes_of_a_multiset": "select case_id, mode(s) s, mode(k) filter (where s = 'a') k from bag group by case_id",
    "modes": "select case_id, k, mode(s) m, mode(n) n from items group by case_id, k",
}
OPERATOR = Operator("distinct_aggregates", (ITEMS, BAG, WIDE), QUERIES)


@pytest.mark.spark
def test_aggregates_of_distinct_values_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


@pytest.mark.spark
def test_what_spark_cannot_hash_is_refused_with_its_clause(spark: Any) -> None:
    maps = Relation("maps", (Column("k", "int"), Column("m", "map<string,int>")))
    sql = "select k, approx_count_distinct(distinct m) n from maps group by k"
    refused = Compiler(spark).compile({"maps": maps}, [ViewDefinition("v", sql)], {}).refused
    assert refused["v"].code == "sql.not_incremental"
    assert "a map or variant as a key" in str(refused["v"])
