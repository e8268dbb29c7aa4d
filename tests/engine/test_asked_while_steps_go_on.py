"""Goal: what Spark answers is of the one commit that the answer names, whatever is published or defined meanwhile.

Method: a query is held between the moment at which it learns its commit and its first read, and the project goes on.
Oracle: what the transactions say was there at that commit, added up by hand.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from failing_case import COUNT, FIRST, TABLES, begin, stepped
from running_case import Case, Running, running

from headrace.engine import query as query_module
from headrace.engine.query import Found
from headrace.model.errors import HeadraceError

pytestmark = pytest.mark.spark
ASKED = """
SELECT (SELECT sum(n) FROM counts) AS counted, (SELECT sum(amount) FROM orders) AS amount, (SELECT sum(n) FROM clicks) AS n
"""


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("asked") / "shop"
    folder.mkdir()
    (folder / "headrace.yaml").write_text("")
    with running(Case("shop", TABLES, {}, (), {}), folder) as at_work:
        begin(at_work, {"counts": COUNT, "pages": "SELECT page FROM clicks"})
        yield at_work


def ask(shop: Running, text: str = ASKED, limit: int | None = None) -> Found:
    return shop.pipeline.query(text, None, lambda: True, limit)


def told(found: Found) -> tuple[int, list[tuple[Any, ...]]]:
    return found.commit, [tuple(row.values()) for row in found.rows.to_pylist()]


def test_of_very_many_rows_no_more_are_made_than_are_wanted(shop: Running) -> None:
    tables = ", ".join(f"orders o{i}" for i in range(24))
    found = ask(shop, f"SELECT 1 AS one FROM {tables}", limit=3)
    assert (found.rows.to_pylist(), found.more) == ([{"one": 1}] * 3, True)
    limits = (0, 2, 3, 3_000_000_000, None)
    answers = [ask(shop, "SELECT id FROM orders ORDER BY id DESC", limit) for limit in limits]
    ids = [[row["id"] for row in answer.rows.to_pylist()] for answer in answers]
    assert ids == [[], [3, 2], [3, 2, 1], [3, 2, 1], [3, 2, 1]]
    assert [answer.more for answer in answers] == [True, True, False, False, False]


def test_of_rows_that_tie_the_same_come_first_whatever_the_limit(shop: Running) -> None:
    tied = "SELECT -id AS id, customer FROM orders ORDER BY customer"
    for limit in (1, 2, 3):
        assert [row["id"] for row in ask(shop, tied, limit).rows.to_pylist()] == [-2, -1, -3][:limit]
    without_order = ask(shop, "SELECT map(id, amount) AS m, customer FROM orders ORDER BY customer", 2)
    assert (without_order.rows.num_rows, without_order.more) == (2, True)


def test_what_only_analysis_shows_is_refused(shop: Running) -> None:
    for text in ("SELECT user FROM orders", "SELECT (SELECT max(session_user) FROM orders)"):
        with pytest.raises(HeadraceError, match="not admitted") as caught:
            ask(shop, text)
        assert caught.value.code == "sql.not_deterministic"


def test_the_commit_that_is_named_is_the_one_that_the_rows_are_of(shop: Running) -> None:
    """Steps over all three are published before the first is read, what was merged is tidied, and the view is dropped."""
    assert FIRST["orders"]["insert"] == [[1, 1, 5], [2, 1, 2], [3, 2, 4]]
    begun, found = shop.pipeline.maintainer.frontier, list[Found]()
    held = Held(shop)
    asking = threading.Thread(target=lambda: found.append(ask(shop)))
    shop.pipeline.asking = held
    asking.start()
    held.pinned.wait(60)
    shop.pipeline.asking = held.asking
    for key in range(4, 12):
        stepped(shop, {"orders": {"insert": [[key, 1, 100]]}, "clicks": {"insert": [["c", 100]]}})
    stepped(shop, {"orders": {"delete": [[1]]}})
    now = told(ask(shop))
    shop.define({"pages": "SELECT page FROM clicks"})
    stepped(shop, {"orders": {"delete": [[2]]}})
    held.go_on.set()
    asking.join(60)
    assert [told(each) for each in found] == [(begun, [(3, 11, 4)])]
    assert now == (begun + 9, [(10, 806, 804)])
    assert not shop.pipeline.maintainer.pins


class Held:
    """Has a query wait before it reads what is pinned for it; others may be asked meanwhile."""

    def __init__(self, shop: Running) -> None:
        self.asking, self.pinned, self.go_on = shop.pipeline.asking, threading.Event(), threading.Event()

    def begin(self) -> None:
        self.asking.begin()

    @contextmanager
    def turn(self, deadline: Any) -> Iterator[None]:
        yield

    def do(self, work: Any, *given: Any, **bounds: Any) -> Any:
        if work is query_module.answered:
            self.pinned.set()
            self.go_on.wait(60)
        return self.asking.do(work, *given, **bounds)


def test_what_is_dropped_before_it_is_read_is_told_as_such(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.define({"counts": COUNT, "pages": "SELECT page FROM clicks"})
    admit = query_module.admit

    def meanwhile(*given: Any) -> Any:
        admitted = admit(*given)
        shop.define({"pages": "SELECT page FROM clicks"})
        return admitted

    monkeypatch.setattr(query_module, "admit", meanwhile)
    with pytest.raises(HeadraceError, match="'counts' was dropped") as caught:
        ask(shop)
    assert caught.value.code == "sql.unknown_relation" and not shop.pipeline.maintainer.pins
