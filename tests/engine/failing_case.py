"""A small shop whose views can be made to throw, stepped by hand, and what is known of a failed view."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from running_case import Running

from headrace.serve import snapshot

TABLES = {
    "orders": {"columns": {"id": "int not null", "customer": "int", "amount": "int"}, "key": "id"},
    "customers": {"columns": {"id": "int not null", "rate": "int"}, "key": "id"},
    "clicks": {"columns": {"page": "string", "n": "bigint"}},
}
FIRST = {
    "orders": {"insert": [[1, 1, 5], [2, 1, 2], [3, 2, 4]]},
    "customers": {"insert": [[1, 10], [2, 20]]},
    "clicks": {"insert": [["a", 1], ["a", 1], ["b", 2]]},
}
SHARE = "SELECT id, 100 div amount AS share FROM orders"
COUNT = "SELECT customer, count(*) AS n FROM orders GROUP BY customer"
WAIT_S = 30


def rows(*values: tuple[Any, ...]) -> Counter[tuple[str, ...]]:
    return Counter(tuple("null" if v is None else str(v) for v in row) for row in values)


def begin(shop: Running, views: Mapping[str, str]) -> None:
    shop.define(views)
    stepped(shop, FIRST)


def stepped(shop: Running, *transactions: Any) -> None:
    for transaction in transactions:
        shop.push(transaction)
        shop.step()


def state(shop: Running) -> dict[str, str]:
    return {n: r.state for n, r in shop.pipeline.catalog.views().items()}


def named(shop: Running, view: str) -> list[dict[str, Any] | None]:
    """The rows of a view's error delta, as they are shown; None for what is not named."""
    found = snapshot.failure(shop.folder, view)
    return [] if found is None else [entry["row"] for entry in found["failing"]]


def reason(shop: Running, view: str) -> str:
    return shop.pipeline.catalog.views()[view].reason


def until_live(shop: Running) -> None:
    """What the engine's thread does when no source brings anything: it tidies, and steps when that made a commit."""
    end = time.monotonic() + WAIT_S
    while set(state(shop).values()) != {"live"}:
        assert time.monotonic() < end, state(shop)
        shop.pipeline.maintainer.tidy()
        while shop.pipeline.maintainer.step():
            pass
        time.sleep(0.05)
