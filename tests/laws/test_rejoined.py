"""Goal: joins by one key keep their relations alone, and equal batch after every commit. Method: see harness.py.

That nothing is kept between them is looked at too: a query in which it were would be held to the law of other joins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Circuits, Operator, hold
from shop import BAG, ITEMS, PARTS

from headrace.circuit.node import Join
from headrace.circuit.operators.rejoined import below

ITEMS_AND_PARTS = "items i join parts p on i.case_id = p.case_id and i.k = p.k"
LEFT = "items i left join parts p on i.case_id = p.case_id and i.k = p.k"
REJOINED = {
    "of_three": f"select i.case_id, i.id, p.id pid, b.s from {ITEMS_AND_PARTS} join bag b on b.case_id = i.case_id and b.k = p.k",
    "of_four": f"""
        select i.case_id, i.id, p.id pid, b.s, q.s qs from {ITEMS_AND_PARTS}
        join bag b on b.case_id = p.case_id and b.k = i.k join parts q on q.case_id = i.case_id and q.k = b.k""",
    "of_multisets": """
        select a.case_id, a.s, b.s t, c.s u from bag a join bag b on a.case_id = b.case_id and a.k = b.k
        join bag c on c.case_id = a.case_id and c.k = a.k""",
    "on_the_right": f"""
        select b.case_id, b.s, x.id, x.more from bag b
        join (select i.case_id, i.k, i.id, p.id + 1 more from {ITEMS_AND_PARTS}) x on x.case_id = b.case_id and x.k = b.k""",
    "of_both": f"""
        select x.case_id, x.id, y.s from (select i.case_id, i.k, i.id from {ITEMS_AND_PARTS}) x
        join (select a.case_id, a.k, b.s from bag a join bag b on a.case_id = b.case_id and a.k = b.k) y
        on x.case_id = y.case_id and x.k = y.k""",
    "of_what_meets_nothing": f"""
        select i.case_id, i.id, p.id pid, b.s from {LEFT} left join bag b on b.case_id = i.case_id and b.k = i.k""",
    "of_some_that_meet_nothing": f"""
        select i.case_id, i.id, p.s, b.s bs from {LEFT} join bag b on b.case_id = i.case_id and b.k = i.k""",
    "that_is_looked_at": f"""
        select i.case_id, i.id, p.id pid, exists (select 1 from bag b where b.case_id = i.case_id and b.k = i.k) there
        from {ITEMS_AND_PARTS}""",
    "in_full": f"""
        select coalesce(x.case_id, b.case_id) case_id, x.id, b.s from
        (select i.case_id, i.k, i.id from {ITEMS_AND_PARTS}) x
        full join bag b on b.case_id = x.case_id and b.k = x.k""",
    "by_the_tables_key": """
        select i.case_id, i.s, p.s ps, q.k from items i join parts p on i.case_id = p.case_id and i.id = p.id
        join items q on q.case_id = i.case_id and q.id = p.id""",
}
KEPT = {
    "by_another_key": f"""
        select i.case_id, i.id, p.id pid, b.k from {ITEMS_AND_PARTS} join bag b on b.case_id = i.case_id and b.s = i.s""",
    "with_a_residual": f"""
        select i.case_id, i.id, p.id pid, b.s from {ITEMS_AND_PARTS} and i.f < p.f
        join bag b on b.case_id = i.case_id and b.k = i.k""",
    "with_a_condition_above": f"""
        select x.*, b.s from (select i.case_id, i.k, i.id, p.id is null alone from {LEFT} where p.id is null or i.id > p.id) x
        left join bag b on b.case_id = x.case_id and b.k = x.k""",
    "by_what_may_be_missing": f"""
        select i.case_id, i.id, p.id pid, b.s from {LEFT} left join bag b on b.case_id = p.case_id and b.k = p.k""",
}
TABLES = (ITEMS, PARTS, BAG)


@pytest.mark.spark
@pytest.mark.parametrize("queries", [REJOINED, KEPT], ids=["rejoined", "kept"])
def test_joins_by_one_key_equal_batch(spark: Any, tmp_path: Path, queries: dict[str, str]) -> None:
    hold(spark, tmp_path, Operator("rejoined", TABLES, queries))


@pytest.mark.spark
def test_nothing_is_kept_between_joins_by_one_key(spark: Any, tmp_path: Path) -> None:
    compiled = Circuits(spark, Operator("rejoined", TABLES, {**REJOINED, **KEPT}), tmp_path).compilation.views
    for name, view in compiled.items():
        joins = [node for node in view.root.walk() if isinstance(node, Join)]
        inputs = [each for join in joins for each in ((join.left, join.left_keys), (join.right, join.right_keys))]
        assert any(below(*each) for each in inputs) is (name in REJOINED), (name, view.root)
