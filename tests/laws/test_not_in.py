"""Goal: NOT IN (SELECT ...), with NULLs on either side, equals batch after every commit. Method: see chained.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chained import Template, hold_chained
from shop import BAG, ITEMS, PARTS

TEMPLATES: dict[str, Template] = {
    "plain": lambda same: f"select case_id, id from items i where k not in (select p.k from parts p where {same('p')})",
    "never_null_left": lambda same: (
        f"""select case_id, id, s from items i
        where id not in (select b.k from bag b where {same("b")})"""
    ),
    "never_null_right": lambda same: (
        f"""select case_id, id from items i
        where k not in (select p.id from parts p where {same("p")})"""
    ),
    "of_a_multiset": lambda same: (
        f"""select case_id, k, s from bag i
        where s not in (select p.s from parts p where {same("p")})"""
    ),
    "of_some_rows": lambda same: (
        f"""select case_id, id from items i
        where s not in (select b.s from bag b where b.k = 1 and {same("b")}) and id < 3"""
    ),
    "of_doubles": lambda same: (
        f"select case_id, id from items i where f not in (select p.f from parts p where {same('p')})"
    ),
    "of_decimals": lambda same: (
        f"select case_id, id from items i where d not in (select p.d from parts p where {same('p')})"
    ),
    "of_itself": lambda same: (
        f"select case_id, id from items i where id not in (select a.k from items a where {same('a')})"
    ),
    "of_two": lambda same: (
        f"""select case_id, id from items i
        where (k, s) not in (select p.k, p.s from parts p where {same("p")})"""
    ),
    "of_two_in_a_multiset": lambda same: (
        f"""select case_id, k, s from bag i
        where (s, k) not in (select p.s, p.k from parts p where {same("p")})"""
    ),
    "as_a_flag": lambda same: (
        f"""select case_id, id, k not in (select p.k from parts p where {same("p")}) e
        from items i"""
    ),
    "as_two_flags": lambda same: (
        f"""select case_id, id, (k, s) not in (select p.k, p.s from parts p where {same("p")}) e
        from items i"""
    ),
    "or_else": lambda same: (
        f"""select case_id, id from items i
        where k not in (select b.k from bag b where {same("b")}) or s = 'a'"""
    ),
    "or_nothing_of_two": lambda same: (
        f"""select case_id, id from items i
        where (id, k) not in (select p.id, p.k from parts p where {same("p")}) or s is null"""
    ),
    "of_a_constant": lambda same: (
        f"""select case_id, id from items i
        where 2 not in (select b.k from bag b where {same("b")})"""
    ),
    "counted": lambda same: (
        f"""select case_id, count(*) n, sum(id) t from items i
        where k not in (select p.k from parts p where {same("p")}) group by case_id"""
    ),
}


@pytest.mark.spark
def test_not_in_equals_batch(spark: Any, tmp_path: Path) -> None:
    hold_chained(spark, tmp_path, "not_in", (ITEMS, PARTS, BAG), TEMPLATES)
