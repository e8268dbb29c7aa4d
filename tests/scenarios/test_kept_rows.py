"""Goal: what tables could not take and sources could not read is found, corrected, sent again and dropped beside a running
product, while everything else goes on.

Method: the installed command over a project with a pushed table and a folder of files. A dict is what the views should
hold; at the end every view is compared with Spark batch over the log.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import warm_command

pytestmark = pytest.mark.spark

COMMAND = str(Path(sys.executable).with_name("headrace"))
WAIT_S = 60
FILES = {
    "headrace.yaml": "name: shop\n",
    "sources/shop.yaml": """
type: http
port: 0
auth: none
on_error: quarantine
tables:
  orders: {columns: {id: int not null, amount: "decimal(6,2)"}, key: id, on_conflict: quarantine}
""",
    "sources/visits.yaml": """
type: files
path: in
poll_seconds: 0.05
columns: {page: string, n: int}
on_error: quarantine
""",
    "views/all_orders.sql": "SELECT id, amount FROM orders",
    "views/pages.sql": "SELECT page, sum(n) AS n FROM visits GROUP BY page",
}


class Product:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        (folder / "in").mkdir()
        self.process = subprocess.Popen(
            [COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        ready: dict[str, Any] = next(e for e in map(json.loads, self.process.stdout) if e["event"] == "ready")
        self.address = next(s["endpoint"] for s in ready["sources"] if s["name"] == "shop")

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=WAIT_S)

    def run(self, *arguments: str, status: int = 0) -> Any:
        done = warm_command.run(self.folder, *arguments, "--json")
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        return json.loads(done.stderr)["error"] if status else json.loads(done.stdout)

    def quarantine(self, *arguments: str, status: int = 0) -> Any:
        return self.run("quarantine", *arguments, status=status)

    def push(self, *rows: tuple[Any, Any]) -> httpx.Response:
        changes = [{"table": "orders", "op": "insert", "row": {"id": key, "amount": amount}} for key, amount in rows]
        return httpx.post(f"{self.address}/transactions", json={"changes": changes}, timeout=WAIT_S)

    def rows(self, view: str) -> dict[Any, Any]:
        return dict(self.run("show", view)["rows"])

    def kept(self) -> dict[str, dict[str, Any]]:
        answer = self.quarantine("list")
        assert answer["total"] == len(answer["changes"])
        counts: dict[str, int] = {}
        for source in self.run("status")["sources"]:
            counts |= source["quarantined"]
        tables = [entry["table"] for entry in answer["changes"]]
        assert counts == {table: tables.count(table) for table in tables}
        return {entry["id"]: entry for entry in answer["changes"]}


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    made = Product(tmp_path)
    try:
        yield made
    finally:
        made.close()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.5)


def test_it_is_found_corrected_sent_again_and_dropped_while_the_rest_goes_on(product: Product) -> None:
    orders = {1: "1.00", 2: "2.00"}
    assert product.push((1, "1.00"), (2, "2.00")).status_code == 200
    conflict = product.push((1, "9.00"), (3, "3.00")).json()["commit"]
    orders[3] = "3.00"
    refused = product.push((4, "4.00"), (5, "12345.00"))
    assert (refused.status_code, refused.json()["quarantined"]) == (202, "shop:1")
    lines = ['{"page": "home", "n": 1}', '{"page": "home", "n": "many"}', "{", '{"page": "shop", "n": 2}']
    (product.folder / "in/1.jsonl").write_text("\n".join(lines) + "\n")
    until(lambda: product.rows("pages") == {"home": 1, "shop": 2})
    until(lambda: product.rows("all_orders") == orders)

    kept = product.kept()
    assert list(kept) == [f"orders:{conflict}:1", "shop:1", "visits:2", "visits:3"]
    assert kept["shop:1"]["place"] == "table 'orders', change 2"
    assert [(kept[id]["place"], kept[id]["payload"]) for id in ("visits:2", "visits:3")] == [
        (f"{product.folder}/in/1.jsonl:2", lines[1]), (f"{product.folder}/in/1.jsonl:3", lines[2]),
    ]  # fmt: skip
    shown = product.quarantine("show", f"orders:{conflict}:1")
    assert (shown["row"], shown["source"], shown["key"]) == ({"id": 1, "amount": "9.00"}, "shop", ["id"])

    again = product.quarantine("replay", f"orders:{conflict}:1")
    assert again["again"] == [f"orders:{again['commit']}:1"]
    assert product.rows("all_orders") == orders
    sent = product.quarantine("replay", *again["again"], "--as", "replace")
    orders[1] = "9.00"
    assert sent["again"] == []
    assert product.rows("all_orders") == orders
    assert product.run("wait", "--token", str(sent["commit"]))["reached"] >= sent["commit"]

    error = product.quarantine("replay", "shop:1", status=1)
    assert (error["code"], "12345.00" in error["what"]) == ("source.row", True)
    right = json.loads(product.quarantine("show", "shop:1")["payload"].replace("12345.00", "5.00"))
    assert product.quarantine("fix", "shop:1", "--row", json.dumps(right))["again"] == []
    orders |= {4: "4.00", 5: "5.00"}
    assert product.rows("all_orders") == orders
    assert product.quarantine("fix", "visits:2", "--row", '{"page": "home", "n": 10}')["changes"] == 1
    assert product.rows("pages") == {"home": 11, "shop": 2}
    assert list(product.kept()) == ["visits:3"]
    assert product.quarantine("drop", "--all", "--yes") == {"dropped": 1}
    assert product.kept() == {}
    assert product.quarantine("show", "visits:3", status=1)["why"] == "it was dropped"
    assert "it was sent again in commit" in product.quarantine("show", "visits:2", status=1)["why"]
    (product.folder / "in/2.jsonl").write_text(lines[0] + "\n")
    until(lambda: product.rows("pages") == {"home": 12, "shop": 2})
    assert product.run("verify")["differences"] == 0
