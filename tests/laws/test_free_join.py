"""Goal: joins without an equality, of every kind, equal batch after every commit. Method: see harness.py.

Two inequalities keep the cases of a run apart, so that no equality is left in the condition; the cases run in groups,
as every row of one is compared with those of all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import HISTORIES, Operator, hold
from shop import BAG, ITEMS, PARTS

CASES = 100  # a run
SAME = "{0}.case_id >= {1}.case_id and {0}.case_id <= {1}.case_id"
IP, IB, AB = SAME.format("i", "p"), SAME.format("i", "b"), SAME.format("a", "b")

INNER = {
    "range": f"select i.case_id, i.id, p.id pid, i.s, p.s ps from items i join parts p on {IP} and i.k < p.k",
    "between": f"select i.case_id, i.id, p.id pid, q.id qid from items i join parts p on {IP} and p.k <= i.k"
    f" join parts q on {SAME.format('i', 'q')} and i.k <= q.k and q.id <> p.id",
    "or_of_equalities": f"select i.case_id, i.id, p.id pid from items i join parts p on {IP} and (i.k = p.k or i.s = p.s)",
    "by_spark": f"select i.case_id, i.id, p.id pid from items i join parts p on {IP} and i.f + p.f > 1 and i.d <> p.d",
    "with_itself": f"select a.case_id, a.id, b.id b from items a join items b on {AB} and a.k > b.id",
    "of_multisets": f"select a.case_id, a.s, b.s t from bag a join bag b on {AB} and a.k <= b.k",
    "of_aggregates": f"""select i.case_id, i.id, b.n from items i
        join (select case_id, k, count(*) n from bag group by case_id, k) b on {IB} and i.k >= b.n""",
    "counted": f"""select case_id, count(*) n, sum(pid) t from
        (select i.case_id, p.id pid from items i join parts p on {IP}) group by case_id""",
}
OUTER = {
    "left": f"select i.case_id, i.id, p.id pid, p.s from items i left join parts p on {IP} and i.k < p.k",
    "left_by_spark": f"select i.case_id, i.id, p.id pid from items i left join parts p on {IP} and i.f + p.f > 1",
    "right": f"select p.case_id, p.id pid, i.id, i.s from items i right join parts p on {IP} and i.k <> p.id",
    "full": f"""select coalesce(i.case_id, p.case_id) case_id, i.id, p.id pid, i.s, p.s ps from items i
        full join parts p on {IP} and (i.k = p.k or i.s < p.s)""",
    "left_of_multisets": f"select a.case_id, a.k, a.s, b.s t from bag a left join bag b on {AB} and a.s <> b.s",
    "semi": f"select i.case_id, i.id, i.s from items i left semi join bag b on {IB} and i.k > b.k",
    "semi_of_multisets": f"select a.case_id, a.k, a.s from bag a left semi join parts b on {AB} and a.k < b.id",
    "anti": f"""select case_id, id, s from items i where not exists
        (select 1 from bag b where {IB} and (i.s = b.s or b.k > i.k))""",
    "anti_of_multisets": f"select a.case_id, a.s from bag a left anti join bag b on {AB} and a.k < b.k",
    "existence": f"""select case_id, id, exists (select 1 from parts p where {IP} and p.k <= i.k) e from items i
        where k is null or not exists (select 1 from bag b where {IB} and b.s <> i.s)""",
    "of_the_table_itself": f"select a.case_id, a.id from items a where not exists (select 1 from items b where {AB} and a.k < b.k)",
    "correlated_value": f"select case_id, id, (select count(*) from parts p where {IP} and p.k < i.k) m from items i",
    "lateral": f"""select i.case_id, i.id, l.n from items i,
        lateral (select sum(p.id) n from parts p where {IP} and p.k >= i.k) l""",
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["inner", "outer"])
def test_joins_without_an_equality_equal_batch(spark: Any, tmp_path: Path, kind: str) -> None:
    operator = Operator(f"free_{kind}_join", (ITEMS, PARTS, BAG), INNER if kind == "inner" else OUTER)
    hold(spark, tmp_path, operator, HISTORIES, at_once=CASES)
