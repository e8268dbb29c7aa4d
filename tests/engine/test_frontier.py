"""Goal: who waits for his write reads it: pushed over HTTP or committed in PostgreSQL, in views and in sinks.

Method: `headrace up` in a process of its own over a real PostgreSQL and an HTTP source. Writes at random, each waited
for, at once or later, by the command or over HTTP; then the published view, or the sink's file, is read by itself.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import psycopg
import pytest

from headrace.serve import snapshot
from headrace.testing.postgres import PostgresServer
from postgres_server import database, postgres_server
from project_folder import ProjectFolder

__all__ = ["database", "postgres_server"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

COMMAND = str(Path(sys.executable).with_name("headrace"))
VIEWS = {
    "balances": "SELECT id, balance FROM accounts",
    "notes_of": "SELECT account, count(*) AS n FROM notes GROUP BY account",
    "clicked": "SELECT page, count(*) AS n FROM clicks GROUP BY page",
    "shares": "SELECT id, 100 div balance AS share FROM accounts WHERE id < 0",
}


class AtWork:
    """The project while it runs."""

    def __init__(self, folder: Path, ready: dict[str, Any], dsn: str) -> None:
        self.folder = folder
        (web,) = [source for source in ready["sources"] if source["name"] == "web"]
        token = Path(web["token_file"]).read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        self.web = httpx.Client(base_url=web["endpoint"], headers=headers, timeout=60)
        self.bank = psycopg.connect(dsn)

    def commit(self, statement: str) -> str:
        """Run a transaction in the bank; its token."""
        self.bank.execute(statement.encode())
        self.bank.commit()
        (lsn,) = self.bank.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
        self.bank.commit()
        return f"bank:{lsn}"

    def push(self, page: str) -> int:
        changes = [{"table": "clicks", "op": "insert", "row": {"page": page}}]
        commit = self.web.post("/transactions", json={"changes": changes}).json()["commit"]
        assert isinstance(commit, int)
        return commit

    def wait(self, token: int | str, **of: str | float) -> dict[str, Any]:
        answer = self.web.get("/wait", params={"token": token, **of})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *arguments], cwd=self.folder, check=False, capture_output=True, text=True, timeout=100
        )

    def view(self, name: str) -> dict[Any, Any]:
        """The published rows: first column -> second."""
        rows = snapshot.contents(self.folder, name)[2].to_pylist()
        assert all(row["_w"] == 1 for row in rows)
        return dict(list(row.values())[:2] for row in rows)


@pytest.fixture
def at_work(project: ProjectFolder, postgres_server: PostgresServer, database: str) -> Iterator[AtWork]:
    dsn = postgres_server.dsn_for(database)
    postgres_server.psql(
        "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);"
        "CREATE TABLE notes (id serial PRIMARY KEY, account int); CREATE TABLE idle (id int);"
        "INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 20) AS n",
        database,
    )
    project.source("bank", "postgres", dsn=dsn)
    project.source("web", "http", port=0, tables={"clicks": {"columns": {"page": "string"}}})
    project.sink("local", "duckdb", path="views.duckdb", views=["balances", "clicked"])
    for name, sql in VIEWS.items():
        project.view(name, sql)
    command = [COMMAND, "up", "--json"]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as up:
        assert up.stdout is not None
        try:
            ready = next(event for event in map(json.loads, up.stdout) if event["event"] == "ready")
            made = AtWork(project.path, ready, dsn)
            yield made
            made.web.close()
            made.bank.close()
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=60)


def test_who_waits_reads_his_write(at_work: AtWork) -> None:
    draw = random.Random(11)
    balances = dict.fromkeys(range(1, 21), 100)
    notes: dict[int, int] = {}
    clicks: dict[str, int] = {}
    at_work.wait(at_work.commit("INSERT INTO idle VALUES (0)"))  # the first copy is in every view
    assert at_work.view("balances") == balances

    for number in range(20):
        account, kind = draw.randint(1, 20), draw.choice(["balance", "note", "click"])
        if kind == "balance":
            balances[account] += number
            token: int | str = at_work.commit(f"UPDATE accounts SET balance = balance + {number} WHERE id = {account}")
            name, expected = "balances", balances
        elif kind == "note":
            notes[account] = notes.get(account, 0) + 1
            token = at_work.commit(f"INSERT INTO notes (account) VALUES ({account})")
            name, expected = "notes_of", notes
        else:
            clicks[f"/{account}"] = clicks.get(f"/{account}", 0) + 1
            token = at_work.push(f"/{account}")
            name, expected = "clicked", clicks
        if draw.random() < 0.3:  # the LSN of what no view uses, after the write
            token = at_work.commit("INSERT INTO idle VALUES (1)") if kind != "click" else token
        assert at_work.wait(token, view=name, timeout=30)["of"] == f"view {name}"
        assert at_work.view(name) == expected, number

    at_work.push("/last")
    told = at_work.command("wait", "--token", at_work.commit("UPDATE accounts SET balance = 5 WHERE id = 1"), "--json")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert answer["reached"] >= answer["commit"] and answer["of"] == "every live view and every sink"
    assert at_work.view("balances") == {**balances, 1: 5}
    balances[2] = 7
    at_work.wait(at_work.commit("UPDATE accounts SET balance = 7 WHERE id = 2"), sink="local")
    with duckdb.connect(str(at_work.folder / "views.duckdb"), read_only=True) as store:
        rows = store.sql("SELECT id, balance FROM balances").fetchall()
    assert dict(rows) == {**balances, 1: 5}

    found = at_work.web.get("/frontier").json()
    assert found["least"] == found["commit"]
    late = at_work.command("wait", "--token", "bank:FFFFFFF/0", "--timeout", "1")
    assert late.returncode == 1
    assert "[wait.timeout]" in late.stderr and "source bank is at" in late.stderr
    assert "the log ends at commit" in at_work.command("wait", "--token", "100000").stderr


def test_a_view_that_fails_is_told_and_not_waited_for(at_work: AtWork) -> None:
    token = at_work.commit("INSERT INTO accounts VALUES (-1, 0)")
    reached = at_work.wait(token, sink="local")["reached"]
    refused = at_work.command("wait", "--token", token, "--view", "shares")
    assert refused.returncode == 1
    assert "[view.failed] view shares has failed at commit" in refused.stderr and "DIVIDE_BY_ZERO" in refused.stderr
    assert at_work.wait(token)["reached"] >= reached  # the others are not held up
    found = json.loads(at_work.command("frontier", "--json").stdout)
    stale = {view["name"] for view in found["views"] if not view["in_least"]}
    assert stale == {"shares"}
    assert found["least"] >= reached > {view["name"]: view["commit"] for view in found["views"]}["shares"]
    at_work.wait(at_work.commit("UPDATE accounts SET balance = 50 WHERE id = -1"))
    again = at_work.commit("INSERT INTO accounts VALUES (-2, 25)")
    assert at_work.wait(again, view="shares")["of"] == "view shares"
    assert at_work.view("shares") == {-1: 2, -2: 4}
