"""Goal: over tables that only grow, operators that keep less answer as batch does after every commit. See harness.py."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from harness import Circuits, Operator, hold
from histories import Table
from shop import ITEMS

from headrace.circuit.appended import AppendTopK
from headrace.circuit.node import Aggregate, OrderedAggregate, TopK

START = datetime(2026, 3, 1, tzinfo=UTC)
BIDS = Table(
    "bids",
    {"auction": "int", "price": "bigint", "at": "timestamp", "day": "date", "s": "string", "f": "double"},
    {
        "auction": (None, 0, 1),
        "price": (None, 0, 1, -1, 2**62, -(2**62)),
        "at": (None, START, START + timedelta(microseconds=1), START - timedelta(days=40_000)),
        "day": (None, date(2026, 3, 1), date(1, 1, 1)),
        "s": (None, "", "a", "a\0", "b"),
        "f": (None, 0.0, -0.0, 1.5, float("nan")),
    },
    append_only=True,
)
SELLERS = Table(
    "sellers", {"auction": "int", "seller": "string"}, {"auction": (0, 1), "seller": ("x", "y")}, append_only=True
)
# Equal rows meet.
TICKS = Table("ticks", {"a": "int", "price": "bigint"}, {"a": (0,), "price": (1, 5, 9)}, append_only=True)

QUERIES = {
    "all_best_ticks": "select case_id, a, price from ticks qualify rank() over (partition by case_id, a order by price desc) = 1",
    "first_ranks_of_ticks": """
        select case_id, a, price, rank() over (partition by case_id, a order by price) r from ticks qualify r <= 3""",
    "best": """
        select case_id, auction, price, at, s from bids
        qualify row_number() over (partition by case_id, auction order by price desc, at) = 1""",
    "best_three": """
        select case_id, auction, price, f, s, row_number() over (partition by case_id, auction order by f, s desc) r
        from bids qualify r <= 3""",
    "second": """
        select case_id, auction, s from (select *, row_number() over (partition by case_id, auction order by s) r
        from bids) where r = 2""",
    "best_by_expression": """
        select case_id, s, price from bids
        qualify row_number() over (partition by case_id, upper(s) order by price % 2 nulls last, day desc) <= 2""",
    "none": "select case_id, auction, price from bids qualify row_number() over (partition by case_id, auction order by at) < 1",
    "best_of_all": "select case_id, price, s from bids qualify row_number() over (partition by case_id order by at) <= 2",
    "all_best": """
        select case_id, auction, price, s from bids
        qualify rank() over (partition by case_id, auction order by price desc nulls last) = 1""",
    "first_ranks": """
        select case_id, s, f, day, rank() over (partition by case_id, s order by f, day desc) r from bids
        qualify r <= 3""",
    "own_best": """
        select b.case_id, b.auction, b.at, m.best from bids b join
        (select case_id, auction, max(at) best from bids group by case_id, auction) m
        on b.case_id = m.case_id and b.auction = m.auction and b.at = m.best""",
    "best_of_joined": """
        select b.case_id, seller, price, s from bids b join sellers z on b.case_id = z.case_id and b.auction = z.auction
        qualify row_number() over (partition by b.case_id, seller order by price desc, at desc) <= 2""",
    "extremes": """
        select case_id, auction, min(price) a, max(price) b, min(at) c, max(at) d, min(day) e, max(day) f, count(*) g,
        sum(price % 10) h, avg(f) i, max(price) filter (where s = 'a') j from bids group by case_id, auction""",
    "extremes_of_texts": """
        select case_id, auction, min(s) a, max(s) b, max(s || price) filter (where f > 0) c, count(s) d from bids
        group by case_id, auction""",
    "distinct_values": """
        select case_id, auction, count(distinct price) a, count(distinct s) filter (where price > 0) b,
        sum(distinct price % 3) c, count(distinct s, day) d, max(s) e, min(at) f, count(distinct f) g, count(*) h
        from bids group by case_id, auction""",
    "extremes_of_joined": """
        select b.case_id, seller, max(price) a, min(day) b, count(s) c from bids b join sellers z
        on b.case_id = z.case_id and b.auction = z.auction where price <> 0 group by b.case_id, seller""",
    "of_a_union": """
        select case_id, max(price) a, min(price) b from (select case_id, price from bids where s = 'a'
        union all select case_id, price + 1 from bids where price < 3) group by case_id""",
    "not_of_these": """
        select case_id, auction, max(s) a, min(f) b, count(distinct price) c, max(at) d from bids
        group by case_id, auction""",
    "not_of_a_left_join": """
        select b.case_id, b.auction, max(k) a from bids b left join items i on b.case_id = i.case_id and b.auction = i.k
        group by b.case_id, b.auction""",
    "again": """
        select case_id, max(best) a from (select case_id, auction, max(price) best from bids group by case_id, auction)
        group by case_id""",
}  # fmt: skip
KEEP_LESS = {
    "all_best_ticks", "first_ranks_of_ticks", "none",
    "all_best", "first_ranks", "own_best", "best", "best_three", "second", "best_by_expression", "best_of_all", "best_of_joined", "extremes",
    "extremes_of_joined", "extremes_of_texts", "distinct_values", "of_a_union",
}  # fmt: skip
OPERATOR = Operator("append_only", (BIDS, TICKS, SELLERS, ITEMS), QUERIES)


@pytest.mark.spark
def test_what_only_grows_equals_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


@pytest.mark.spark
def test_only_where_rows_never_go_is_less_kept(spark: Any, tmp_path: Path) -> None:
    views = Circuits(spark, OPERATOR, tmp_path).compilation.views
    keep_all = {n for n, v in views.items() if {type(n) for n in v.root.walk()} & {OrderedAggregate, TopK}}
    assert keep_all == views.keys() - KEEP_LESS
    assert {type(n) for n in views["best"].root.walk()} >= {AppendTopK}
    assert {type(n) for n in views["again"].root.walk()} >= {Aggregate, OrderedAggregate}
