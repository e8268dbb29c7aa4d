"""A project that runs as a user runs it, with its page: `headrace up` over the starter project of `headrace init`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import yaml

COMMAND = str(Path(sys.executable).with_name("headrace"))
WAIT_S = 90
VIEWS = {
    "all_orders": "SELECT id, customer_id, amount FROM orders",
    "by_day": "SELECT date_trunc('DAY', placed_at) AS day, sum(amount) AS revenue FROM orders GROUP BY 1",
    "all_customers": "SELECT id, name, region FROM customers",
}
BEGINNING: dict[str, list[dict[str, Any]]] = {
    "customers": [{"id": 1, "name": "Ada", "region": "north"}, {"id": 2, "name": "Bo", "region": "south"}],
    "orders": [
        {"id": 10, "customer_id": 1, "amount": "19.90", "placed_at": "2026-03-01T08:00:00Z"},
        {"id": 11, "customer_id": 2, "amount": "5.00", "placed_at": "2026-03-02T08:00:00Z"},
    ],
}


class ServedProject:
    """``url``: of the page and the API; ``token``: of its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.url = self._pushed_to = ""
        self._last: httpx.Response | None = None  # what was pushed last
        self._held: dict[str, dict[int, dict[str, Any]]] = {table: {} for table in BEGINNING}  # by id

    @classmethod
    def shop(cls, folder: Path) -> ServedProject:
        """The starter project, with more views, and with a quarantine for what does not fit."""
        subprocess.run([COMMAND, "init", str(folder)], check=True, capture_output=True, timeout=WAIT_S)
        source = folder / "sources/shop.yaml"
        shop = yaml.safe_load(source.read_text())
        shop["tables"]["orders"]["on_conflict"] = "quarantine"
        source.write_text(yaml.safe_dump({**shop, "port": 0, "on_error": "quarantine"}))
        for name, sql in VIEWS.items():
            (folder / f"views/{name}.sql").write_text(sql + "\n")
        return cls(folder)

    @classmethod
    def empty(cls, folder: Path) -> ServedProject:
        folder.mkdir()
        (folder / "headrace.yaml").write_text("name: nothing\n")
        return cls(folder)

    def start(self, port: int = 0) -> None:
        """Run it until it answers; ``port``: of the page, 0 takes a free one."""
        settings = self.folder / "headrace.yaml"
        kept = [line for line in settings.read_text().splitlines() if not line.startswith("api:")]
        settings.write_text("\n".join([*kept, f"api: {{port: {port}}}", ""]))
        self._process = subprocess.Popen(
            [COMMAND, "up", "--json"], cwd=self.folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        events: dict[str, Any] = {}
        for line in self._process.stdout:
            event = json.loads(line)
            events[event["event"]] = event
            if "ready" in events and "api.started" in events:
                break
        else:
            self.stop()
            raise AssertionError(f"`headrace up` ended: {events}")
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)  # a full pipe would stop it
        self._reader.start()
        self._pushed_to = next((source["endpoint"] for source in events["ready"]["sources"]), "")
        self.url = json.loads((self.folder / ".headrace/api.json").read_text())["url"]

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=WAIT_S)
            if self._reader is not None:
                self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 80

    @property
    def token(self) -> str:
        return (self.folder / ".headrace/tokens/api").read_text().strip()

    @property
    def _owner(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def push(self, **tables: dict[str, list[dict[str, Any]]]) -> httpx.Response:
        """Push one transaction: table -> operation -> rows."""
        for table, operations in tables.items():
            held = self._held[table]
            for row in operations.get("delete", []):
                held.pop(row["id"], None)
            held.update((row["id"], row) for row in operations.get("upsert", []))
        token = (self.folder / ".headrace/tokens/shop").read_text().strip()
        self._last = httpx.post(
            f"{self._pushed_to}/transactions", json={"tables": tables}, timeout=WAIT_S,
            headers={"Authorization": f"Bearer {token}"},
        )  # fmt: skip
        return self._last

    def begin_anew(self) -> None:
        """Whatever was pushed or paused: the tables hold the rows of the beginning, and views and sinks have them.

        A story that begins while something is still under way counts it among its own.
        """
        for sink in httpx.get(f"{self.url}/api/sinks", headers=self._owner, timeout=WAIT_S).json():
            if sink["state"] == "paused":
                httpx.post(f"{self.url}/api/sinks/{sink['name']}/resume", headers=self._owner, timeout=WAIT_S)
        tables = {}
        for table, rows in BEGINNING.items():
            wanted, held = {row["id"]: row for row in rows}, self._held[table]
            gone = [{"id": id} for id in held.keys() - wanted.keys()]
            changed = [row for id, row in wanted.items() if held.get(id) != row]
            if gone or changed:
                tables[table] = {"delete": gone, "upsert": changed}
        if tables:
            self.push(**tables)
        if self._last is not None:
            self.wait(self._last)

    def wait(self, pushed: httpx.Response, view: str | None = None) -> None:
        """Until what was pushed is in the view, or in all views and sinks."""
        awaited = {"token": pushed.json()["commit"], **({"view": view} if view else {})}
        answer = httpx.post(f"{self.url}/api/wait", json=awaited, headers=self._owner, timeout=WAIT_S)
        answer.raise_for_status()
