"""Goal: functions of users equal batch after every commit, wherever an expression may stand. See harness.py.

What they compute is told by plain Python in tests/testing/test_user_functions.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from harness import Operator, hold
from pyspark.sql import functions as F
from pyspark.sql.types import StringType
from shop import BAG, ITEMS

from headrace import function

OFFSET = 3


def slot(k: int | None) -> int | None:
    """Values of k meet each other and those of another column."""
    return None if k is None else (k + OFFSET) % 2


@function(returns="decimal(14,2)")
def taxed(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else amount * 2


def spelled(s: str | None, k: int | None) -> str:
    return f"{s}/{k}"


@function(returns="array<struct<at: int, part: string>>")
def parts(s: str | None) -> list[tuple[int, str]]:
    return list(enumerate(s or "nothing"))[:2]


@function(returns="map<string,int>")
def told_by(s: str | None, k: int | None) -> dict[str, int | None]:
    return {f"{s}z": k, "b": None, "a": k}


@function
def listed(m: dict[str, int | None] | None) -> str:
    return ",".join(m or ())


@function(returns="double")
def halved(f: pd.Series) -> pd.Series:
    return f / 2


@function(returns="bigint")
def raised(k: pa.Array) -> pa.Array:
    return pc.add(pc.fill_null(k, 10), 1)


@function(returns="boolean")
def even(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for k in batches:
        yield k.fillna(0) % 2 == 0


@function
def mean_of(f: pd.Series) -> float:
    """The last bits follow the order of the rows."""
    return sum(f.dropna()) / max(len(f), 1)


@function
def told(s: pa.Array, k: pa.Array) -> str:
    return "|".join(map(str, zip(s.to_pylist(), k.to_pylist(), strict=True)))


@function(returns="array<decimal(12,2)>")
def ends(d: pd.Series) -> list[Decimal]:
    known = d.dropna().tolist()
    return known[:1] + known[-1:]


FUNCTIONS = {
    "told_by": told_by, "listed": listed,
    "mean_of": mean_of, "told": told, "ends": ends,
    "slot": slot, "taxed": taxed, "spelled": spelled, "parts": parts, "halved": halved, "raised": raised, "even": even,
    "initial": F.udf(lambda s: s[:1] if s else None, StringType(), useArrow=False),
}  # fmt: skip
QUERIES = {
    "projection": "select case_id, id, slot(k) x, taxed(d) d, spelled(s, k) t, initial(s) i, raised(k) r from items",
    "filter": "select case_id, id, s from items where even(k) and slot(k) = 1 or initial(s) = 'a'",
    "doubles": "select case_id, id, halved(f) h, halved(halved(f)) q from items where halved(f) > 0",
    "maps": """
        select a.case_id, a.id, map_keys(m) k, listed(m) l, cast(m as string) t, listed(map('y', b.k, 'x', a.k)) x
        from (select case_id, id, k, told_by(s, k) m from items) a join bag b on a.case_id = b.case_id and a.k = b.k""",
    "case": "select case_id, id, case when k > 0 then slot(k) when s = 'a' then -1 end c from items",
    "group_key": "select case_id, spelled(s, slot(k)) t, count(*) n from items group by case_id, spelled(s, slot(k))",
    "argument": """
        select case_id, k, sum(taxed(d)) s, max(initial(s)) m, count(distinct slot(k)) n, avg(halved(f)) a,
               collect_list(spelled(s, k)) l
        from items group by case_id, k""",
    "having": "select case_id, k, slot(cast(count(*) as int)) n from items group by case_id, k having even(count(*))",
    "distinct": "select distinct case_id, initial(s) i from bag",
    "join": """
        select a.case_id, a.id, b.s from items a join bag b
        on a.case_id = b.case_id and slot(a.k) = slot(b.k) and spelled(a.s, b.k) <> 'a/1'""",
    "left_join": "select a.case_id, a.id, b.k from items a left join bag b on a.case_id = b.case_id and slot(a.k) = b.k",
    "semi_join": "select case_id, id from items where (case_id, raised(k)) in (select case_id, k from bag)",
    "subquery": """
        select case_id, id from items i
        where raised(k) > (select avg(slot(b.k)) from bag b where b.case_id = i.case_id)""",
    "generator": "select case_id, id, p.at, p.part from items lateral view explode(parts(s)) as p",
    "window": """
        select case_id, id, rank() over (partition by case_id, slot(k) order by initial(s)) r,
               sum(raised(k)) over (partition by case_id, even(k)) s
        from items""",
    "top": """
        select case_id, id, t from (
            select case_id, id, spelled(s, k) t, row_number() over (partition by case_id order by spelled(s, k)) n
            from items) where n <= 2""",
    "groups": "select case_id, k, mean_of(f) m, told(s, id) t, ends(d) e from items group by case_id, k",
    "groups_beside_others": """
        select case_id, s, told(s, slot(k)) t, sum(f) x, count(distinct k) n from items
        group by case_id, s having mean_of(n) is not null""",
    "groups_of_a_multiset": "select case_id, told(s, k) t from bag group by case_id",
    "groups_in_windows": """
        select case_id, id, told(s, id) over (partition by case_id, k) t,
               mean_of(f) over (partition by case_id order by id rows between 1 preceding and current row) m
        from items""",
    "collated": """
        select case_id, spelled(s, 1) collate utf8_lcase c, told(s collate utf8_lcase, k) t
        from items group by case_id, spelled(s, 1) collate utf8_lcase""",
    "union": "select case_id, slot(k) x from items union select case_id, raised(k) from bag",
}
OPERATOR = Operator("user_functions", (ITEMS, BAG), QUERIES, functions=FUNCTIONS)


@pytest.mark.spark
def test_functions_of_users_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
