"""Goal: subqueries used as values equal batch after every commit; several rows are an error. Method: see chained.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chained import Template, hold_chained
from harness import Circuits, Operator
from histories import Change, StepPlan
from shop import BAG, ITEMS, PARTS

from headrace.engine.step import CircuitFailed
from headrace.model.transaction import INSERT

TEMPLATES: dict[str, Template] = {
    "selected": lambda same: f"select case_id, id, (select avg(p.f) from parts p where {same('p')}) a from items i",
    "or_null": lambda same: (
        f"""select case_id, id, (select p.s from parts p where p.id = 2 and {same("p")}) v
        from items i"""
    ),
    "above_the_mean": lambda same: (
        f"""select case_id, id, f from items i
        where f > (select avg(p.f) from parts p where {same("p")})"""
    ),
    "above_its_own_mean": lambda same: (
        f"""select case_id, id from items i
        where k >= (select avg(a.k) from items a where {same("a")}) and s is not null"""
    ),
    "equal_to_one": lambda same: (
        f"""select case_id, id from items i
        where k = (select p.k from parts p where p.id = 1 and {same("p")})"""
    ),
    "below_a_text": lambda same: (
        f"""select case_id, id, s from items i
        where (select max(p.s) from parts p where {same("p")}) >= s"""
    ),
    "above_a_share": lambda same: (
        f"""select case_id, k, sum(cast(id as decimal(9,2))) t from items i group by case_id, k
        having sum(cast(id as decimal(9,2))) > (select sum(cast(p.id as decimal(9,2))) * 0.3 from parts p
        where {same("p")})"""
    ),
    "of_a_multiset": lambda same: (
        f"""select case_id, k, s from bag i
        where k < (select count(*) from bag b where {same("b")} and b.k = 1)"""
    ),
    "two_in_a_condition": lambda same: (
        f"""select case_id, id from items i where id between
        (select count(*) - 2 from bag b where {same("b")}) and (select sum(p.k) from parts p where {same("p")})"""
    ),
    "in_a_case": lambda same: (
        f"""select case_id, id, case when k > 0 then (select count(*) from bag b where {same("b")})
        when s = 'a' then (select p.k from parts p where p.id = 0 and {same("p")}) else -1 end c from items i"""
    ),
    "having": lambda same: (
        f"""select case_id, k, count(*) n from items i group by case_id, k
        having count(*) >= (select count(*) from parts p where {same("p")})"""
    ),
    "in_an_aggregate": lambda same: (
        f"""select case_id, sum(k * (select count(*) from parts p where {same("p")})) t
        from items i group by case_id"""
    ),
    "beside_a_join": lambda same: (
        f"""select i.case_id, i.id, q.id qid from items i join parts q
        on q.case_id = i.case_id and i.k = q.k where q.id < (select count(*) from bag b where {same("b")})"""
    ),
    "exists": lambda same: (
        f"""select case_id, id from items i
        where exists (select 1 from parts p where p.k = 2 and {same("p")})"""
    ),
    "exists_not": lambda same: (
        f"""select case_id, id, exists (select 1 from bag b where b.s = 'a' and {same("b")}) e
        from items i where not exists (select 1 from parts p where p.id = 3 and {same("p")})"""
    ),
    "in_a_list": lambda same: (
        f"""select case_id, id from items i
        where id in (1, (select count(*) from parts p where {same("p")}))"""
    ),
    "correlated": lambda same: (
        f"""select case_id, id, (select p.s from parts p where p.id = i.k and {same("p")}) v
        from items i"""
    ),
    "correlated_by_a_range": lambda same: (
        f"""select case_id, id,
        (select p.s from parts p where p.id > i.k and p.id < i.k + 2 and {same("p")}) v from items i"""
    ),
}


@pytest.mark.spark
def test_subqueries_as_values_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold_chained(spark, tmp_path, "scalar_subquery", (ITEMS, PARTS, BAG), TEMPLATES)


SEVERAL = {
    "uncorrelated": "select case_id, (select s from bag where k = 1) v from items",
    "in_a_condition": "select case_id, id from items where s = (select s from bag where k = 1)",
    "correlated": "select case_id, (select b.s from bag b where b.k = i.k) v from items i",
    "correlated_by_a_range": "select case_id, (select b.s from bag b where b.k > i.k) v from items i",
}


@pytest.mark.spark
@pytest.mark.parametrize("query", SEVERAL)
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_several_rows_are_an_error(spark: Any, tmp_path: Path, query: str, wide: bool) -> None:
    circuits = Circuits(spark, Operator("several", (ITEMS, BAG), {query: SEVERAL[query]}), tmp_path)
    k = 0 if query.endswith("range") else 1
    item = Change("items", INSERT, (0, k, "a", 0, 0.0, None))
    bag = [Change("bag", INSERT, (1, s)) for s in ("a", None)]
    plan = (StepPlan(wide, "one", (((), ()),)), StepPlan(wide, "one", (((), ()),)))
    with pytest.raises(CircuitFailed, match=r"\[SCALAR_SUBQUERY_TOO_MANY_ROWS\]"):
        circuits.run(plan, [(((item, bag[0]),), ((bag[1],),))])
    assert not circuits.run(plan[:1], [(((item, bag[0]),),)]).differing
