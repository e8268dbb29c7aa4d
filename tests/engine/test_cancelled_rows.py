"""Goal: what batch never sees throws nowhere: rows that come and go in one step, pairs that never stood side by side.

Method: one step over several transactions, through views of every kind that would throw; then Spark batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from failing_case import SHARE, TABLES, begin, state
from running_case import Case, Running, all_wide, running

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as at_work:
        yield at_work


@pytest.mark.parametrize("wide", [False, True])
def test_a_row_that_comes_and_goes_in_one_step_throws_nowhere(
    shop: Running, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    if wide:
        all_wide(monkeypatch)
    joined = "orders o JOIN customers c ON o.customer = c.id"
    begin(shop, {
        "projected": SHARE,
        "filtered": "SELECT id FROM orders WHERE 100 div amount > 0",
        "multiset": "SELECT 100 div n AS x FROM clicks",
        "joined": f"SELECT o.id, 100 div (o.amount - c.rate) AS x FROM {joined}",
        "condition": "SELECT o.id, c.rate FROM orders o JOIN customers c ON o.customer = c.id AND 100 div (o.amount - c.rate) < 9",
        "outer_joined": "SELECT o.id, 100 div (o.amount - c.rate) AS x FROM orders o LEFT JOIN customers c ON o.customer = c.id",
        "three": f"SELECT p.id, 100 div (o.amount - c.rate) AS x FROM {joined} JOIN orders p ON p.amount = o.amount",
        "summed": "SELECT customer, 100 div sum(amount) AS x FROM orders GROUP BY customer",
        "ranked": "SELECT id, 100 div (sum(amount) OVER (PARTITION BY customer)) AS x FROM orders",
        "arguments": "SELECT customer, sum(100 div amount) AS x FROM orders GROUP BY customer",
    })  # fmt: skip
    # Of both sides of a pair that would throw only one is there at a time: 10 goes when the rate of 10 comes.
    shop.push(
        {"orders": {"insert": [[7, 1, 0], [9, 3, 33]]}, "clicks": {"insert": [["z", 0]]}},
        {"orders": {"delete": [[7]]}, "clicks": {"delete": [["z", 0]]}},
        {"customers": {"insert": [[3, 33]]}, "orders": {"update": [{"id": 9, "amount": 34}]}},
        {"orders": {"insert": [[8, 3, 33]]}},
        {"orders": {"delete": [[8]]}, "customers": {"update": [{"id": 3, "rate": 30}]}},
    )
    shop.step()
    assert {n: s for n, s in state(shop).items() if s != "live"} == {}
    shop.verify()
    # Old left rows and new right rows that never stood side by side, and the other way round.
    shop.push(
        {"orders": {"update": [{"id": 9, "amount": 50}]}},
        {"customers": {"update": [{"id": 3, "rate": 34}]}},
        {"customers": {"update": [{"id": 3, "rate": 50}]}, "orders": {"update": [{"id": 9, "amount": 51}]}},
    )
    shop.step()
    assert {n: s for n, s in state(shop).items() if s != "live"} == {}
    shop.verify()
