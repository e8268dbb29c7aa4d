"""Goal: a view as of any commit of the log, computed by its query, is what it held then.

Method: pipelines stepped by hand over random histories: changes by key, copies without one, truncation, ticks of the
clock, a view over a view, functions of users, rows set aside. What the views held after each commit is taken down from
what was published then, and asked for again at the end, when most of it is not kept any more. DuckDB judges as well:
over the rows that a dict of the test says were there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from failing_case import SHARE, TABLES, begin, stepped
from running_case import Case, Rows, Running, _shown, running

from headrace.engine import forget, recompute
from headrace.log.read import LogReader
from headrace.model.altered import ALTERED
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.serve import past
from headrace.sources.altered import Loss, change_table
from sampled import sampled

pytestmark = pytest.mark.spark

FUNCTIONS = """
from headrace import function

@function(returns="int")
def doubled(n: int | None) -> int | None:
    return None if n is None else 2 * n
"""
ABOVE = "SELECT count(*) AS n, sum(share) AS s FROM shares"
VIEWS = {
    "by_customer": "SELECT customer, count(*) AS n, sum(amount) AS t, max(amount) AS m FROM orders GROUP BY customer",
    "rich": "SELECT b.customer, b.t, c.rate FROM by_customer b LEFT JOIN customers c ON b.customer = c.id WHERE b.n > 1",
    "pages": "SELECT page, n FROM clicks",
    "due": "SELECT id, amount FROM orders WHERE timestamp_seconds(amount * 10) < now()",
}


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "headrace.yaml").write_text("")
    with running(Case("shop", TABLES, {}, (), {}, functions=FUNCTIONS), tmp_path / "shop") as at_work:
        yield at_work


def computed(shop: Running, view: str, commit: int) -> recompute.Recomputed:
    return recompute.running(shop.pipeline, view, commit, lambda event: None)


def rows_of(found: recompute.Recomputed) -> Rows:
    counted: Rows = Counter()
    for row in found.rows.to_pylist():
        weight = row.pop("_w")
        counted[_shown(row.values())] += weight
    return counted


def refusal(shop: Running, view: str, commit: int) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        computed(shop, view, commit)
    return caught.value


def published(shop: Running, view: str, commit: int) -> Rows | None:
    """By the deltas that are kept; None where these do not tell."""
    try:
        rows = past.contents(shop.folder, view, commit, None)[2]
    except past.NotPublished:
        return None
    return Counter({_shown([v for n, v in row.items() if n != "_w"]): row["_w"] for row in rows.to_pylist()})


class Orders:
    """The rows of ``orders`` by id, after each commit."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.rows = chance, dict[int, list[Any]]()

    def change(self, values: list[Any]) -> dict[str, Any]:
        chance, rows = self.chance, self.rows
        if rows and chance.random() < 0.05:
            rows.clear()
            return {"truncate": True}
        change: dict[str, Any] = {"upsert": [], "update": [], "delete": []}
        for key in chance.sample(range(12), 4):
            if key in rows and chance.random() < 0.3:
                change["delete"].append([key])
                del rows[key]
            elif key in rows and chance.random() < 0.5:
                rows[key] = [key, rows[key][1], chance.choice(values)]
                change["update"].append({"id": key, "amount": rows[key][2]})
            else:
                rows[key] = [key, chance.choice([1, 2, None]), chance.choice(values)]
                change["upsert"].append(rows[key])
        return {verb: some for verb, some in change.items() if some}


def change_of(orders: Orders, clicks: Counter[tuple[str, int]], values: list[Any]) -> dict[str, Any]:
    chance = orders.chance
    change: dict[str, Any] = {}
    if chance.random() < 0.8:
        change["orders"] = orders.change(values)
    if chance.random() < 0.5 or not change:
        new = [(chance.choice("ab"), chance.randrange(2)) for _ in range(chance.randrange(1, 4))]
        gone = [row for row in list(clicks.elements()) if chance.random() < 0.2]
        clicks.update(new)
        clicks.subtract(gone)
        change["clicks"] = {
            "insert": [list(r) for r in new],
            **({"delete": [list(r) for r in gone]} if gone else {}),
        }
    if chance.random() < 0.3:
        change["customers"] = {"upsert": [[chance.randrange(1, 3), chance.randrange(5)]]}
    return change


def by_duckdb(orders: dict[int, list[Any]], sql: str) -> Rows:
    with duckdb.connect() as store:
        store.execute("CREATE TABLE orders (id INT, customer INT, amount INT)")
        if orders:
            store.executemany("INSERT INTO orders VALUES (?, ?, ?)", list(orders.values()))
        return Counter(_shown(row) for row in store.execute(sql).fetchall())


@pytest.mark.parametrize("seed", sampled([1, 2], 2))
def test_every_commit_of_random_histories(shop: Running, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(forget, "RETAINED_STEPS", 6)
    doubled = {"doubled_orders": "SELECT id, doubled(amount) AS d FROM orders"}
    views = {**VIEWS, **doubled}
    shop.define(views)
    chance = random.Random(seed)
    orders, clicks = Orders(chance), Counter[tuple[str, int]]()
    held: dict[int, tuple[dict[str, Rows], dict[int, list[Any]]]] = {}
    now = 0
    for number in range(24):
        if chance.random() < 0.4:
            now += chance.randrange(1, 40)
            shop.now_us = now * 1_000_000
            shop.push({"clock": f"1970-01-01T00:{now // 60:02}:{now % 60:02}"})
        commit = shop.push(change_of(orders, clicks, [None, 0, 1, 3, 9]))
        shop.step()
        held[commit] = {view: shop.contents(view) for view in views}, {k: list(r) for k, r in orders.rows.items()}
        if number % 5 == 4:
            shop.pipeline.maintainer.checkpoint()
            shop.pipeline.maintainer.tidy()
    shop.pipeline.maintainer.checkpoint()
    old = [c for c in held if published(shop, "pages", c) is None]
    assert len(old) > 10 and len(held) - len(old) > 3
    for commit in (*chance.sample(old, 4), *chance.sample(sorted(held.keys() - set(old)), 2)):
        for view in views:
            assert rows_of(computed(shop, view, commit)) == held[commit][0][view], (view, commit)
            if commit not in old:
                assert published(shop, view, commit) == held[commit][0][view]
        assert by_duckdb(held[commit][1], VIEWS["by_customer"]) == held[commit][0]["by_customer"]


def test_inside_a_step_that_took_several_commits(shop: Running) -> None:
    begin(shop, {"pages": VIEWS["pages"], "by_customer": VIEWS["by_customer"]})
    orders, held = Orders(random.Random(3)), dict[int, dict[int, list[Any]]]()
    orders.rows = {1: [1, 1, 5], 2: [2, 1, 2], 3: [3, 2, 4]}
    for _ in range(5):
        commit = shop.push({"orders": orders.change([1, 2, 7])})
        held[commit] = {k: list(r) for k, r in orders.rows.items()}
    shop.step()
    for commit in list(held)[:-1]:
        assert published(shop, "by_customer", commit) is None
        assert rows_of(computed(shop, "by_customer", commit)) == by_duckdb(held[commit], VIEWS["by_customer"])


def test_a_log_without_its_beginning(shop: Running) -> None:
    begin(shop, {"by_customer": VIEWS["by_customer"], "due": VIEWS["due"]})
    orders = Orders(random.Random(4))
    orders.rows = {1: [1, 1, 5], 2: [2, 1, 2], 3: [3, 2, 4]}
    held: dict[int, tuple[Rows, Rows]] = {}
    for number in range(6):
        shop.push({"clock": f"1970-01-01T00:00:{number + 20}"})
        commit = shop.push({"orders": orders.change([1, 2, 7])})
        shop.step()
        held[commit] = shop.contents("by_customer"), shop.contents("due")
        if number == 3:
            shop.pipeline.maintainer.checkpoint()
            assert shop.pipeline.retention.by_hand(None, dry_run=False, closing=True)["first"] == commit + 1
            base = commit
    for commit, (by_customer, due) in held.items():
        if commit < base:
            assert refusal(shop, "by_customer", commit).code == "log.retained"
        else:
            assert rows_of(computed(shop, "by_customer", commit)) == by_customer
            assert rows_of(computed(shop, "due", commit)) == due


def test_before_it_was_made_it_is_the_query_of_today_over_the_data_of_then(shop: Running) -> None:
    begin(shop, {"pages": VIEWS["pages"], "all_orders": "SELECT * FROM orders"})
    first = LogReader(shop.folder / ".headrace/log").end
    stepped(shop, {"orders": {"insert": [[4, 2, 8]]}}, {"orders": {"delete": [[1]]}})
    shop.define(
        {"pages": VIEWS["pages"], "all_orders": "SELECT id, amount + 1 AS more FROM orders", "due": VIEWS["due"]}
    )
    stepped(shop, {"orders": {"insert": [[5, 2, 8]]}})
    assert published(shop, "all_orders", first) is None
    assert rows_of(computed(shop, "all_orders", first)) == Counter([("1", "6"), ("2", "3"), ("3", "5")])
    assert rows_of(computed(shop, "all_orders", first + 1)) == Counter([("1", "6"), ("2", "3"), ("3", "5"), ("4", "9")])
    error = refusal(shop, "due", first)
    assert (error.code, error.why) == (
        "view.not_at", "it depends on the time, and the log has no tick of the clock up to there",
    )  # fmt: skip


def altered(shop: Running, column: str) -> int:
    """A commit that says that ``orders`` has lost a column; with none, that it was copied anew."""
    told = change_table([Loss("orders", column, "ALTER TABLE orders")], [0])
    commit = shop.pipeline.log.append(
        TransactionBatch((TransactionOrigin("server", "altered", 0),), {ALTERED.name: told})
    )
    shop.step()
    return commit


def test_before_a_table_was_copied_anew_it_is_not_misread(shop: Running) -> None:
    """What the log holds from before is of other types, or by another key, than the table is described with now."""
    begin(shop, {name: VIEWS[name] for name in ("by_customer", "pages")})
    first = LogReader(shop.folder / ".headrace/log").end
    rows = rows_of(computed(shop, "by_customer", first))
    lost = altered(shop, "amount")
    assert rows_of(computed(shop, "by_customer", first)) == rows
    error = refusal(shop, "by_customer", lost)
    assert (error.code, "amount" in error.why) == ("view.not_at", True)
    copied = altered(shop, "")
    for commit in (first, lost):
        error = refusal(shop, "by_customer", commit)
        assert (error.code, error.next) == ("view.not_at", f"ask as of commit {copied:,} or later")
        assert rows_of(computed(shop, "pages", commit)) == rows_of(computed(shop, "pages", copied))
    assert rows_of(computed(shop, "by_customer", copied)) == rows


def test_the_clock_stands_where_it_stood(shop: Running) -> None:
    shop.define({"due": VIEWS["due"]})
    shop.push({"clock": "1970-01-01T00:00:25"})
    first = shop.push({"orders": {"insert": [[1, 1, 1], [2, 1, 2], [3, 1, 3]]}})
    shop.step()
    later = shop.push({"clock": "1970-01-01T00:00:35"})
    shop.step()
    for commit, seconds, ids in ((first, 25, "12"), (later - 1, 25, "12"), (later, 35, "123")):
        found = computed(shop, "due", commit)
        assert found.clock_us == seconds * 1_000_000
        assert {row[0] for row in rows_of(found)} == set(ids)
    assert computed(shop, "due", first).rows.num_rows == 2


def test_rows_set_aside_are_lacking_from_when_they_were(shop: Running) -> None:
    begin(shop, {"shares": "-- on_error: set_aside\n" + SHARE, "above": ABOVE, "all_orders": "SELECT * FROM orders"})
    held: dict[int, tuple[Rows, Rows]] = {}
    for change in (
        {"insert": [[4, 1, 10]]}, {"insert": [[5, 1, 0]]}, {"insert": [[6, 1, 50]]}, {"update": [[4, 1, 0]]},
        {"insert": [[7, 1, 20]]},
    ):  # fmt: skip
        commit = shop.push({"orders": change})
        shop.step()
        held[commit] = shop.contents("shares"), shop.contents("above")
    for commit, (shares, above) in held.items():
        assert rows_of(computed(shop, "shares", commit)) == shares, commit
        assert rows_of(computed(shop, "above", commit)) == above, commit
    assert len(next(reversed(held.values()))[0]) == 5


def test_a_query_that_throws_on_the_data_of_then_is_refused(shop: Running) -> None:
    begin(shop, {"all_orders": "SELECT * FROM orders"})
    bad = shop.push({"orders": {"insert": [[9, 1, 0]]}})
    shop.step()
    stepped(shop, {"orders": {"delete": [[9]]}})
    shop.define({"all_orders": "SELECT * FROM orders", "shares": SHARE})
    error = refusal(shop, "shares", bad)
    assert (error.code, "DIVIDE_BY_ZERO" in error.why) == ("view.not_at", True)
    assert rows_of(computed(shop, "shares", bad - 1)) == Counter([("1", "20"), ("2", "50"), ("3", "25")])
