"""Goal: rows joined with the greatest or least of their own values equal batch after every commit, and only such
joins become a ranking. See harness.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Circuits, Operator, hold
from shop import BAG, ITEMS, PARTS

from headrace.circuit.node import Join, TopK

QUERIES = {
    "greatest": """
        select i.case_id, i.id, i.k, i.n, m.k mk, m.best from items i join
        (select case_id, k, max(n) best from items group by case_id, k) m
        on i.case_id = m.case_id and i.k = m.k and i.n >= m.best""",
    "least_turned_round": """
        select i.case_id, m.low, i.id, i.f from (select case_id c, s, min(d) low from items group by case_id, s) m join items i
        on m.low = i.d and m.s = i.s and i.case_id = m.c""",
    "least_by_equality": """
        select i.case_id, i.id, m.low from items i join (select case_id, min(s) low from items group by case_id) m
        on i.case_id = m.case_id where i.s <= m.low""",
    "semi": "select case_id, id, n from items where (case_id, k, n) in (select case_id, k, max(n) from items group by case_id, k)",
    "copies": """
        select b.case_id, b.k, b.s, m.a from bag b join (select case_id, k, max(s) a from bag group by case_id, k) m
        on b.case_id = m.case_id and b.k = m.k and b.s = m.a""",
    "of_expressions": """
        select i.case_id, i.id, i.x, m.best from (select case_id, id, k % 2 h, n % 3 x from items) i join
        (select case_id, k % 2 h, max(n % 3) best from items group by case_id, k % 2) m
        on i.case_id = m.case_id and i.h = m.h and m.best <= i.x""",
    "of_groups": """
        with counted as (select case_id, k, s, count(*) c, min(n) low from items group by case_id, k, s)
        select a.case_id, a.k, a.s, a.c, a.low from counted a join
        (select case_id, k, max(c) best from counted group by case_id, k) m
        on a.case_id = m.case_id and a.k = m.k and a.c >= m.best""",
    "of_copies_made": """
        with more as (select case_id, id, k + j h, n from items lateral view explode(array(0, 1)) as j)
        select a.case_id, a.id, a.h, a.n from more a join
        (select case_id, h, min(n) low from more group by case_id, h) m
        on a.case_id = m.case_id and a.h = m.h and a.n = m.low""",
    "of_some": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, max(n) best from items where k > 0 group by case_id) m
        on i.case_id = m.case_id and i.n = m.best where i.k > 0""",
    "of_texts": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, max(n) best from items where s in ('a', 'b') and n < 9 group by case_id) m
        on i.case_id = m.case_id and i.n >= m.best where i.n < 9 and i.s in ('a', 'b')""",
    # From here on none is a ranking.
    "of_other_rows": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, max(n) best from items where k > 0 group by case_id) m
        on i.case_id = m.case_id and i.n = m.best""",
    "of_another_table": """
        select p.case_id, p.id, m.best from parts p join
        (select case_id, max(id) best from items group by case_id) m on p.case_id = m.case_id and p.id = m.best""",
    "by_another_key": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, k, max(n) best from items group by case_id, k) m
        on i.case_id = m.case_id and i.id = m.k and i.n >= m.best""",
    "another_value": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, k, max(id) best from items group by case_id, k) m
        on i.case_id = m.case_id and i.k = m.k and i.n >= m.best""",
    "the_other_way": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, k, max(n) best from items group by case_id, k) m
        on i.case_id = m.case_id and i.k = m.k and i.n <= m.best""",
    "fewer_keys": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, k, max(n) best from items group by case_id, k) m on i.case_id = m.case_id and i.n >= m.best""",
    "more_asked": """
        select i.case_id, i.id, i.n from items i join
        (select case_id, k, max(n) best, count(*) c from items group by case_id, k) m
        on i.case_id = m.case_id and i.k = m.k and i.n >= m.best and i.id < m.c""",
    "of_doubles": """
        select i.case_id, i.id, m.best from items i join
        (select case_id, k, max(f) best from items group by case_id, k) m
        on i.case_id = m.case_id and i.k = m.k and i.f >= m.best""",
    "of_the_other_of_two_equal_lists": """
        with more as (select case_id, id, k, x, y from items
        lateral view explode(array(0, 1)) as x lateral view explode(array(0, 1)) as y)
        select a.*, m.best from (select * from more where y < 1) a join
        (select case_id, k, max(x) best from more where x < 1 group by case_id, k) m
        on a.case_id = m.case_id and a.k = m.k and a.x >= m.best""",
    "of_the_other_of_two_equal_sequences": """
        with more as (select case_id, id, k, x, y from items lateral view explode(sequence(0, coalesce(k, 0))) as x
        lateral view explode(sequence(0, coalesce(k, 0))) as y)
        select a.*, m.best from (select * from more where y < 1) a join
        (select case_id, k, max(x) best from more where x < 1 group by case_id, k) m
        on a.case_id = m.case_id and a.k = m.k and a.x >= m.best""",
    "beyond_a_colon": """
        select i.case_id, i.id, m.best from items i join (select case_id, max(id) best from items group by case_id) m
        on i.case_id = m.case_id and i.id >= m.best where ':' like concat(':', i.s)""",
    "literals_of_other_types": """
        select i.case_id, i.id, m.best from items i join (select case_id, max(id) best from items
        where hash(1, id) > 0 and hash(1L, k) <> 0 group by case_id) m
        on i.case_id = m.case_id and i.id >= m.best where hash(1, i.k) <> 0 and hash(1L, i.id) > 0""",
    "a_text_that_reads_like_a_column": """
        select i.case_id, i.id, m.best from items i join
        (select case_id, max(id) best from items where s <> "'c2" group by case_id) m
        on i.case_id = m.case_id and i.id >= m.best where i.s <> "'c99" """,
    "outer": """
        select i.case_id, i.id, m.best from items i left join
        (select case_id, k, max(n) best from items group by case_id, k) m
        on i.case_id = m.case_id and i.k = m.k and i.n >= m.best""",
}
NO_RANKING = list(QUERIES)[list(QUERIES).index("of_other_rows") :]
OPERATOR = Operator("own_extreme", (ITEMS, PARTS, BAG), QUERIES, truncated=("items", "bag"))


@pytest.mark.spark
def test_rows_with_their_own_extremes_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


@pytest.mark.spark
def test_which_joins_are_a_ranking(spark: Any, tmp_path: Path) -> None:
    views = Circuits(spark, OPERATOR, tmp_path).compilation.views
    kinds = {name: {type(node) for node in view.root.walk()} for name, view in views.items()}
    assert {name for name, found in kinds.items() if TopK in found} == QUERIES.keys() - set(NO_RANKING)
    assert {name for name, found in kinds.items() if Join in found} == set(NO_RANKING)
