"""Goal: the three commands in the README of every template of `headrace init` work as they stand there, up to a value.

Method: they are taken out of the document and run by a shell, beside a real `up`, with a real PostgreSQL where one is
named. The judge is what `headrace show` and the sink's own store then hold. The template http is that of the tour
(test_tour.py), and what the tests of the templates say is run in tests/control/test_test.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.control import init
from headrace.testing.postgres import PostgresServer

pytestmark = pytest.mark.spark
WAIT_S = 120
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def made(folder: Path, template: str) -> list[str]:
    """The commands of the template's README, without their comments."""
    init.run(folder, init.Template(template))
    (block,) = re.findall(r"^```\n(.*?)^```$", (folder / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+# .*$", "", line) for line in block.splitlines()]


def shell(folder: Path, command: str, **environment: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, **environment, "PATH": PATH}, check=False,
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def shown(folder: Path, command: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in json.loads(shell(folder, f"{command} --json"))["rows"]]


@contextmanager
def running(folder: Path, command: str) -> Iterator[str]:
    """That `up` until the block ends; gives the address that its source listens at."""
    words = [str(Path(sys.executable).with_name("headrace")), *command.split()[1:], "--json"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            ready = next(event for event in map(json.loads, process.stdout) if event["event"] == "ready")
            yield ready["sources"][0]["endpoint"]
        finally:
            process.terminate()


def test_click_through_rates(tmp_path: Path) -> None:
    up, push, show = made(tmp_path, "ctr")
    source = tmp_path / "sources/ads.yaml"
    source.write_text(source.read_text().replace("port: 7071", "port: 0"))
    assert (up, show) == ("headrace up", "headrace show ctr") and "http://127.0.0.1:7071/" in push
    with running(tmp_path, up) as address:
        push = push.replace("http://127.0.0.1:7071", address)
        commit = json.loads(shell(tmp_path, push))["commit"]
        assert json.loads(shell(tmp_path, push))["commit"] == commit + 1  # the same once more changes nothing
        shell(tmp_path, f"headrace wait --token {commit + 1}")
        assert shown(tmp_path, show) == [
            ("autumn", "2026-03-01T09:01:00Z", 1, 0, "0.0000"),
            ("spring", "2026-03-01T09:00:00Z", 2, 1, "0.5000"),
        ]
        with duckdb.connect(tmp_path / "views.duckdb", read_only=True) as store:
            rows = store.execute("SELECT campaign, shown, clicked, rate::varchar FROM campaigns ORDER BY 1").fetchall()
    assert rows == [("autumn", 1, 0, "0.0000"), ("spring", 2, 1, "0.5000")]


def test_files(tmp_path: Path) -> None:
    test, up, show = made(tmp_path, "files")
    assert (test, up) == ("headrace test", "headrace up --once")
    shell(tmp_path, up)
    assert shown(tmp_path, show) == [("/", 2, 19), ("/prices", 2, 135)]


@pytest.mark.postgres
def test_postgres(tmp_path: Path) -> None:
    doctor, up, show = made(tmp_path / "shop", "postgres")
    assert (doctor, up) == ("headrace doctor", "headrace up --once")
    with PostgresServer(tmp_path / "pg") as server:
        server.psql("CREATE ROLE shop LOGIN SUPERUSER; CREATE ROLE reports LOGIN")
        server.create_database("shop")
        server.psql("CREATE DATABASE reports OWNER reports")
        server.psql(
            "CREATE TABLE customers (id int PRIMARY KEY, region text);"
            "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, amount numeric(12,2));"
            "INSERT INTO customers VALUES (1, 'north'), (2, 'south');"
            "INSERT INTO orders VALUES (10, 1, 19.90), (11, 1, 0.10), (12, 2, 5)", "shop",
        )  # fmt: skip
        for file in ("sources/shop.yaml", "sinks/reports.yaml"):
            path = tmp_path / "shop" / file
            path.write_text(path.read_text().replace("port: 5432", f"port: {server.port}"))
        passwords = {"SHOP_PASSWORD": "x", "REPORTS_PASSWORD": "x"}
        assert "nothing is missing" in shell(tmp_path / "shop", doctor, **passwords)
        shell(tmp_path / "shop", up, **passwords)
        expected = [("north", 2, "20.00"), ("south", 1, "5.00")]
        assert shown(tmp_path / "shop", show) == expected
        assert server.psql("SELECT region, orders, revenue::text FROM revenue ORDER BY 1", "reports") == expected
