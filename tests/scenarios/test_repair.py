"""Goal: beside a running product, what somebody has changed in its sinks is found and put right, and deliveries go on.

Method: changes are pushed over HTTP into a PostgreSQL and a DuckDB sink; ordinary clients delete, change and add rows and
drop a table while more changes come; the installed commands verify and repair. The views' own rows, verified by Spark
batch at the end, are the judge of what the clients then read.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import yaml

import warm_command
from headrace.testing.postgres import PostgresServer

COMMAND = str(Path(sys.executable).with_name("headrace"))


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, *arguments)


def answer(folder: Path, *arguments: str) -> dict[str, Any]:
    done = headrace(folder, *arguments, "--json")
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


NUMBERS = {"totals": "total", "amounts": "amount"}


class Shop:
    """Pushes orders; ``store`` is each sink's ordinary client."""

    def __init__(self, folder: Path, endpoint: str, dsn: str) -> None:
        self.folder, self.endpoint, self.dsn = folder, endpoint, dsn
        self.token = (folder / ".headrace/tokens/shop").read_text().strip()
        self.rng, self.next = random.Random(3), 0

    def push(self, *rows: dict[str, Any]) -> None:
        changes = [{"table": "orders", "op": "insert", "row": row} for row in rows or [self.order() for _ in range(5)]]
        request = urllib.request.Request(
            f"{self.endpoint}/transactions",
            json.dumps({"changes": changes}).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            assert response.status == 200

    def order(self) -> dict[str, Any]:
        self.next += 1
        return {"id": self.next, "customer_id": self.rng.randrange(9), "amount": f"{self.rng.randrange(999)}.50"}

    def store(self, sink: str, statement: str) -> list[Any]:
        if sink == "warehouse":
            with psycopg.connect(self.dsn) as connection:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []
        end = time.monotonic() + 20
        while True:
            try:
                with duckdb.connect(str(self.folder / "views.duckdb")) as client:
                    return client.execute(statement).fetchall()
            except duckdb.IOException:  # the product has the file open for a moment
                assert time.monotonic() < end
                time.sleep(0.02)

    def rows(self, sink: str, view: str) -> Counter[Any] | None:
        """What the sink holds of the view; None before the first delivery has created its table."""
        try:
            return Counter(self.store(sink, f"SELECT customer_id, CAST({NUMBERS[view]} AS varchar) FROM {view}"))
        except (psycopg.errors.UndefinedTable, duckdb.CatalogException):
            return None

    def shown(self, view: str) -> Counter[Any]:
        found = answer(self.folder, "show", view, "--limit", "100000")
        names = [column["name"] for column in found["columns"]]
        return Counter((row[names.index("customer_id")], row[names.index(NUMBERS[view])]) for row in found["rows"])


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.5)


@pytest.mark.spark
@pytest.mark.postgres
def test_what_was_changed_in_the_sinks_is_put_right_while_changes_come(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    assert headrace(tmp_path, "init", "shop").returncode == 0
    for path in [*folder.glob("views/*.sql"), *folder.glob("tests/*.yaml")]:
        path.unlink()
    (folder / "views/totals.sql").write_text(
        "SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id"
    )
    (folder / "views/amounts.sql").write_text("SELECT customer_id, amount FROM orders")
    source = folder / "sources/shop.yaml"
    source.write_text(source.read_text().replace("port: 7071", "port: 0"))
    with PostgresServer() as server:
        (folder / "sinks/warehouse.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": server.dsn}))
        command = [COMMAND, "up", "--json"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as up:
            try:
                assert up.stdout is not None
                ready = next(e for e in map(json.loads, up.stdout) if e["event"] == "ready")
                told: list[dict[str, Any]] = []
                reader = threading.Thread(target=lambda: told.extend(map(json.loads, up.stdout or [])))
                reader.start()
                damaged_and_repaired(Shop(folder, ready["sources"][0]["endpoint"], server.dsn))
            finally:
                up.send_signal(signal.SIGTERM)
            reader.join()
        assert [event["rows"] for event in told if event["event"] == "sink.repaired"] == [3, 3]
        # While a client has the DuckDB file open, a delivery waits for it; nothing else may have gone wrong.
        failed = [event["error"]["code"] for event in told if event["event"] == "sink.failed"]
        assert set(failed) <= {"sink.connect"}
        for sink in ("warehouse", "local"):  # and with nothing running
            assert headrace(folder, "verify", "--sink", sink).returncode == 0


def damaged_and_repaired(shop: Shop) -> None:
    shop.push(*({**shop.order(), "customer_id": 77, "amount": "0.25"} for _ in range(3)))
    for sink in ("warehouse", "local"):
        until(lambda sink=sink: shop.rows(sink, "amounts") == Counter({(77, "0.25"): 3}))  # type: ignore[misc]
    stop = threading.Event()

    def more() -> None:
        while not stop.wait(0.05):
            shop.push()

    pushing = threading.Thread(target=more)
    pushing.start()
    try:
        for sink in ("warehouse", "local"):
            assert headrace(shop.folder, "verify", "--sink", sink).returncode == 0
            shop.store(sink, "DELETE FROM amounts WHERE customer_id = 77")
            found = answer(shop.folder, "verify", "--sink", sink)
            assert [(v["view"], v["differences"]) for v in found["views"]] == [("amounts", 3), ("totals", 0)]
            if sink == "warehouse":
                shop.store(sink, "ALTER TABLE totals ADD COLUMN mine int")
            assert headrace(shop.folder, "repair", "--sink", sink).returncode == 0
            assert headrace(shop.folder, "verify", "--sink", sink).returncode == 0
    finally:
        stop.set()
        pushing.join()
    assert answer(shop.folder, "verify")["differences"] == 0
    for sink in ("warehouse", "local"):
        for view in ("totals", "amounts"):
            until(lambda sink=sink, view=view: shop.rows(sink, view) == shop.shown(view))  # type: ignore[misc]
