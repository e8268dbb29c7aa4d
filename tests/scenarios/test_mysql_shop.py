"""Goal: a whole story with MariaDB, and with MySQL: planned, examined, copied, followed under a writer, killed, altered, read again.

Method: `headrace up` in a process of its own over a real server; each commit is waited for by its GTID, and the
published views are compared with what pymysql reads of the same query.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import warm_command
from binlog_server import Followed, binlog_server, followed, server_kind
from headrace.serve import snapshot
from project_folder import ProjectFolder

__all__ = ["binlog_server", "followed", "server_kind"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.binlog, pytest.mark.timeout(900)]

COMMAND = str(Path(sys.executable).with_name("headrace"))
TOTALS = (
    "SELECT c.region, count(*) AS n, sum(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "GROUP BY c.region"
)
VIEWS = {"totals": TOTALS, "large": "SELECT id, amount, note FROM orders WHERE amount > 50"}
SHARE = "SELECT id, 100 div amount AS share FROM orders"
COUNT = "SELECT customer, count(*) AS n FROM orders GROUP BY customer"
WAIT_S = 300


class Project:
    def __init__(self, folder: ProjectFolder, shop: Followed) -> None:
        self.path, self.shop = folder.path, shop
        self.up: subprocess.Popen[str] | None = None

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return warm_command.run(self.path, *arguments)

    def start(self) -> list[dict[str, Any]]:
        """The events up to the one that it is ready."""
        command = [COMMAND, "up", "--json"]
        self.up = subprocess.Popen(command, cwd=self.path, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self.up.stdout is not None
        events = []
        for line in self.up.stdout:
            events.append(json.loads(line))
            if events[-1]["event"] == "ready":
                return events
        raise AssertionError(events)

    def stop(self, by: int = signal.SIGINT) -> None:
        if self.up is not None:
            self.up.send_signal(by)
            self.up.communicate(timeout=60)
            self.up = None

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.command("status", "--json").stdout))

    def is_same(self, **views: str) -> None:
        """After the last commit's GTID is in every view, each view is what a client reads."""
        gtid = self.shop.last_gtid()
        waited = self.command("wait", "--token", f"shop:{gtid}", "--timeout", "240", "--json")
        assert waited.returncode == 0, waited.stderr + waited.stdout
        for name, sql in views.items():
            found: Counter[tuple[Any, ...]] = Counter()
            for row in snapshot.contents(self.path, name)[2].to_pylist():
                weight = row.pop("_w")
                found[tuple(row.values())] += weight
            assert found == Counter(self.shop.run(sql)), name


def test_a_shop_from_the_plan_to_a_kill(project: ProjectFolder, followed: Followed) -> None:
    followed.run(
        "CREATE TABLE customers (id int PRIMARY KEY, region varchar(10))",
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount decimal(10,2), note varchar(50), spare int)",
        f"INSERT INTO customers SELECT seq, elt(1 + seq % 3, 'nord', 'süd', 'ost') FROM {followed.numbers(30)}",
        f"INSERT INTO orders SELECT seq, 1 + seq % 30, seq / 3, concat('n', seq), 0 FROM {followed.numbers(300)}",
    )
    project.source("shop", "mysql", **followed.server.options(followed.database))
    for name, sql in VIEWS.items():
        project.view(name, sql)
    story = Project(project, followed)
    examined = story.command("doctor")
    assert examined.returncode == 0, examined.stdout
    assert "the binary log holds whole rows" in examined.stdout
    planned = story.command("plan")
    assert planned.returncode == 0 and "orders" in planned.stdout, planned.stdout + planned.stderr

    draw = random.Random(5)
    try:
        story.start()
        for turn in range(12):
            statements = [
                draw.choice(
                    (
                        f"REPLACE INTO orders VALUES ({draw.randrange(400)}, {draw.randrange(1, 31)}, {draw.randrange(9999)} / 100, 'é{turn}', 1)",
                        f"DELETE FROM orders WHERE id BETWEEN {(low := draw.randrange(300))} AND {low + 5}",
                        f"UPDATE orders SET amount = amount + 10 WHERE customer = {draw.randrange(1, 31)}",
                        f"UPDATE customers SET region = 'west' WHERE id = {draw.randrange(1, 31)}",
                    )
                )
                for _ in range(draw.randrange(1, 5))
            ]
            followed.run("BEGIN", *statements, "COMMIT")
            if turn % 3 == 0:
                story.is_same(**VIEWS)
            if turn == 5:
                story.stop(signal.SIGKILL)
                followed.run("UPDATE orders SET amount = amount + 1 WHERE id < 50")
                story.start()
        story.is_same(**VIEWS)
        followed.run("ALTER TABLE orders DROP COLUMN spare", "INSERT INTO orders VALUES (1000, 1, 99.99, 'after')")
        story.is_same(**VIEWS)
        followed.run("TRUNCATE TABLE orders", "INSERT INTO orders VALUES (1, 1, 70, 'only')")
        story.is_same(**VIEWS)
        verified = story.command("verify")
        assert verified.returncode == 0, verified.stdout
    finally:
        story.stop()


def test_a_view_that_fails_stops_its_source_at_the_server_until_it_is_put_right(
    project: ProjectFolder, followed: Followed
) -> None:
    """With `on_error: stop_source`: nothing more is read, also after a restart; then all that waited comes, once."""
    followed.run("CREATE TABLE orders (id int PRIMARY KEY, customer int, amount int)")
    followed.run("INSERT INTO orders VALUES (1, 1, 5), (2, 1, 2), (3, 2, 4)")
    project.source("shop", "mysql", **followed.server.options(followed.database))
    project.view("shares", f"-- on_error: stop_source\n{SHARE}")
    project.view("counts", COUNT)
    story = Project(project, followed)

    def held() -> list[int]:
        """The commits of the source that the log has, once it has stopped."""
        give_up = time.monotonic() + WAIT_S
        while True:
            told = story.status()
            (source,) = told["sources"]
            if source["state"] == "failed":
                assert source["error"]["code"] == "view.failed" and "amount: 0" in source["error"]["why"], source
                logged = [json.loads(line) for line in story.command("log", "cat", "--json").stdout.splitlines()]
                return [t["commit"] for t in logged if t["source"] == "shop"]
            assert time.monotonic() < give_up, told
            time.sleep(0.5)

    try:
        story.start()
        story.is_same(shares=SHARE, counts=COUNT)
        followed.run("INSERT INTO orders VALUES (7, 2, 0)")
        taken = held()
        followed.run("INSERT INTO orders VALUES (8, 2, 1)", "DELETE FROM orders WHERE id = 1")
        time.sleep(2)
        assert held() == taken
        story.stop()
        story.start()
        assert held() == taken
        project.view("shares", SHARE.replace("amount", "nullif(amount, 0)"))
        applied = story.command("apply")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        story.is_same(shares=SHARE.replace("amount", "nullif(amount, 0)"), counts=COUNT)
        assert story.status()["sources"][0]["state"] == "running"
    finally:
        story.stop()
