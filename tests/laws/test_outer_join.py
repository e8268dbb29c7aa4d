"""Goal: outer, semi, anti and existence joins, EXCEPT and INTERSECT equal batch after every commit. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS, PARTS

QUERIES = {
    "left": """
        select i.case_id, i.id, p.id pid, p.s from items i left join parts p on i.case_id = p.case_id and i.k = p.k""",
    "left_with_a_residual": """
        select i.case_id, i.id, p.id pid from items i
        left join parts p on i.case_id = p.case_id and i.k = p.k and (i.s < p.s or i.f >= p.f) and i.id > 0""",
    "right": """
        select p.case_id, p.id pid, i.id, i.s from items i right join parts p on i.case_id = p.case_id and i.k = p.id""",
    "full": """
        select coalesce(i.case_id, p.case_id) case_id, i.id, p.id pid, i.s, p.s ps from items i
        full join parts p on i.case_id = p.case_id and i.k = p.k""",
    "full_by_double": """
        select coalesce(i.case_id, p.case_id) case_id, i.id, p.id pid from items i
        full join parts p on i.case_id = p.case_id and i.f = p.f and i.id <> p.id""",
    "left_of_left": """
        select i.case_id, i.id, p.id pid, q.s from items i left join parts p on i.case_id = p.case_id and i.k = p.k
        left join parts q on q.case_id = p.case_id and q.id = p.k""",
    "semi": """
        select i.case_id, i.id, i.s from items i left semi join bag b on i.case_id = b.case_id and i.k = b.k""",
    "anti": """
        select case_id, id, s from items i where not exists
        (select 1 from bag b where i.case_id = b.case_id and i.s = b.s and b.k > 0)""",
    "existence": """
        select case_id, id, exists (select 1 from parts p where p.case_id = i.case_id and p.k = i.k) e from items i
        where k is null or not exists (select 1 from bag b where b.case_id = i.case_id and b.s = i.s)""",
    "in_or_not": """
        select case_id, id from items i
        where id in (select id from parts p where p.case_id = i.case_id) or s = 'a'""",
    "of_multisets": """
        select a.case_id, a.k, a.s, b.s t from bag a left join bag b on a.case_id = b.case_id and a.k = b.k and a.s <> b.s""",
    "correlated_value": """
        select case_id, id, (select max(p.s) from parts p where p.case_id = i.case_id and p.k = i.k) m from items i""",
    "except": "select case_id, k from items except select case_id, k from bag",
    "except_all": "select case_id, k from items except all select case_id, k from bag",
    "intersect": "select case_id, k, s from items intersect select case_id, k, s from parts",
    "intersect_all": "select case_id, s from items intersect all select case_id, s from bag",
}
OPERATOR = Operator("outer_join", (ITEMS, PARTS, BAG), QUERIES)


@pytest.mark.spark
def test_joins_that_look_at_what_is_missing_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
