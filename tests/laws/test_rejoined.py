"""Goal: joins by one key keep their relations alone, and equal batch after every commit. Method: see harness.py.

What each query keeps is counted too, beside the tables by their own keys: relations with the same columns count once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Circuits, Operator, hold
from shop import BAG, ITEMS, PARTS

from headrace.circuit.build import TABLE

PAIRS = "items i join parts p on i.case_id = p.case_id and i.k = p.k"
LEFT = "items i left join parts p on i.case_id = p.case_id and i.k = p.k"
# How many arrangements are kept, and the query.
QUERIES = {
    "of_three": (
        3, f"select i.case_id, i.id, p.id pid, b.s from {PAIRS} join bag b on b.case_id = i.case_id and b.k = p.k"
    ),
    "of_what_meets_nothing": (
        3, f"""select i.case_id, i.id, p.id pid, b.s from {LEFT}
        left join bag b on b.case_id = i.case_id and b.k = i.k"""
    ),
    "of_some_that_meet_nothing": (
        3, f"select i.case_id, i.id, p.s, b.s bs from {LEFT} join bag b on b.case_id = i.case_id and b.k = i.k"
    ),
    "of_multisets": (
        1, """select a.case_id, a.s, b.s t, c.s u from bag a join bag b on a.case_id = b.case_id and a.k = b.k
        join bag c on c.case_id = a.case_id and c.k = a.k"""
    ),
    "of_both": (
        4, f"""select x.case_id, x.id, y.s from (select i.case_id, i.k, i.id from {PAIRS}) x
        join (select a.case_id, a.k, b.s from bag a join bag b on a.case_id = b.case_id and a.k = b.k) y
        on x.case_id = y.case_id and x.k = y.k"""
    ),
    "on_the_right": (
        3, f"""select b.case_id, b.s, x.id from bag b
        join (select i.case_id, i.k, i.id from {PAIRS}) x on x.case_id = b.case_id and x.k = b.k"""
    ),
    "in_full": (
        3, f"""select coalesce(x.case_id, b.case_id) case_id, x.id, b.s from (select i.case_id, i.k, i.id from {PAIRS}) x
        full join bag b on b.case_id = x.case_id and b.k = x.k"""
    ),
    "of_six_of_which_the_fifth_is_kept": (
        8, f"""select i.case_id, i.id, p.id pid, b.s, q.s qs, r.f, t.k from {PAIRS}
        join bag b on b.case_id = p.case_id and b.k = i.k join parts q on q.case_id = i.case_id and q.k = b.k
        join parts r on r.case_id = i.case_id and r.k = i.k
        join (select distinct case_id, k from bag) t on t.case_id = i.case_id and t.k = i.k"""
    ),
    "that_is_looked_at": (
        3, f"""select i.case_id, i.id, p.id pid,
        exists (select 1 from bag b where b.case_id = i.case_id and b.k = i.k) there from {PAIRS}"""
    ),
    "by_the_tables_key": (
        0, """select i.case_id, i.s, p.s ps, q.k from items i join parts p on i.case_id = p.case_id and i.id = p.id
        join items q on q.case_id = i.case_id and q.id = p.id"""
    ),
    "by_another_key": (
        4, f"""select i.case_id, i.id, p.id pid, b.k from {PAIRS} join bag b on b.case_id = i.case_id and b.s = i.s"""
    ),
    "with_a_residual": (
        4, f"""select i.case_id, i.id, p.id pid, b.s from {PAIRS} and i.f < p.f
        join bag b on b.case_id = i.case_id and b.k = i.k"""
    ),
    "by_what_may_be_missing": (
        4, f"""select i.case_id, i.id, p.id pid, b.s from {LEFT} left join bag b on b.case_id = p.case_id and b.k = p.k"""
    ),
    "with_a_condition_above": (
        4, f"""select x.*, b.s from (select i.case_id, i.k, i.id, p.id pid from {LEFT} where p.id is null or i.id > p.id) x
        left join bag b on b.case_id = x.case_id and b.k = x.k"""
    ),
    "of_what_is_computed": (
        4, f"""select x.*, b.s from (select i.case_id, i.k, i.id, p.id + 1 more from {PAIRS}) x
        left join bag b on b.case_id = x.case_id and b.k = x.k"""
    ),
    "of_multisets_and_a_table": (
        3, """select a.case_id, p.id, b.s from bag a join bag b on a.case_id = b.case_id and a.k = b.k
        join parts p on p.case_id = a.case_id and p.k = a.k"""
    ),
}  # fmt: skip
TABLES = (ITEMS, PARTS, BAG)


@pytest.mark.spark
def test_joins_by_one_key_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, Operator("rejoined", TABLES, {name: sql for name, (_, sql) in QUERIES.items()}))


@pytest.mark.spark
def test_nothing_is_kept_between_joins_by_one_key(spark: Any, tmp_path: Path) -> None:
    for name, (count, sql) in QUERIES.items():
        circuits = Circuits(spark, Operator("rejoined", TABLES, {name: sql}), tmp_path / name)
        kept = [a for a in circuits.stepper.frames.arrangements if not a.startswith(TABLE)]
        told = [o.name for o in circuits.stepper.frames.operators[f"{name}@1"] if o.arrangements]
        assert len(kept) == count, (name, told)
