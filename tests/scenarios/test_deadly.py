"""Goal: what ends Spark's process, a row or a view, costs a moment and that view; `up` goes on, and so does every later start.

Method: `headrace up` with a function of the user that kills the Java process for one row, and with an expression that never
comes back from one; other views beside, and readers of the page's server throughout.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.control import socket
from headrace.serve import snapshot
from headrace.testing.ports import free_port
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))
WAIT_S = 240.0
FUNCTIONS = """
import headrace
import psutil


@headrace.function(returns="int")
def deadly(n: int) -> int:
    if n == 13:
        for each in psutil.Process().parents():
            if each.name() == "java":
                each.kill()
    return n
"""
VIEWS = {
    "counted": "SELECT count(*) AS n FROM orders",
    "killing": "SELECT id, deadly(n) AS n FROM orders WHERE n < 100",
    "reading": "SELECT count(*) AS n FROM killing",
    "frozen": "SELECT id, rlike(repeat('a', n - 190), '.*.*.*.*.*.*b') AS found FROM orders WHERE n >= 100",
}
TABLES = {"orders": {"columns": {"id": "int not null", "n": "int"}, "key": "id"}}


class Up:
    def __init__(self, path: Path) -> None:
        self.folder = ProjectFolder(path)
        self.folder.settings(code=True, step_seconds=15)
        self.port = free_port()
        self.folder.source("shop", "http", port=self.port, tables=TABLES)
        self.folder.write("functions/deadly.py", FUNCTIONS)
        for name, sql in VIEWS.items():
            self.folder.view(name, sql)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        return (self.folder.path / "said").read_text()

    def start(self) -> None:
        with (self.folder.path / "said").open("ab") as said:
            self.process = subprocess.Popen([COMMAND, "up"], cwd=self.folder.path, stdout=said, stderr=said)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            assert self.process.wait(60) == 0, self.said

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        return socket.request(self.folder.path, verb, arguments, lambda event: None)

    def states(self) -> dict[str, str]:
        return {view["name"]: view["state"] for view in self.ask("status")["views"]}

    def reason(self, view: str) -> str:
        return next(str(each["reason"]) for each in self.ask("status")["views"] if each["name"] == view)

    def until(self, wanted: dict[str, str]) -> None:
        end = time.monotonic() + WAIT_S
        while True:
            assert self.process is not None and self.process.poll() is None, self.said
            assert time.monotonic() < end, self.said
            if socket.running(self.folder.path) and self.states() == wanted:
                return
            time.sleep(0.1)

    def push(self, *rows: tuple[int, int]) -> None:
        token = (self.folder.path / ".headrace/tokens/shop").read_text().strip()
        changes = [{"table": "orders", "op": "insert", "row": {"id": id, "n": n}} for id, n in rows]
        url, headers = f"http://127.0.0.1:{self.port}/transactions", {"Authorization": f"Bearer {token}"}
        done = httpx.post(url, json={"changes": changes}, headers=headers, timeout=WAIT_S, trust_env=False)
        assert done.status_code == 200, done.text

    def reached(self, view: str, number: int) -> None:
        end = time.monotonic() + WAIT_S
        while self.rows(view) != [(number,)]:
            assert time.monotonic() < end, self.said
            time.sleep(0.1)

    def rows(self, view: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values())[:-1] for row in snapshot.contents(self.folder.path, view)[2].to_pylist()]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path / "shop")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


LIVE = dict.fromkeys(VIEWS, "live")


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("own_jvm")
def test_what_ends_spark_is_known_and_the_others_go_on(up: Up) -> None:
    up.start()
    up.until(LIVE)
    up.push((1, 1), (2, 200))
    up.push((3, 13))
    up.until({**LIVE, "killing": "failed", "reading": "failed"})
    up.reached("counted", 3)
    assert "row {id: 3, n: 13}: Spark's process ended while this view was computed" in str(up.reason("killing"))
    up.push((4, 700))
    up.until({**LIVE, "killing": "failed", "reading": "failed", "frozen": "failed"})
    up.reached("counted", 4)
    assert up.said.count("a step over few rows took more than 15 seconds (step_seconds in headrace.yaml)") >= 1

    up.stop()
    up.start()
    up.until({**LIVE, "killing": "failed", "reading": "failed", "frozen": "failed"})
    up.folder.view("killing", "SELECT id, deadly(n) AS n FROM orders WHERE n < 13")
    (up.folder.path / "views/frozen.sql").unlink()
    up.ask("apply")
    up.until({"counted": "live", "killing": "live", "reading": "live"})
    assert up.rows("reading") == [(1,)]
    up.stop()
    assert "Traceback" not in up.said and "a fault in Headrace" not in up.said, up.said
