"""Goal: a project whose log has lost its beginning is the same project: views made later, batch, starts, backups, sinks.

Method: the installed command. Transactions are pushed over HTTP and kept in a plain dict; the log is compacted beside the
running project and shortened again in the background by its settings; a view that reads what nobody read before, a sink
that comes later and one that was left behind must hold what the dict says, and Spark batch over the log the same.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import warm_command
from headrace.log.read import LogReader
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))
TABLES = {
    "orders": {"columns": {"id": "int not null", "region": "string", "amount": "int"}, "key": "id"},
    "notes": {"columns": {"word": "string"}},
}
TOTALS = "SELECT region, count(*) AS n, sum(amount) AS t FROM orders GROUP BY region"
WORDS = "SELECT word, count(*) AS n FROM notes GROUP BY word"
LATE = "SELECT n.word, max(o.amount) AS most, count(*) AS n FROM orders o JOIN notes n ON o.region = n.word GROUP BY 1"


def headrace(folder: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    done = warm_command.run(folder, *arguments, "--json")
    assert done.returncode == status, done.stdout + done.stderr
    return dict(json.loads((done.stdout or done.stderr).splitlines()[-1]))


@contextmanager
def up(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of the project's HTTP source while `headrace up` runs, and what it tells."""
    with subprocess.Popen([COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told: list[dict[str, Any]] = []
        try:
            ready = next(event for event in map(json.loads, process.stdout) if event["event"] == "ready")
            threading.Thread(target=lambda: told.extend(map(json.loads, process.stdout or ())), daemon=True).start()
            yield ready["sources"][0]["endpoint"], told
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Shop:
    """What was pushed: ``orders`` by id, ``notes`` with copies."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.random = folder, random.Random(8)
        self.orders: dict[int, dict[str, Any]] = {}
        self.notes: list[str] = []
        self.last = 0

    def push(self, endpoint: str, transactions: int) -> None:
        rng = self.random
        for _ in range(transactions):
            rows = {
                n: {"id": n, "region": rng.choice("abc"), "amount": rng.randrange(99)} for n in rng.sample(range(40), 3)
            }
            gone = rng.choice([[], [n for n in self.orders if n not in rows][:1]])
            words = [rng.choice("abcd")] if rng.random() < 0.7 else []
            left = [rng.choice(self.notes)] if self.notes and rng.random() < 0.4 else []
            changes = {
                "orders": {"upsert": list(rows.values()), "delete": [{"id": n} for n in gone]},
                "notes": {"insert": [{"word": w} for w in words], "delete": [{"word": w} for w in left]},
            }
            self._send(endpoint, changes)
            self.orders.update(rows)
            for n in gone:
                del self.orders[n]
            self.notes += words
            for word in left:
                self.notes.remove(word)
        headrace(self.folder, "wait", "--token", str(self.last))

    def _send(self, endpoint: str, changes: dict[str, Any]) -> None:
        token = (self.folder / ".headrace/tokens/shop").read_text().strip()
        body = json.dumps({"tables": {t: {op: r for op, r in of.items() if r} for t, of in changes.items()}}).encode()
        request = urllib.request.Request(f"{endpoint}/transactions", body, {"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            self.last = int(json.loads(answer.read())["commit"])

    def expected(self) -> dict[str, list[tuple[Any, ...]]]:
        orders = list(self.orders.values())
        amounts = {r: [o["amount"] for o in orders if o["region"] == r] for r in sorted({o["region"] for o in orders})}
        words = {w: self.notes.count(w) for w in sorted(set(self.notes))}
        return {
            "totals": [(r, len(found), sum(found)) for r, found in amounts.items()],
            "words": list(words.items()),
            "late": [(r, max(f), len(f) * words[r]) for r, f in amounts.items() if r in words],
        }

    def check(self, *views: str) -> None:
        """By `headrace show`, and by Spark batch over the log as it is now."""
        for view in views:
            shown = headrace(self.folder, "show", view)
            assert sorted(map(tuple, shown["rows"])) == self.expected()[view], view
        assert headrace(self.folder, "verify")["differences"] == 0

    def stored(self, file: str, view: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(self.folder / file, read_only=True) as store:
            return store.execute(f"SELECT * FROM {view} ORDER BY 1").fetchall()


@pytest.mark.spark
def test_a_log_without_its_beginning(project: ProjectFolder, tmp_path: Path) -> None:
    project.source("shop", "http", port=0, tables=TABLES)
    project.view("totals", TOTALS)
    project.view("words", WORDS)
    project.sink("local", "duckdb", path="views.duckdb")
    shop, log = Shop(project.path), project.path / ".headrace/log"
    with up(project.path) as (endpoint, _):
        shop.push(endpoint, 40)
        answer = headrace(project.path, "log", "compact")
        base = LogReader(log).base
        assert answer["removed"] and base.commit == answer["first"] - 1 >= shop.last
        assert base.rows["orders"] == len(shop.orders) and base.rows["notes"] == len(shop.notes)
        shop.push(endpoint, 15)
        assert headrace(project.path, "status")["first"] == answer["first"]
        project.view("late", LATE)
        project.sink("second", "duckdb", path="second.duckdb")
        headrace(project.path, "apply")
        headrace(project.path, "wait", "--token", str(shop.last))
        shop.check("totals", "words", "late")
        assert shop.stored("second.duckdb", "late") == shop.expected()["late"]
        assert headrace(project.path, "show", "orders", "--at", "2", status=1)["error"]["code"] == "log.retained"
        shop.push(endpoint, 5)
        headrace(project.path, "log", "compact")
        backup = tmp_path / "backup"
        headrace(project.path, "backup", str(backup))
    again = tmp_path / "again"
    headrace(tmp_path, "restore", str(backup), str(again))
    shutil.rmtree(project.path / ".headrace/state")  # views are built again from the base and what lies behind it
    for file in (project.path / ".headrace").glob("catalog*"):
        file.unlink()
    for folder in (again, project.path):
        shop.folder = folder
        with up(folder):
            headrace(folder, "wait", "--token", str(shop.last))
            shop.check("totals", "words", "late")


@pytest.mark.spark
def test_a_sink_that_is_not_waited_for_is_left_behind_and_comes_anew(project: ProjectFolder) -> None:
    project.source("shop", "http", port=0, tables=TABLES)
    project.view("totals", TOTALS)
    project.sink("local", "duckdb", path="views.duckdb")
    shop = Shop(project.path)
    with up(project.path) as (endpoint, told):
        shop.push(endpoint, 10)
        reached = shop.last
        held = duckdb.connect(project.path / "views.duckdb")  # nobody else may write to it
        for _ in range(10):
            shop._send(endpoint, {"orders": {"upsert": [{"id": 1, "region": "a", "amount": shop.random.randrange(9)}]}})
        shop._send(endpoint, {"orders": {"upsert": [{"id": 1, "region": "a", "amount": 5}]}})
        shop.orders[1] = {"id": 1, "region": "a", "amount": 5}
        first = headrace(project.path, "log", "compact")
        assert first["held"]["by"] == "sink local" and first["first"] <= reached + 1
        project.settings(retention={"wait_for": []})
        headrace(project.path, "apply")
        second = headrace(project.path, "log", "compact")
        assert second["first"] > shop.last and second["held"] is None
        held.close()
        headrace(project.path, "wait", "--token", str(shop.last))
        assert shop.stored("views.duckdb", "totals") == shop.expected()["totals"]
        assert headrace(project.path, "verify", "--sink", "local")["differences"] == 0
        (event,) = [event for event in told if event["event"] == "sink.left_behind"]
        assert (event["sink"], event["first"]) == ("local", second["first"])
