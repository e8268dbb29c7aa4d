"""Goal: views that share, change, fail and heal do so without disturbing the others. Method: a pipeline by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_case import Case, Running, running

from headrace.engine.program import SHARED
from headrace.model.errors import HeadraceError

pytestmark = pytest.mark.spark

TABLES = {
    "customers": {"columns": {"id": "int not null", "region": "string"}, "key": "id"},
    "orders": {"columns": {"id": "int not null", "customer": "int", "x": "int"}, "key": "id"},
}
FIRST = (
    {"customers": {"insert": [[1, "north"], [2, "south"], [3, "south"]]}},
    {"orders": {"insert": [[10, 1, 5], [11, 1, 2], [12, 2, 4]]}},
)
PER_CUSTOMER = "(SELECT customer, count(*) AS n, sum(x) AS x FROM orders GROUP BY customer)"


def rows(*values: tuple[Any, ...]) -> Counter[tuple[str, ...]]:
    return Counter(tuple("null" if v is None else str(v) for v in row) for row in values)


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    """The tables, with no view yet."""
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as at_work:
        yield at_work


def stepped(shop: Running, *transactions: Any) -> None:
    for transaction in transactions:
        shop.push(transaction)
        shop.step()


def test_a_sub_query_of_two_views_is_built_once(shop: Running) -> None:
    views = {
        "by_region": f"SELECT c.region, sum(p.x) AS x, sum(p.n) AS n FROM customers c JOIN {PER_CUSTOMER} p"
        " ON p.customer = c.id GROUP BY c.region",
        "busy": f"SELECT p.customer, p.n, p.x FROM {PER_CUSTOMER} p WHERE p.n > 1 AND p.customer IS NOT NULL",
    }
    shop.define(views)
    circuits = shop.pipeline.maintainer.program.circuits
    shared = [c for c in circuits if c.name.startswith(SHARED)]
    assert len(shared) == 1
    assert [sorted(c.name for c in circuits if shared[0].name in c.inputs)] == [["busy@1", "by_region@1"]]
    stepped(shop, *FIRST)
    assert shop.contents("busy") == rows((1, 2, 7))
    assert shop.contents("by_region") == rows(("north", 7, 2), ("south", 4, 1))
    shop.verify()
    shop.reopen()
    shop.define({"busy": views["busy"]})  # nothing to share any more: what was kept serves the one that is left
    assert not [c for c in shop.pipeline.maintainer.program.circuits if c.name.startswith(SHARED)]
    stepped(shop, {"orders": {"delete": [[11]], "insert": [[13, 2, 1]]}})
    assert shop.contents("busy") == rows((2, 2, 5))
    shop.define(views)
    stepped(shop, {"orders": {"insert": [[14, 3, 9], [15, 2, 1]]}})
    assert shop.contents("by_region") == rows(("north", 5, 1), ("south", 15, 4))
    assert shop.contents("busy") == rows((2, 3, 6))
    shop.verify()


def test_a_table_arranged_by_the_same_column_for_two_views_is_kept_once(shop: Running) -> None:
    shop.define(
        {
            "names": "SELECT o.id, c.region FROM customers c JOIN orders o ON o.customer = c.id",
            "known": "SELECT o.id, o.customer FROM customers c JOIN orders o ON o.customer = c.id",
        }
    )
    frames = shop.pipeline.maintainer.stepper.frames  # type: ignore[union-attr]
    both = frames.used["names@1"] & frames.used["known@1"]
    assert both
    assert {frames.owners[name] for name in both} <= {"names@1", "known@1"}
    stepped(shop, *FIRST)
    kept = shop.pipeline.maintainer.kept.size
    assert [kept[name][:2] for name in both if name in kept] == [(1, 3)]  # three orders in one run, not in two
    assert shop.contents("known") == rows((10, 1), (11, 1), (12, 2))
    stepped(shop, {"orders": {"insert": [[13, 3, 0]], "delete": [[12]]}}, {"customers": {"delete": [[1]]}})
    assert shop.contents("known") == rows((13, 3))
    assert shop.contents("names") == rows((13, "south"))
    shop.verify()


def test_nothing_is_kept_between_joins_by_one_key_whether_their_beginning_is_shared_or_not(shop: Running) -> None:
    pairs = "orders o JOIN orders p ON p.customer = o.customer"
    chain = {"chain": f"SELECT o.id, p.id AS other, c.region FROM {pairs} JOIN customers c ON c.id = o.customer"}
    counted = {"counted": f"SELECT o.x, count(*) AS n FROM {pairs} GROUP BY o.x"}

    def kept() -> int:
        return sum(run.rows for runs in shop.pipeline.maintainer.kept.runs.values() for run in runs)

    shop.define(chain)
    stepped(shop, *FIRST)
    assert kept() == 3 + 3 + 3  # orders by their key and by customer, and customers; the five pairs are not
    assert shop.contents("chain")[("10", "11", "north")] == 1 and shop.contents("chain").total() == 5
    shop.define(chain | counted)
    stepped(shop, {"orders": {"insert": [[13, 2, 1]]}}, {"customers": {"update": [{"id": 2, "region": "east"}]}})
    assert shop.contents("chain").total() == 8 and shop.contents("chain")[("12", "13", "east")] == 1
    assert shop.contents("counted") == rows((5, 2), (2, 2), (4, 2), (1, 2))
    shop.verify()
    shop.reopen()
    shop.define(chain)
    stepped(shop, {"orders": {"delete": [[10]], "insert": [[14, 3, 9]]}}, {"customers": {"delete": [[2]]}})
    assert shop.contents("chain") == rows((11, 11, "north"), (14, 14, "south"))
    shop.verify()


def test_an_edited_view_takes_its_readers_along(shop: Running) -> None:
    views = {
        "paid": "SELECT id, customer, x FROM orders WHERE x > 3",
        "per_customer": "SELECT customer, sum(x) AS x FROM paid GROUP BY customer",
        "aside": "SELECT count(*) AS n FROM customers",
    }
    shop.define(views)
    stepped(shop, *FIRST)
    assert shop.contents("per_customer") == rows((1, 5), (2, 4))
    shop.define({**views, "paid": "SELECT id, customer, x FROM orders WHERE x < 5"})
    versions = {n: r.schema.version for n, r in shop.pipeline.catalog.views().items()}
    assert versions == {"paid": 2, "per_customer": 2, "aside": 1}
    assert shop.contents("per_customer") == rows((1, 2), (2, 4))
    stepped(shop, {"orders": {"insert": [[13, 3, 1], [14, 3, 100]], "delete": [[11]]}})
    assert shop.contents("per_customer") == rows((2, 4), (3, 1))
    shop.verify()
    shop.reopen()
    assert shop.contents("per_customer") == rows((2, 4), (3, 1))
    assert {n: r.schema.version for n, r in shop.pipeline.catalog.views().items()} == versions
    stepped(shop, {"orders": {"update": [{"id": 13, "x": 2}]}})
    assert shop.contents("per_customer") == rows((2, 4), (3, 2))
    shop.verify()


SHARES = {
    "shares": "SELECT id, 100 div x AS share FROM orders",
    "reader": "SELECT count(*) AS n, sum(share) AS s FROM shares",
    "other": "SELECT customer, count(*) AS n FROM orders GROUP BY customer",
}


def failed(shop: Running) -> dict[str, str]:
    return {n: r.reason for n, r in shop.pipeline.catalog.views().items() if r.state == "failed"}


def fail(shop: Running) -> None:
    shop.define(SHARES)
    stepped(shop, *FIRST)
    stepped(shop, {"orders": {"insert": [[13, 3, 0]]}})


def test_a_row_that_throws_fails_its_view_and_the_readers_alone(shop: Running) -> None:
    fail(shop)
    assert failed(shop).keys() == {"shares", "reader"}
    assert "DIVIDE_BY_ZERO" in failed(shop)["shares"]
    assert "shares" in failed(shop)["reader"]
    assert shop.contents("other") == rows((1, 2), (2, 1), (3, 1))
    assert shop.contents("reader") == rows((3, 95))  # as it was before
    stepped(shop, {"orders": {"insert": [[14, 3, 1]]}})
    assert shop.contents("other") == rows((1, 2), (2, 1), (3, 2))
    assert {e["view"] for e in shop.events if e.get("event") == "view.failed"} == {"shares", "reader"}


def test_a_failed_view_stays_failed_over_a_restart_and_holds_up_nobody(shop: Running) -> None:
    fail(shop)
    reasons = failed(shop)
    shop.reopen()
    assert failed(shop).keys() == reasons.keys()
    stepped(shop, {"orders": {"insert": [[14, 3, 1]]}})
    assert shop.contents("other") == rows((1, 2), (2, 1), (3, 2))


def test_a_view_that_fails_on_what_is_there_already_fails_alone(shop: Running) -> None:
    shop.define({"other": SHARES["other"]})
    stepped(shop, *FIRST, {"orders": {"insert": [[13, 3, 0]]}})
    shop.define(SHARES)
    assert failed(shop).keys() == {"shares", "reader"}
    assert "DIVIDE_BY_ZERO" in failed(shop)["shares"]
    assert shop.contents("shares") == rows()
    stepped(shop, {"orders": {"delete": [[13]]}})
    assert shop.contents("other") == rows((1, 2), (2, 1))
    shop.define(SHARES)
    assert failed(shop) == {}
    assert shop.contents("reader") == rows((3, 95))
    shop.verify()


def test_an_edit_that_fails_on_the_rows_there_are_is_refused(shop: Running) -> None:
    healthy = {**SHARES, "shares": "SELECT id, 100 div nullif(x, 0) AS share FROM orders"}
    shop.define(healthy)
    stepped(shop, *FIRST, {"orders": {"insert": [[13, 3, 0]]}})
    with pytest.raises(HeadraceError, match="DIVIDE_BY_ZERO") as caught:
        shop.define(SHARES)
    assert caught.value.code == "view.failed"
    assert shop.contents("reader") == rows((4, 95))
    stepped(shop, {"orders": {"insert": [[14, 3, 1]]}})
    assert shop.contents("reader") == rows((5, 195))
    assert shop.contents("other") == rows((1, 2), (2, 1), (3, 2))
    shop.define({**healthy, "shares": "SELECT id, 200 div nullif(x, 0) AS share FROM orders"})
    assert shop.contents("reader") == rows((5, 390))
    shop.verify()


def test_killed_right_after_new_definitions_are_in(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue has the new program: recovery must not run the steps before it through that program."""

    class Killed(Exception):
        pass

    def checkpoint() -> None:
        raise Killed

    shop.define({"other": SHARES["other"]})
    stepped(shop, *FIRST)
    with monkeypatch.context() as patch:
        patch.setattr(shop.pipeline.maintainer, "checkpoint", checkpoint)
        with pytest.raises(Killed):
            shop.define(SHARES)
    shop.reopen()
    assert shop.contents("reader") == rows((3, 95))
    stepped(shop, {"orders": {"insert": [[14, 3, 1]], "delete": [[10]]}})
    assert shop.contents("reader") == rows((3, 175))
    shop.verify()


def test_a_failed_view_heals_once_the_row_is_gone(shop: Running) -> None:
    fail(shop)
    stepped(shop, {"orders": {"delete": [[13]]}})
    shop.define(SHARES)
    assert failed(shop) == {}
    assert shop.contents("reader") == rows((3, 95))
    stepped(shop, {"orders": {"insert": [[14, 3, 1]]}})
    assert shop.contents("reader") == rows((4, 195))
    shop.verify()


def test_a_failed_view_heals_when_it_is_edited(shop: Running) -> None:
    fail(shop)
    shop.define({**SHARES, "shares": "SELECT id, 100 div nullif(x, 0) AS share FROM orders"})
    assert failed(shop) == {}
    assert shop.contents("shares") == rows((10, 20), (11, 50), (12, 25), (13, None))
    assert shop.contents("reader") == rows((4, 95))
    shop.verify()


def test_a_row_that_comes_and_goes_within_a_step_fails_nothing(shop: Running) -> None:
    shop.define(SHARES)
    stepped(shop, *FIRST)
    shop.push({"orders": {"insert": [[13, 3, 0]]}}, {"orders": {"delete": [[13]]}})
    shop.step()
    assert failed(shop) == {}
    assert shop.contents("reader") == rows((3, 95))
