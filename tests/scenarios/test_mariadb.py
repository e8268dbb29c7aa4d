"""Goal: a whole story with MariaDB: planned, examined, copied, followed under a writer, killed, altered, read again.

Method: `headrace up` in a process of its own over a real server; each commit is waited for by its GTID, and the
published views are compared with what pymysql reads of the same query.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.serve import snapshot
from mariadb_server import Followed, followed, mariadb_server
from project_folder import ProjectFolder

__all__ = ["followed", "mariadb_server"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.mariadb, pytest.mark.timeout(400)]

COMMAND = str(Path(sys.executable).with_name("headrace"))
TOTALS = (
    "SELECT c.region, count(*) AS n, sum(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "GROUP BY c.region"
)
LARGE = "SELECT id, amount, note FROM orders WHERE amount > 50"


class Project:
    def __init__(self, folder: ProjectFolder, shop: Followed) -> None:
        self.path, self.shop = folder.path, shop
        self.up: subprocess.Popen[str] | None = None

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *arguments], cwd=self.path, check=False, capture_output=True, text=True, timeout=120
        )

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

    def is_same(self) -> None:
        """After the last commit's GTID is in every view, each view is what a client reads."""
        gtid = self.shop.run("SELECT @@last_gtid")[0][0]
        waited = self.command("wait", "--token", f"shop:{gtid}", "--timeout", "60", "--json")
        assert waited.returncode == 0, waited.stderr + waited.stdout
        for name, sql in (("totals", TOTALS), ("large", LARGE)):
            found: Counter[tuple[Any, ...]] = Counter()
            for row in snapshot.contents(self.path, name)[2].to_pylist():
                weight = row.pop("_w")
                found[tuple(row.values())] += weight
            assert found == Counter(self.shop.run(sql)), name


def test_a_shop_on_mariadb_from_the_plan_to_a_kill(project: ProjectFolder, followed: Followed) -> None:
    followed.run(
        "CREATE TABLE customers (id int PRIMARY KEY, region varchar(10))",
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount decimal(10,2), note varchar(50), spare int)",
        "INSERT INTO customers SELECT seq, elt(1 + seq % 3, 'nord', 'süd', 'ost') FROM seq_1_to_30",
        "INSERT INTO orders SELECT seq, 1 + seq % 30, seq / 3, concat('n', seq), 0 FROM seq_1_to_300",
    )
    project.source("shop", "mysql", **followed.server.options(followed.database))
    project.view("totals", TOTALS)
    project.view("large", LARGE)
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
                story.is_same()
            if turn == 5:
                story.stop(signal.SIGKILL)
                followed.run("UPDATE orders SET amount = amount + 1 WHERE id < 50")
                story.start()
        story.is_same()
        followed.run("ALTER TABLE orders DROP COLUMN spare", "INSERT INTO orders VALUES (1000, 1, 99.99, 'after')")
        story.is_same()
        followed.run("TRUNCATE TABLE orders", "INSERT INTO orders VALUES (1, 1, 70, 'only')")
        story.is_same()
        verified = story.command("verify")
        assert verified.returncode == 0, verified.stdout
    finally:
        story.stop()
