"""Goal: a view that throws names its rows, holds up nobody, and comes back by itself once they are put right.

Method: pipelines stepped by hand; what is back is compared with Spark batch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from failing_case import COUNT, SHARE, TABLES, WAIT_S, begin, named, reason, rows, state, stepped, until_live
from running_case import Case, Running, all_wide, running

from headrace.control import running as running_module
from headrace.control import sql
from headrace.engine import culprits, failures, maintain
from headrace.engine.connectors import make_sink
from headrace.engine.deliver import Deliver
from headrace.model.definition import SinkDefinition
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as at_work:
        yield at_work


def asked(at_work: Running, text: str, **more: Any) -> dict[str, Any]:
    """What `headrace sql` and HTTP are answered by Spark."""
    verbs = running_module.Running(at_work.pipeline, at_work.folder)
    return sql.run(verbs, {"sql": text, **more}, lambda event: None)


# ---- one bad row


def test_the_row_is_named_and_its_deletion_heals(shop: Running) -> None:
    begin(shop, {"shares": SHARE, "counts": COUNT})
    stepped(shop, {"orders": {"insert": [[7, 2, 0], [8, 2, 1]], "delete": [[1]]}})
    assert state(shop) == {"shares": "failed", "counts": "live"}
    assert shop.contents("shares") == rows((1, 20), (2, 50), (3, 25))  # as it was
    assert shop.contents("counts") == rows((1, 1), (2, 3))
    text = reason(shop, "shares")
    assert text.startswith("view shares fails on table orders, row {id: 7, customer: 2, amount: 0}: [DIVIDE_BY_ZERO]")
    assert text.endswith("; delete or correct the row; the view comes back by itself")
    assert "spark.sql.ansi" not in text
    (event,) = [e for e in shop.events if e["event"] == "view.failed"]
    assert event["reason"] == text
    entry = {"table": "orders", "row": {"id": 7, "customer": 2, "amount": 0}, "weight": 1, "together": 0}
    assert [{k: e[k] for k in entry} for e in event["failing"]] == [entry]
    (shown,) = [v for v in shop.pipeline.status()["views"] if v["name"] == "shares"]
    assert (shown["commit"], shown["failing"]) == (1 + 1, event["failing"])
    assert [v["commit"] for v in snapshot.views(shop.folder)] == [3, 2]
    both, one = asked(shop, "SELECT count(*) FROM shares, counts"), asked(shop, "SELECT count(*) FROM counts", bytes=99)
    assert (both["commit"], both["rows"], both["stale"]) == (3, [[6]], {"shares": text})
    assert (one["commit"], one["rows"], one["stale"]) == (3, [[2]], {})
    with pytest.raises(HeadraceError, match=r"query\.size"):
        asked(shop, "SELECT repeat('x', 99)", bytes=99)
    stepped(shop, {"orders": {"insert": [[9, 1, 10]]}})
    assert state(shop)["shares"] == "failed"
    stepped(shop, {"orders": {"delete": [[7]]}})
    assert state(shop) == {"shares": "live", "counts": "live"}
    assert named(shop, "shares") == []
    assert shop.contents("shares") == rows((2, 50), (3, 25), (8, 100), (9, 10))
    shop.verify()
    stepped(shop, {"orders": {"insert": [[10, 1, 20]], "delete": [[2]]}})
    assert shop.contents("shares") == rows((3, 25), (8, 100), (9, 10), (10, 5))
    shop.verify()
    shop.reopen()
    assert shop.contents("shares") == rows((3, 25), (8, 100), (9, 10), (10, 5))
    shop.verify()


def test_the_commands_show_the_row(shop: Running) -> None:
    (shop.folder / "headrace.yaml").write_text("")
    begin(shop, {"shares": SHARE, "counts": COUNT})
    stepped(shop, {"orders": {"insert": [[7, 2, 0]]}})
    text = reason(shop, "shares")

    def command(*arguments: str) -> str:
        program = Path(sys.executable).with_name("headrace")
        return subprocess.run([program, *arguments], check=True, capture_output=True, text=True, cwd=shop.folder).stdout

    shown = command("show", "shares").splitlines()
    assert shown[0] == text
    assert shown[2] == "shares at commit 2: 3 rows"
    answer = json.loads(command("show", "shares", "--json"))
    assert (answer["state"], answer["reason"], answer["commit"]) == ("failed", text, 2)
    assert [(e["table"], e["row"]) for e in answer["failing"]] == [("orders", {"id": 7, "customer": 2, "amount": 0})]
    assert "DIVIDE_BY_ZERO" in answer["failing"][0]["message"]
    assert json.loads(command("show", "counts", "--json")).keys() & {"state", "reason", "failing"} == set()
    for arguments in (["views"], ["status"]):
        assert text in command(*arguments)
        views = {v["name"]: v for v in json.loads(command(*arguments, "--json"))["views"]}
        assert views["shares"]["failing"] == answer["failing"]
        assert (views["shares"]["commit"], views["counts"]["commit"]) == (2, 3)
        assert views["counts"]["failing"] == []


def test_an_update_heals(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    all_wide(monkeypatch)
    begin(shop, {"shares": SHARE, "total": "SELECT count(*) AS n, sum(share) AS s FROM shares"})
    stepped(shop, {"orders": {"update": [{"id": 2, "amount": 0}]}})
    assert named(shop, "shares") == [{"id": 2, "customer": 1, "amount": 0}]
    stepped(shop, {"orders": {"update": [{"id": 2, "amount": 100}]}})
    assert set(state(shop).values()) == {"live"}
    assert shop.contents("total") == rows((3, 46))
    shop.verify()


def test_another_input_heals(shop: Running) -> None:
    begin(shop, {"rated": "SELECT o.id, 100 div c.rate AS r FROM orders o JOIN customers c ON o.customer = c.id"})
    stepped(shop, {"customers": {"insert": [[3, 0]]}})
    assert state(shop) == {"rated": "live"}
    stepped(shop, {"orders": {"insert": [[7, 3, 1]]}})
    assert named(shop, "rated") == [{"id": 7, "customer": 3, "amount": 1}]
    tries = len(shop.pipeline.catalog.steps())
    until = time.monotonic() + failures.PAUSE_S + 1
    while time.monotonic() < until:  # nothing changes: nothing is tried
        shop.pipeline.maintainer.tidy()
        assert not shop.pipeline.maintainer.step() or state(shop)["rated"] == "live"
        time.sleep(0.1)
    assert len(shop.pipeline.catalog.steps()) == tries
    stepped(shop, {"customers": {"update": [{"id": 3, "rate": 50}]}})
    until_live(shop)
    assert shop.contents("rated") == rows((1, 10), (2, 10), (3, 5), (7, 2))
    shop.verify()


def test_a_bad_row_of_the_other_input_is_named(shop: Running) -> None:
    begin(shop, {"rated": "SELECT o.id, 100 div c.rate AS r FROM orders o JOIN customers c ON o.customer = c.id"})
    stepped(shop, {"customers": {"update": [{"id": 2, "rate": 0}]}})
    assert named(shop, "rated") == [{"id": 2, "rate": 0}]
    stepped(shop, {"customers": {"update": [{"id": 2, "rate": 4}]}})
    assert shop.contents("rated") == rows((1, 10), (2, 10), (3, 25))
    shop.verify()


# ---- several


def test_two_bad_rows_must_both_go(shop: Running) -> None:
    begin(shop, {"shares": SHARE})
    stepped(shop, {"orders": {"insert": [[7, 1, 0], [8, 1, 3], [9, 2, 0]]}})
    assert [r and r["id"] for r in named(shop, "shares")] == [9, 7] or [
        r and r["id"] for r in named(shop, "shares")
    ] == [7, 9]
    stepped(shop, {"orders": {"delete": [[9]]}})
    assert named(shop, "shares") == [{"id": 7, "customer": 1, "amount": 0}]
    assert "id: 7" in reason(shop, "shares")
    assert "id: 9" not in reason(shop, "shares")
    stepped(shop, {"orders": {"delete": [[7]]}})
    assert state(shop) == {"shares": "live"}
    shop.verify()


def test_every_copy_of_a_bad_row_must_go(shop: Running) -> None:
    begin(shop, {"inverse": "SELECT page, 10 div n AS x FROM clicks"})
    stepped(shop, {"clicks": {"insert": [["b", 0], ["b", 0]]}})
    failing = snapshot.failure(shop.folder, "inverse")
    assert failing is not None
    assert [(e["row"], e["weight"]) for e in failing["failing"]] == [({"page": "b", "n": 0}, 2)]
    stepped(shop, {"clicks": {"delete": [["b", 0]]}})
    assert state(shop) == {"inverse": "failed"}
    stepped(shop, {"clicks": {"delete": [["b", 0]], "insert": [["c", 5]]}})
    assert shop.contents("inverse") == rows(("a", 10), ("a", 10), ("b", 5), ("c", 2))
    shop.verify()


def test_rows_that_throw_only_together_are_named_together(shop: Running) -> None:
    begin(shop, {"clicked": "SELECT page, sum(n) AS n FROM clicks GROUP BY page"})
    big = 5 * 10**18
    stepped(shop, {"clicks": {"insert": [["b", 7], ["c", big], ["c", big - 1], ["c", 1], ["d", big]]}})
    failing = snapshot.failure(shop.folder, "clicked")
    assert failing is not None
    assert {e["together"] for e in failing["failing"]} == {0}
    assert {e["row"]["n"] for e in failing["failing"]} == {big, big - 1}
    assert "one of the rows" in reason(shop, "clicked")
    stepped(shop, {"clicks": {"delete": [["c", big]]}})
    assert shop.contents("clicked") == rows(("a", 2), ("b", 9), ("c", big), ("d", big))
    shop.verify()


def test_a_deletion_that_makes_the_rest_throw(shop: Running) -> None:
    begin(shop, {"odd": "SELECT customer, 6 div (count(*) - 1) AS x FROM orders WHERE customer = 1 GROUP BY customer"})
    stepped(shop, {"orders": {"delete": [[2]]}})
    assert named(shop, "odd") == [{"id": 1, "customer": 1, "amount": 5}]
    stepped(shop, {"orders": {"insert": [[7, 1, 1], [8, 1, 1]]}})  # the named row stays: others put it right
    until_live(shop)
    assert shop.contents("odd") == rows((1, 3))
    shop.verify()


def test_what_no_row_explains_is_told_and_heals_too(shop: Running) -> None:
    begin(shop, {"average": "SELECT 12 div count(*) AS x FROM orders"})
    assert shop.contents("average") == rows((4,))
    stepped(shop, {"orders": {"truncate": True}})
    assert named(shop, "average") == [None]
    assert "DIVIDE_BY_ZERO" in reason(shop, "average")
    stepped(shop, {"orders": {"insert": [[7, 1, 1], [8, 1, 1]]}})
    until_live(shop)
    assert shop.contents("average") == rows((6,))
    shop.verify()


def test_more_bad_rows_than_are_named(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(culprits, "ROWS_MAX", 3)
    begin(shop, {"shares": SHARE})
    stepped(shop, {"orders": {"insert": [[n, 1, 0 if n % 2 else n] for n in range(10, 20)]}})
    found = named(shop, "shares")
    assert len(found) == 4
    assert found[-1] is None
    assert all(r["amount"] == 0 for r in found[:-1] if r)
    assert " and more" in reason(shop, "shares")
    ids = [r["id"] for r in found if r]
    stepped(shop, {"orders": {"delete": [[n] for n in ids]}})
    assert state(shop) == {"shares": "failed"}
    others = {r["id"] for r in named(shop, "shares") if r}
    assert others == {11, 13, 15, 17, 19} - set(ids)
    stepped(shop, {"orders": {"delete": [[n] for n in others]}})
    until_live(shop)
    shop.verify()


# ---- readers, restarts, definitions


READ = {
    "shares": SHARE,
    "total": "SELECT count(*) AS n, sum(share) AS s FROM shares",
    "above": "SELECT n + 1 AS n FROM total",
    "counts": COUNT,
}


def test_readers_wait_for_what_they_read_and_come_back_with_it(shop: Running) -> None:
    begin(shop, READ)
    stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
    assert state(shop) == {"shares": "failed", "total": "failed", "above": "failed", "counts": "live"}
    assert reason(shop, "above").startswith("it reads total: it reads shares: view shares fails on table orders, row")
    assert [e["view"] for e in shop.events if e["event"] == "view.failed"] == ["shares", "total", "above"]
    with pytest.raises(HeadraceError) as caught:
        shop.pipeline.drop("shares")
    assert caught.value.code == "view.has_readers"
    stepped(shop, {"orders": {"insert": [[8, 1, 1]], "delete": [[7]]}})
    assert set(state(shop).values()) == {"live"}
    assert shop.contents("above") == rows((5,))
    shop.verify()


def test_a_reader_that_throws_names_the_row_of_the_view_it_reads(shop: Running) -> None:
    begin(shop, {"sums": "SELECT customer, sum(amount) AS a FROM orders GROUP BY customer",
                 "inverse": "SELECT customer, 70 div a AS x FROM sums"})  # fmt: skip
    stepped(shop, {"orders": {"insert": [[7, 1, -7], [8, 2, 3]]}})
    assert state(shop) == {"sums": "live", "inverse": "failed"}
    assert reason(shop, "inverse").startswith("view inverse fails on view sums, row {customer: 1, a: 0}: [DIVIDE")
    stepped(shop, {"orders": {"update": [{"id": 7, "amount": 3}]}})
    assert shop.contents("inverse") == rows((1, 7), (2, 10))
    shop.verify()


def test_a_shared_sub_query_that_throws(shop: Running) -> None:
    part = "(SELECT customer, sum(100 div amount) AS s FROM orders GROUP BY customer)"
    begin(
        shop,
        {"few": f"SELECT customer FROM {part} WHERE s < 40", "many": f"SELECT customer, s FROM {part} WHERE s > 9"},
    )
    stepped(shop, {"orders": {"insert": [[6, 2, 2], [7, 2, 0]]}})
    assert set(state(shop).values()) == {"failed"}
    for view in ("few", "many"):
        assert named(shop, view) == [{"id": 7, "customer": 2, "amount": 0}]
    stepped(shop, {"orders": {"update": [{"id": 7, "amount": 100}]}})
    assert shop.contents("many") == rows((1, 70), (2, 76))
    shop.verify()
    stepped(shop, {"orders": {"delete": [[6]]}})
    assert shop.contents("few") == rows((2,))
    shop.verify()


def test_a_recursive_query_that_throws(shop: Running) -> None:
    sql = (
        "WITH RECURSIVE r(id, a) AS (SELECT id, amount FROM orders WHERE id = 1 UNION ALL"
        " SELECT o.id, cast(100 div o.amount AS int) FROM orders o JOIN r ON o.id = r.id + 1) SELECT id, a FROM r"
    )
    begin(shop, {"reached": sql})
    stepped(shop, {"orders": {"insert": [[4, 1, 0]]}})
    assert named(shop, "reached") == [{"id": 4, "customer": 1, "amount": 0}]
    stepped(shop, {"orders": {"update": [{"id": 4, "amount": 7}]}})
    assert shop.contents("reached") == rows((1, 5), (2, 50), (3, 25), (4, 14))
    shop.verify()


def test_killed_while_a_view_is_failed(shop: Running) -> None:
    begin(shop, READ)
    stepped(shop, {"orders": {"insert": [[7, 1, 0], [8, 2, 0]]}})
    shop.reopen()
    assert {r["id"] for r in named(shop, "shares") if r} == {7, 8}
    stepped(shop, {"orders": {"delete": [[7]]}})
    shop.reopen()
    assert named(shop, "shares") == [{"id": 8, "customer": 2, "amount": 0}]
    assert shop.contents("counts") == rows((1, 2), (2, 2))
    stepped(shop, {"orders": {"insert": [[9, 2, 50]], "delete": [[8]]}})
    assert set(state(shop).values()) == {"live"}
    shop.reopen()
    stepped(shop, {"orders": {"insert": [[10, 2, 25]]}})
    assert shop.contents("total") == rows((5, 101))
    shop.verify()


class Killed(Exception):
    pass


def killed(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.mark.parametrize(("part", "before"), [(maintain.Maintainer, "publish"), (failures.Failures, "search")])
def test_killed_in_the_step_in_which_a_view_fails(
    shop: Running, monkeypatch: pytest.MonkeyPatch, part: type, before: str
) -> None:
    begin(shop, {"shares": SHARE, "counts": COUNT})
    shop.push({"orders": {"insert": [[7, 1, 0]]}})
    with monkeypatch.context() as patch:
        patch.setattr(part, before, killed)
        with pytest.raises(Killed):
            shop.step()
    shop.reopen()
    assert state(shop) == {"shares": "failed", "counts": "live"}
    assert shop.contents("counts") == rows((1, 3), (2, 1))
    stepped(shop, {"orders": {"insert": [[8, 1, 1]]}})  # it is not known yet what throws: the view is tried
    assert named(shop, "shares") == [{"id": 7, "customer": 1, "amount": 0}]
    stepped(shop, {"orders": {"delete": [[7]]}})
    until_live(shop)
    shop.verify()


def test_killed_in_the_step_that_heals(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(shop, READ)
    stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
    shop.push({"orders": {"delete": [[7]]}})
    with monkeypatch.context() as patch:
        patch.setattr(shop.pipeline.maintainer.catalog, "publish", killed)
        with pytest.raises(Killed):
            shop.step()
    shop.reopen()
    assert set(state(shop).values()) == {"live"}
    assert shop.contents("total") == rows((3, 95))
    shop.verify()


def test_a_new_view_over_existing_rows_names_them(shop: Running) -> None:
    begin(shop, {"counts": COUNT})
    stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
    shop.define(READ)
    assert state(shop) == {"counts": "live", "shares": "failed", "total": "failed", "above": "failed"}
    assert named(shop, "shares") == [{"id": 7, "customer": 1, "amount": 0}]
    assert [e["view"] for e in shop.events if e["event"] == "view.failed"] == ["shares", "total", "above"]
    shop.reopen()
    stepped(shop, {"orders": {"delete": [[7]]}})
    assert set(state(shop).values()) == {"live"}
    assert shop.contents("above") == rows((4,))
    shop.verify()


def test_an_edit_that_is_refused_names_the_row(shop: Running) -> None:
    begin(shop, {"shares": "SELECT id, amount AS share FROM orders"})
    stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
    with pytest.raises(HeadraceError, match=r"table orders, row \{id: 7, customer: 1, amount: 0\}"):
        shop.define({"shares": SHARE})
    assert state(shop) == {"shares": "live"}


def test_definitions_change_while_a_view_is_failed(shop: Running) -> None:
    begin(shop, {"shares": SHARE})
    stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
    shop.define(
        {
            "shares": SHARE,
            "rates": "SELECT id, rate + 1 AS r FROM customers",
            "tops": "SELECT max(share) AS m FROM shares GROUP BY id > 0",
        }
    )
    assert state(shop) == {"shares": "failed", "rates": "live", "tops": "failed"}
    assert named(shop, "shares") == [{"id": 7, "customer": 1, "amount": 0}]
    stepped(shop, {"orders": {"delete": [[7]]}})
    assert set(state(shop).values()) == {"live"}
    assert shop.contents("tops") == rows((50,))
    shop.verify()
    stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
    shop.define({"shares": SHARE.replace("amount", "nullif(amount, 0)"), "rates": "SELECT id FROM customers"})
    assert state(shop) == {"rates": "live", "shares": "live"}
    shop.verify()


def test_asking_for_it_tries_a_failed_view_at_once(shop: Running) -> None:
    begin(shop, {"rated": "SELECT o.id, 100 div c.rate AS r FROM orders o JOIN customers c ON o.customer = c.id"})
    stepped(shop, {"customers": {"insert": [[3, 0]]}, "orders": {"insert": [[7, 3, 1]]}})
    shop.push({"customers": {"update": [{"id": 3, "rate": 1}]}})
    shop.define({"rated": shop.project.views[0].sql})
    assert state(shop) == {"rated": "live"}
    shop.verify()


def test_a_view_that_comes_back_shares_what_others_keep(shop: Running) -> None:
    joined = "FROM orders o JOIN customers c ON o.customer = c.id"
    begin(
        shop,
        {"plain": f"SELECT o.id, c.rate {joined}", "inverse": f"SELECT o.id, 10 div o.amount AS x, c.rate {joined}"},
    )
    stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
    assert state(shop) == {"plain": "live", "inverse": "failed"}
    stepped(
        shop,
        {"orders": {"delete": [[7]]}},
        {"customers": {"update": [{"id": 1, "rate": 3}]}, "orders": {"delete": [[3]]}},
    )
    assert shop.contents("plain") == rows((1, 3), (2, 3))
    assert shop.contents("inverse") == rows((1, 2, 3), (2, 5, 3))
    shop.verify()


# ---- sinks


def test_a_sink_sees_the_view_stale_and_then_in_one_step_as_it_is(shop: Running) -> None:
    path = shop.folder / "out.duckdb"
    begin(shop, {"shares": SHARE, "counts": COUNT})
    made = make_sink(SinkDefinition("out", "duckdb", options={"path": str(path)}), shop.project)
    log = shop.pipeline.maintainer.reader
    sink = Deliver(made, None, shop.pipeline.catalog, log, shop.events.append)
    sink.start()

    def delivered() -> tuple[list[tuple[Any, ...]], dict[str, str]]:
        end = time.monotonic() + WAIT_S
        sink.wake()
        while sink.frontier != shop.pipeline.maintainer.frontier:
            assert time.monotonic() < end, sink.error
            time.sleep(0.05)
        with duckdb.connect(str(path), read_only=True) as store:
            states = store.execute("SELECT view, state FROM headrace_views").fetchall()
            return store.execute("SELECT id, share FROM shares ORDER BY id").fetchall(), dict(states)

    try:
        assert delivered() == ([(1, 20), (2, 50), (3, 25)], {"shares": "live", "counts": "live"})
        stepped(shop, {"orders": {"insert": [[7, 1, 0], [8, 1, 4]], "delete": [[1]]}})
        assert delivered() == ([(1, 20), (2, 50), (3, 25)], {"shares": "stale", "counts": "live"})
        stepped(shop, {"orders": {"delete": [[7]]}})
        assert delivered() == ([(2, 50), (3, 25), (8, 25)], {"shares": "live", "counts": "live"})
        stepped(shop, {"orders": {"insert": [[7, 1, 0]]}})
        assert delivered()[1]["shares"] == "stale"
        stepped(shop, {"orders": {"delete": [[7]]}})  # back as it was: its sink hears of it all the same
        assert delivered() == ([(2, 50), (3, 25), (8, 25)], {"shares": "live", "counts": "live"})
    finally:
        sink.close()
