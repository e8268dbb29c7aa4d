"""Goal: views over constants, alone and beside tables, equal batch after every commit. Method: see chained.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chained import Template, hold_chained
from shop import BAG, ITEMS, PARTS

WORDS = "(values (1, 'a'), (2, 'b'), (2, null), (null, 'c')) v(k, s)"

TEMPLATES: dict[str, Template] = {
    "joined": lambda same: f"select i.case_id, i.id, v.s from items i join {WORDS} on i.k = v.k",
    "ranged": lambda same: f"select i.case_id, i.id, v.s from items i join {WORDS} on i.k < v.k",
    "outer": lambda same: f"select i.case_id, i.id, v.k from items i left join {WORDS} on i.s = v.s",
    "crossed": lambda same: "select i.case_id, i.id, r.id n from items i cross join range(3) r",
    "numbers": lambda same: "select i.case_id, i.id, r.id n from items i join range(-4, 9, 3) r on r.id <= i.id",
    "in_values": lambda same: f"select i.case_id, i.id from items i where s in (select s from {WORDS})",
    "not_in_values": lambda same: f"select i.case_id, i.id from items i where k not in (select k from {WORDS})",
    "not_in_range": lambda same: "select i.case_id, i.id from items i where k not in (select id from range(1, 3))",
    "as_a_value": lambda same: f"select i.case_id, i.id, (select count(s) from {WORDS}) + i.id n from items i",
    "counted": lambda same: (
        f"""select i.case_id, v.k, count(*) n, sum(i.id) t from items i join {WORDS} on i.s = v.s
        group by i.case_id, v.k"""
    ),
    "united": lambda same: "select case_id, k from bag i union all select case_id, 1 from parts i",
    "of_nothing": lambda same: (
        "select i.case_id, i.id, v.k from items i left join (select * from bag where 1 = 0) v on i.k = v.k"
    ),
}


@pytest.mark.spark
def test_views_over_constants_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold_chained(spark, tmp_path, "constants", (ITEMS, PARTS, BAG), TEMPLATES)
