"""Goal: inner joins equal batch after every commit. Method: see harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from shop import BAG, ITEMS, PARTS

QUERIES = {
    "by_value": """
        select i.case_id, i.id, p.id pid, i.s, p.s ps from items i join parts p on i.case_id = p.case_id and i.k = p.k""",
    "by_the_tables_key": """
        select i.case_id, i.id, p.s from items i join parts p on i.case_id = p.case_id and i.k = p.id""",
    "with_a_residual": """
        select i.case_id, i.id, p.id pid from items i
        join parts p on i.case_id = p.case_id and i.k = p.k and (i.s < p.s or i.f > p.f)""",
    "with_itself": """
        select a.case_id, a.id, b.id b, b.s from items a join items b on a.case_id = b.case_id and a.k = b.id""",
    "of_three": """
        select i.case_id, i.id, p.id pid, q.s from items i join parts p on i.case_id = p.case_id and i.k = p.k
        join parts q on q.case_id = i.case_id and q.id = i.id""",
    "null_safe": """
        select i.case_id, i.id, p.id pid from items i join parts p on i.case_id = p.case_id and i.s <=> p.s""",
    "by_double": """
        select i.case_id, i.id, p.id pid, i.f, p.f pf from items i
        join parts p on i.case_id = p.case_id and i.f = p.f""",
    "by_decimals": """
        select i.case_id, i.id, p.id pid, p.d from items i join parts p on i.case_id = p.case_id and i.d = p.d""",
    "of_multisets": """
        select a.case_id, a.s, b.s t from bag a join bag b on a.case_id = b.case_id and a.k = b.k""",
    "of_aggregates": """
        select i.case_id, i.id, c.n from items i
        join (select case_id, k, count(*) n from bag group by case_id, k) c on i.case_id = c.case_id and i.k = c.k""",
}
OPERATOR = Operator("inner_join", (ITEMS, PARTS, BAG), QUERIES)


@pytest.mark.spark
def test_inner_joins_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
