"""Goal: windows maintained by the order of their partitions equal batch after every commit. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Circuits, Operator, hold
from shop import BAG, ITEMS

from headrace.circuit.explain import explain
from headrace.circuit.node import Running, Window
from headrace.engine.compile import Compilation, Compiler
from headrace.model.definition import ViewDefinition

QUERIES = {
    "row_number": "select case_id, k, id, row_number() over (partition by case_id order by k) r from items",
    "rank": "select case_id, f, id, rank() over (partition by case_id, k order by f desc) r from items",
    "sums_of_rows": """
        select case_id, id, sum(id) over w s, sum(n) over w n, count(*) over w c, count(k) over w k
        from items window w as (partition by case_id order by s rows unbounded preceding)""",
    "sums_of_peers": """
        select case_id, id, s, sum(d) over w d, count(s) over w c, count(*) over w a, sum(k) over w k
        from items window w as (partition by case_id, k order by s desc)""",
    "means": """
        select case_id, id, avg(n) over w a, avg(d) over w d, avg(k) over w k
        from items window w as (partition by case_id order by id)""",
    "doubles": """
        select case_id, id, sum(f) over w s, avg(f) over w a, sum(cast(f as float)) over r t, avg(f) over r b
        from items window w as (partition by case_id order by k),
        r as (partition by case_id order by s rows unbounded preceding)""",
    "statistics": """
        select case_id, k, id, stddev(f) over w s, var_pop(n) over w v, corr(f, k) over w c, skewness(id) over w e,
        bit_xor(id) over w x, bool_or(k > 1) over w o, count_if(s = 'a') over w i, sum(d) filter (where k > 0) over w f
        from items window w as (partition by case_id order by s, id)""",
    "doubles_beside": """
        select case_id, id, sum(f) over w s, lag(f) over w l, count(*) over w c, row_number() over w r,
        sum(f) over (partition by case_id order by id rows between 2 preceding and current row) n
        from items window w as (partition by case_id order by id)""",
    "neighbours": """
        select case_id, id, lag(s) over w l, lead(d, 2) over w d, lag(id, 1, -1) over w p
        from items window w as (partition by case_id, k order by s)""",
    "fixed_frames": """
        select case_id, id, sum(d) over w s, min(f) over w m, collect_list(k) over w l
        from items window w as (partition by case_id order by n rows between 1 preceding and 1 following)""",
    "frames_beside": """
        select case_id, id, count(*) over (partition by case_id order by s, id rows between 3 preceding and 2 preceding) a,
        first_value(id) over (partition by case_id order by s, id rows between 1 following and 2 following) b
        from items""",
    "both": """
        select case_id, id, row_number() over w r, lag(id) over w p, lead(id) over w n
        from items window w as (partition by case_id order by d nulls last)""",
    "extremes": """
        select case_id, k, id, min(n) over w a, max(s) over w b, max(f) over w c, bool_and(k > 1) over w d,
        min(d) filter (where k > 0) over w e, max(id) over r f, min(f) over r g
        from items window w as (partition by case_id order by k desc),
        r as (partition by case_id order by s rows unbounded preceding)""",
    "first_and_last": """
        select case_id, id, first_value(s) over w a, last_value(k) over r b, last_value(s) ignore nulls over r c,
        first_value(k) ignore nulls over r d, first_value(f) over r e, any_value(n) ignore nulls over r g
        from items window w as (partition by case_id order by k),
        r as (partition by case_id order by n desc rows unbounded preceding)""",
    "last_of_peers": """
        select case_id, id, last_value(s) over w a, last_value(k) ignore nulls over w b, min_by(s, f) over w c
        from items window w as (partition by case_id order by d)""",
    "extremes_beside": """
        select case_id, id, max(k) over w m, sum(k) over w t, lag(s) over v l, row_number() over v r
        from items window v as (partition by case_id order by id),
        w as (partition by case_id order by id rows unbounded preceding)""",
    "extremes_of_copies": """
        select case_id, k, s, max(s) over v m, last_value(k) ignore nulls over w l, count(*) over v c
        from bag window v as (partition by case_id order by k),
        w as (partition by case_id order by s rows unbounded preceding)""",
    "dense_ranks": """
        select case_id, k, f, id, dense_rank() over (partition by case_id order by f desc) a, dense_rank() over v b,
        rank() over v c from items window v as (partition by case_id, k order by d, s nulls last)""",
    "dense_ranks_of_copies": """
        select case_id, k, s, dense_rank() over (partition by case_id order by k) r from bag""",
    "by_double": "select case_id, f, id, count(*) over (partition by case_id, f order by n) c from items",
    "copies": """
        select case_id, k, s, row_number() over v r, sum(k) over w t, lag(s) over v l, count(s) over w c
        from bag window v as (partition by case_id order by s),
        w as (partition by case_id order by s rows unbounded preceding)""",
    "peers_of_copies": """
        select case_id, k, s, rank() over w r, sum(k) over w t, count(*) over w c
        from bag window w as (partition by case_id order by s)""",
    "of_an_aggregate": """
        select case_id, k, t, sum(t) over (partition by case_id order by k) r
        from (select case_id, k, sum(id) t from items group by case_id, k)""",
}
OPERATOR = Operator("running", (ITEMS, BAG), QUERIES, truncated=("items", "bag"))


@pytest.mark.spark
def test_running_windows_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


@pytest.mark.spark
def test_none_of_them_is_recomputed(spark: Any, tmp_path: Path) -> None:
    roots = [view.root for view in Circuits(spark, OPERATOR, tmp_path).compilation.views.values()]
    assert all(any(isinstance(n, Running) for n in root.walk()) for root in roots)
    assert not any(isinstance(n, Window) for root in roots for n in root.walk())


def compiled(spark: Any, sql: str) -> Compilation:
    return Compiler(spark).compile({ITEMS.name: ITEMS.relation}, [ViewDefinition("v", sql)], {})


@pytest.mark.spark
def test_what_recomputes_its_whole_input_must_be_asked_for(spark: Any) -> None:
    sql = "select id, count(*) over () n from items"
    refused = compiled(spark, sql).refused["v"]
    assert refused.code == "sql.not_incremental"
    assert refused.where == "view v"
    assert refused.next is not None and "on_change: recompute" in refused.next
    accepted = compiled(spark, f"-- of all\n-- on_change: recompute\n{sql}").views["v"]
    costs = {entry["name"]: entry["cost"] for entry in explain("v", sql, accepted.root, {}, {})["operators"]}
    assert costs["window"] == "all rows of its input, whenever one changes (on_change: recompute)"


@pytest.mark.spark
def test_an_order_over_everything_needs_no_partition(spark: Any) -> None:
    root = compiled(spark, "select id, rank() over (order by n) r from items").views["v"].root
    costs = {entry["name"]: entry["cost"] for entry in explain("v", "", root, {}, {})["operators"]}
    assert costs["running window"] == "the change and the rows after it in its partitions"
