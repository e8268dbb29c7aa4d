"""Goal: a view that says so goes on without the rows that its SQL throws on, exactly as if they were not in its input.

Method: pipelines stepped by hand. A dict that a test keeps beside them says what the views hold, and Spark batch over the
log without the rows set aside says it again.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from failing_case import COUNT, SHARE, TABLES, begin, rows, state, stepped
from running_case import Case, Running, all_wide, running
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.model.errors import HeadraceError
from sampled import sampled

pytestmark = pytest.mark.spark

ASIDE = "-- on_error: set_aside\n"
ABOVE = "SELECT count(*) AS n, sum(share) AS s FROM shares"


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "headrace.yaml").write_text("")
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as at_work:
        yield at_work


def listed(shop: Running) -> list[dict[str, Any]]:
    return shop.pipeline.quarantine.entries()


@pytest.mark.parametrize("wide", sampled([False, True], 2))
def test_random_histories_killed_and_resumed(shop: Running, monkeypatch: pytest.MonkeyPatch, wide: bool) -> None:
    """Throwing rows are inserted, updated and deleted, in one to three transactions a step."""
    if wide:
        all_wide(monkeypatch)
    begin(shop, {"shares": ASIDE + SHARE, "above": ABOVE, "orders_now": "SELECT * FROM orders"})
    chance = random.Random(7 + wide)
    amounts = {1: 5, 2: 2, 3: 4}
    for _ in range(7):
        for _ in range(chance.randint(1, 3)):
            change: dict[str, list[Any]] = {"insert": [], "update": [], "delete": []}
            touched = chance.sample(range(1, 9), 4)
            for key in touched:
                amount = chance.choice([0, 0, 1, 3, 7, 50])
                if key not in amounts:
                    change["insert"].append([key, 1, amount])
                elif chance.random() < 0.4:
                    change["delete"].append([key])
                    del amounts[key]
                    continue
                else:
                    change["update"].append({"id": key, "amount": amount})
                amounts[key] = amount
            shop.push({"orders": {verb: some for verb, some in change.items() if some}})
        shop.step()
        if chance.random() < 0.5:
            shop.reopen()
        good = {key: 100 // amount for key, amount in amounts.items() if amount}
        assert shop.contents("shares") == rows(*good.items())
        assert shop.contents("above") == rows((len(good), sum(good.values()) if good else None))
        assert Counter(e["row"]["id"] for e in listed(shop)) == Counter(k for k, a in amounts.items() if not a)
        assert set(state(shop).values()) == {"live"}
        shop.verify()


def test_a_row_is_shown_dropped_and_tried_again(shop: Running) -> None:
    rated = "SELECT o.id, 100 div c.rate AS r FROM orders o JOIN customers c ON o.customer = c.id"
    begin(shop, {"rated": ASIDE + rated, "all_orders": "SELECT * FROM orders"})
    stepped(shop, {"customers": {"insert": [[3, 0]]}}, {"orders": {"insert": [[7, 3, 1], [8, 1, 1]]}})
    (entry,) = listed(shop)
    assert {**entry, "reason": ""} == {
        "id": "rated:4:1", "view": "rated", "table": "orders", "commit": 4, "weight": 1, "reason": "",
        "row": {"id": 7, "customer": 3, "amount": 1},
    }  # fmt: skip
    assert "DIVIDE_BY_ZERO" in entry["reason"]
    assert shop.contents("rated") == rows((1, 10), (2, 10), (3, 5), (8, 10))

    def command(*arguments: str) -> str:
        done = CliRunner().invoke(app(), ["quarantine", *arguments, "--project", str(shop.folder)])
        assert done.exit_code == 0, done.output
        return done.output

    assert json.loads(command("list", "rated", "--json"))["changes"] == [entry]
    assert command("list").startswith("rated:4:1  orders {id: 7, customer: 3, amount: 1}: [DIVIDE_BY_ZERO]")
    shown = command("show", "rated:4:1")
    assert "goes on without: 1 of orders" in " ".join(shown.split()) and "customer = 3" in shown
    (told,) = [e for e in shop.events if e["event"] == "view.quarantined"]
    assert (told["view"], told["id"]) == ("rated", "rated:4:1")
    (status,) = [v for v in shop.pipeline.status()["views"] if v["name"] == "rated"]
    assert status["quarantined"] == {"rated": 1}
    with pytest.raises(HeadraceError, match="its table has taken it"):
        shop.pipeline.quarantine.fix("rated:4:1", {"amount": 2})
    assert shop.pipeline.quarantine.replay("rated:4:1")["again"] != []  # it still throws
    shop.verify()
    stepped(shop, {"customers": {"update": [{"id": 3, "rate": 50}]}})  # another input puts it right
    (again,) = listed(shop)
    answer = shop.pipeline.quarantine.replay(again["id"])
    assert (answer["changes"], answer["again"]) == (1, [])
    assert shop.contents("rated") == rows((1, 10), (2, 10), (3, 5), (7, 2), (8, 10))
    shop.verify()
    stepped(shop, {"customers": {"insert": [[4, 0]]}}, {"orders": {"insert": [[9, 4, 1]]}})
    assert shop.pipeline.quarantine.drop(listed(shop)[0]["id"]) == 1
    stepped(shop, {"orders": {"insert": [[10, 1, 1]]}})
    shop.reopen()
    assert listed(shop) == []
    assert (9, 0) not in shop.contents("rated") and len(shop.contents("rated")) == 6
    shop.verify()


def test_a_step_that_was_recorded_and_never_published_lacks_the_same(
    shop: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(shop, {"shares": ASIDE + SHARE, "above": ABOVE})
    stepped(
        shop, {"orders": {"insert": [[7, 2, 0]]}}, {"orders": {"delete": [[7]]}}, {"orders": {"insert": [[6, 1, 0]]}}
    )
    shop.push({"orders": {"delete": [[6]], "insert": [[7, 1, 1], [8, 1, 0]]}})

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shop.pipeline.maintainer, "publish", killed)
        shop.step()
    shop.reopen()
    assert shop.contents("shares") == rows((1, 20), (2, 50), (3, 25), (7, 100))
    assert [e["row"]["id"] for e in listed(shop)] == [8]
    shop.verify()


def test_an_edit_that_fails_leaves_what_is_set_aside(shop: Running) -> None:
    begin(shop, {"shares": ASIDE + SHARE, "counts": COUNT})
    stepped(shop, {"orders": {"insert": [[7, 2, 0]]}})
    with pytest.raises(HeadraceError, match="new version of view counts fails"):
        shop.define({"shares": ASIDE + SHARE.replace("100", "200"), "counts": SHARE})
    stepped(shop, {"orders": {"update": [{"id": 7, "customer": 1}], "insert": [[8, 1, 4]]}})
    assert shop.contents("shares") == rows((1, 20), (2, 50), (3, 25), (8, 25))
    assert [e["row"] for e in listed(shop)] == [{"id": 7, "customer": 1, "amount": 0}]
    shop.verify()


def test_a_new_version_over_rows_that_throw_and_back(shop: Running) -> None:
    begin(shop, {"shares": SHARE})
    stepped(shop, {"orders": {"insert": [[7, 2, 0], [8, 2, 0]]}})
    assert state(shop) == {"shares": "failed"}
    shop.define({"shares": ASIDE + SHARE})
    assert state(shop) == {"shares": "live"}
    assert shop.contents("shares") == rows((1, 20), (2, 50), (3, 25))
    assert sorted(e["row"]["id"] for e in listed(shop)) == [7, 8]
    shop.verify()
    shop.reopen()
    stepped(shop, {"orders": {"delete": [[7]], "insert": [[9, 1, 0]]}})
    assert sorted(e["row"]["id"] for e in listed(shop)) == [8, 9]
    shop.verify()
    stepped(shop, {"orders": {"delete": [[8], [9]]}})
    assert listed(shop) == []
    shop.define({"shares": SHARE})
    assert shop.contents("shares") == rows((1, 20), (2, 50), (3, 25))


def test_a_policy_that_is_none_is_refused(shop: Running) -> None:
    answer = shop.pipeline.apply(shop.project)
    with pytest.raises(AssertionError, match="on_error: 'sett_aside' is not known"):
        shop.define({"shares": "-- on_error: sett_aside\n" + SHARE})
    assert answer["views"] == []
