"""Goal: what a table cannot take is kept with commit, operation, reason and row, is told, and touches no view; a table
that refuses to set anything aside stops the engine before anything of it is published.

Method: pipelines stepped by hand, killed and opened again; the installed command for what a user sees.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failing_case import rows, stepped
from running_case import SOURCE, Case, Running, running

from headrace.engine import maintain
from headrace.engine.pipeline import Pipeline
from headrace.model.definition import SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.serve import quarantine
from sampled import sampled

pytestmark = pytest.mark.spark

TABLES = {
    "orders": {
        "columns": {"id": "int not null", "region": "string", "amount": "decimal(6,2)"},
        "key": "id",
        "on_conflict": "quarantine",
    },
    "visits": {"columns": {"page": "string", "of": "struct<a:int>"}},
}
VIEWS = {"all_of_them": "SELECT * FROM orders", "pages": "SELECT page FROM visits"}
KEY_THERE, KEY_MISSING = "its key (id) is there already", "its key (id) is not there"


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as at_work:
        yield at_work


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = str(Path(sys.executable).with_name("headrace"))
    (folder / "headrace.yaml").write_text("name: shop\n")
    return subprocess.run([command, *arguments], cwd=folder, check=False, capture_output=True, text=True, timeout=60)


def begin(shop: Running) -> None:
    shop.define(VIEWS)
    stepped(shop, {"orders": {"insert": [[1, "north", "5.00"], [2, "south", "2.50"]]}})


def conflicts(shop: Running) -> int:
    """Three commits with a conflict each and one of every kind in a row of their own; the last one's number."""
    return shop.push(
        {"orders": {"insert": [[1, "west", "9.00"], [3, "east", "1.00"]]}},
        {"orders": {"update": [{"id": 7, "amount": "7.00"}], "delete": [[2]]}},
        {"orders": {"delete": [[2], [3]]}, "visits": {"delete": [["nowhere", {"a": 1}]]}},
    )


def expected(last: int) -> list[dict[str, Any]]:
    of = {"table": "orders"}
    return [
        {**of, "id": f"orders:{last - 2}:1", "commit": last - 2, "operation": "insert", "reason": KEY_THERE,
         "row": {"id": 1, "region": "west", "amount": "9.00"}},
        {**of, "id": f"orders:{last - 1}:2", "commit": last - 1, "operation": "update", "reason": KEY_MISSING,
         "row": {"id": 7, "amount": "7.00"}},
        {**of, "id": f"orders:{last}:1", "commit": last, "operation": "delete", "reason": KEY_MISSING,
         "row": {"id": 2, "region": None, "amount": None}},
        {"id": f"visits:{last}:1", "table": "visits", "commit": last, "operation": "delete", "reason": "there is no such row",
         "row": {"page": "nowhere", "of": {"a": 1}}},
    ]  # fmt: skip


def test_it_is_kept_and_told_and_no_view_sees_it(shop: Running) -> None:
    begin(shop)
    last = conflicts(shop)
    shop.step()
    assert shop.contents("all_of_them") == rows((1, "north", "5.00"))
    assert quarantine.entries(shop.folder, None, None) == (expected(last), 4)
    assert quarantine.entries(shop.folder, "orders", 1) == (expected(last)[:1], 3)
    told = [(e["table"], e["rows"], e["commit"]) for e in shop.events if e["event"] == "table.quarantined"]
    assert told == [("orders", 3, last), ("visits", 1, last)]
    (source,) = shop.pipeline.status()["sources"]
    assert source["quarantined"] == {"orders": 3, "visits": 1}
    shop.reopen()
    stepped(shop, {"orders": {"insert": [[1, "late", "0.00"]]}})
    shop.verify()
    assert quarantine.entries(shop.folder, None, None)[1] == 5

    listed = headrace(shop.folder, "quarantine", "list", "orders", "--limit", "1")
    assert listed.stdout.splitlines() == [
        f'orders:{last - 2}:1  insert {{id: 1, region: "west", amount: "9.00"}}: {KEY_THERE}',
        "",
        "1 of 4 changes (--limit shows more)",
    ]
    answer = json.loads(headrace(shop.folder, "quarantine", "list", "--json").stdout)
    assert answer["total"] == 5 and answer["changes"][0] == expected(last)[0]
    wrong = headrace(shop.folder, "quarantine", "list", "ordres")
    assert wrong.returncode == 1 and "orders" in wrong.stderr


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_the_step_it_is_kept_once(shop: Running, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    begin(shop)
    last = conflicts(shop)
    publish = maintain.Maintainer.publish

    def dies(self: Any, *arguments: Any) -> None:
        if when == "after":
            publish(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(maintain.Maintainer, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            shop.pipeline.maintainer.step()
    assert quarantine.entries(shop.folder, None, None)[1] == (4 if when == "after" else 0)
    shop.reopen()
    assert quarantine.entries(shop.folder, None, None) == (expected(last), 4)
    assert shop.contents("all_of_them") == rows((1, "north", "5.00"))
    shop.verify()


def test_a_view_over_what_the_log_holds_already_has_it_once(shop: Running) -> None:
    shop.define({"pages": VIEWS["pages"]})
    stepped(shop, {"orders": {"insert": [[1, "north", "5.00"], [2, "south", "2.50"]]}})
    last = conflicts(shop)
    shop.step()
    assert quarantine.entries(shop.folder, None, None) == (expected(last)[3:], 1)
    shop.define(VIEWS)
    assert quarantine.entries(shop.folder, None, None) == (expected(last), 4)
    shop.define({"pages": VIEWS["pages"]})
    shop.define(VIEWS)
    assert quarantine.entries(shop.folder, None, None)[1] == 4
    shop.verify()


def test_what_is_dropped_stays_away_when_its_table_is_made_again(shop: Running) -> None:
    begin(shop)
    last = conflicts(shop)
    shop.step()
    left = expected(last)
    dropped = [left.pop(2)["id"], left.pop(0)["id"]]
    assert shop.pipeline.quarantine.drop(*dropped) == 2
    assert quarantine.entries(shop.folder, None, None) == (left, 2)
    (source,) = shop.pipeline.status()["sources"]
    assert source["quarantined"] == {"orders": 1, "visits": 1}
    shop.define({"pages": VIEWS["pages"]})
    shop.define(VIEWS)
    assert quarantine.entries(shop.folder, None, None) == (left, 2)
    shop.reopen()
    assert shop.pipeline.quarantine.drop(table="orders") == 1
    assert shop.pipeline.quarantine.entries() == left[1:]
    assert len(list((shop.folder / ".headrace/quarantine").iterdir())) == 1
    shop.verify()


class Table:
    """`orders` as a dict, with what it could not take: the model of what follows."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, str]] = {}
        self.aside: list[tuple[str, int, tuple[str, str] | None]] = []

    def take(self, verb: str, key: int, row: tuple[str, str] | None) -> None:
        if verb != "replace" and (key in self.rows) == (verb == "insert"):
            self.aside.append((verb, key, row))
        elif row is None:
            del self.rows[key]
        else:
            self.rows[key] = row

    def contents(self) -> Any:
        return rows(*((key, *row) for key, row in self.rows.items()))


@pytest.mark.parametrize("seed", sampled([1, 2], 2))
def test_what_is_sent_again_is_taken_as_a_dict_takes_it_or_set_aside_again(shop: Running, seed: int) -> None:
    chance, table = random.Random(seed), Table()
    shop.define({"all_of_them": VIEWS["all_of_them"]})

    def change() -> tuple[str, int, tuple[str, str] | None]:
        verb = chance.choice(["insert", "insert", "update", "delete"])
        row = (chance.choice("nsew"), f"{chance.randint(0, 9999) / 100:.2f}")
        return verb, chance.randint(1, 6), None if verb == "delete" else row

    def listed() -> list[tuple[str, int, tuple[str, str] | None]]:
        return [
            (e["operation"], e["row"]["id"],
             None if e["operation"] == "delete" else (e["row"]["region"], e["row"]["amount"]))
            for e in shop.pipeline.quarantine.entries()
        ]  # fmt: skip

    for turn in range(8):
        for verb, key, row in [change() for _ in range(4)]:
            shop.push({"orders": {verb: [[key, *(row or ())]]}} if verb != "update" else update(key, row))
            table.take(verb, key, row)
        shop.step()
        kept = shop.pipeline.quarantine.entries()
        some = sorted(chance.sample(range(len(kept)), chance.randint(0, len(kept))))
        if some:
            as_ = chance.choice([None, "replace", "delete"])
            if as_ == "replace":
                some = [n for n in some if table.aside[n][0] != "delete"]
        if some:
            again = [table.aside[n] for n in some]
            table.aside = [c for n, c in enumerate(table.aside) if n not in some]
            answer = shop.pipeline.quarantine.replay(*(kept[n]["id"] for n in some), as_=as_, wait_s=0)
            for verb, key, row in again:
                table.take(as_ or verb, key, None if as_ == "delete" else row)
            assert answer["changes"] == len(some)
            shop.step()
        assert shop.contents("all_of_them") == table.contents()
        assert listed() == table.aside
        if turn % 3 == 1:
            shop.reopen()
    shop.verify()


def update(key: int, row: tuple[str, str] | None) -> dict[str, Any]:
    assert row is not None
    return {"orders": {"update": [{"id": key, "region": row[0], "amount": row[1]}]}}


def test_what_is_sent_again_never_stops_a_table_that_refuses(shop: Running) -> None:
    begin(shop)
    last = conflicts(shop)
    shop.step()
    with_policy(shop, "refuse")
    commit = shop.pipeline.quarantine.replay(table="orders", wait_s=0)["commit"]
    shop.step()
    again = [e for e in shop.pipeline.quarantine.entries() if e["table"] == "orders"]
    assert [(e["id"], e["row"]) for e in again] == [
        (f"orders:{commit}:{n}", e["row"]) for n, e in enumerate(expected(last)[:3], start=1)
    ]
    shop.push({"orders": {"insert": [[1, "west", "9.00"]]}})
    with pytest.raises(HeadraceError, match=r"source\.conflict"):
        shop.pipeline.maintainer.step()


def test_a_table_that_refuses_stops_before_it(shop: Running) -> None:
    with_policy(shop, "refuse")
    begin(shop)
    stepped(shop, {"orders": {"insert": [[3, "east", "1.00"]]}})
    last = conflicts(shop)
    for _ in range(2):  # asked again, it is the same
        with pytest.raises(HeadraceError) as raised:
            shop.pipeline.maintainer.step()
    assert raised.value.code == "source.conflict"
    assert raised.value.what == f"insert of orders: {KEY_THERE}"
    assert raised.value.where == f'commit {last - 2}, row {{id: 1, region: "west", amount: "9.00"}}'
    before = rows((1, "north", "5.00"), (2, "south", "2.50"), (3, "east", "1.00"))
    assert shop.contents("all_of_them") == before
    assert quarantine.entries(shop.folder, None, None) == ([], 0)
    shop.kill()
    shop.pipeline = Pipeline(shop.project)
    with pytest.raises(HeadraceError, match=r"source\.conflict"):
        shop.pipeline.prepare()
    with_policy(shop, "quarantine")
    assert shop.contents("all_of_them") == rows((1, "north", "5.00"))
    assert [e["reason"] for e in quarantine.entries(shop.folder, "orders", None)[0]] == [
        KEY_THERE, KEY_THERE, KEY_MISSING, KEY_MISSING,
    ]  # fmt: skip
    shop.verify()


def with_policy(shop: Running, policy: str) -> None:
    """The project's source with another `on_conflict`, after a restart."""
    tables = {**TABLES, "orders": {**TABLES["orders"], "on_conflict": policy}}
    source = SourceDefinition(SOURCE, "http", {"listen": False, "tables": tables})
    shop.project = replace(shop.project, sources=(source,))
    shop.kill()
    shop.pipeline = shop.opened()
    shop.pipeline.definitions.carry_out(shop.project)
