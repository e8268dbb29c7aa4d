"""Goal: a PostgreSQL server that changed, and lost its slot, while nobody followed it costs a sink the difference alone;
a table that is altered while it is followed stops the views that use what changed, and nothing else.

Method: the installed command over one database, a DuckDB file out. DuckDB's own reading of the file, PostgreSQL's own
answer to the same query, and the count of rows that the sink was given are the judges.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import warm_command
from headrace.testing.postgres import PostgresServer
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))
WAIT_S = 90
QUERY = "SELECT id, owner FROM accounts"


class Product:
    """A running `headrace up`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Product:
        assert self.process.stdout is not None
        next(e for e in map(json.loads, self.process.stdout) if e["event"] == "ready")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=WAIT_S)

    def run(self, *arguments: str) -> Any:
        done = warm_command.run(self.folder, *arguments, "--json")
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout)


def once(folder: Path) -> list[dict[str, Any]]:
    """The events of a run that ended well."""
    done = subprocess.run(
        [COMMAND, "up", "--once", "--json"], cwd=folder, check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spark
@pytest.mark.postgres
def test_what_happened_while_nobody_followed_reaches_the_sink_as_its_difference(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "bank")
    with PostgresServer() as server:
        project.settings(name="bank")
        project.source("bank", "postgres", dsn=server.dsn)
        project.view("owned", QUERY)
        project.sink("out", "duckdb", path="views.duckdb")
        server.psql("CREATE TABLE accounts (id int PRIMARY KEY, owner text, junk int)")
        server.psql("INSERT INTO accounts SELECT n, 'ada', n FROM generate_series(1, 5000) AS n")

        def run() -> tuple[list[str], int]:
            events = once(project.path)
            with duckdb.connect(project.path / "views.duckdb", read_only=True) as store:
                found = store.execute("SELECT id, owner FROM owned ORDER BY id").fetchall()
            assert found == server.psql(QUERY + " ORDER BY id")
            told = [event["why"] for event in events if event["event"] == "source.copied_anew"]
            (status,) = (event for event in events if event["event"] == "done")
            return told, status["sinks"][0]["rows"]

        assert run() == ([], 5000)
        server.psql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        server.psql("DELETE FROM accounts WHERE id = 7; UPDATE accounts SET owner = 'bo' WHERE id = 8")
        (why,), rows = run()
        assert "is gone" in why and rows <= 4  # one row went, one changed
        server.psql("INSERT INTO accounts VALUES (6000, 'cy', 1)")
        server.psql("ALTER TABLE accounts DROP COLUMN junk, ADD COLUMN extra int DEFAULT 1")
        server.psql("INSERT INTO accounts VALUES (6001, 'di', 2)")
        (why,), rows = run()
        assert "altered" in why and rows == 2


@pytest.mark.spark
@pytest.mark.postgres
def test_a_table_altered_in_a_transaction_stops_the_views_that_use_it_alone(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "bank")
    views = {
        "owned": "SELECT id, owner FROM accounts",
        "balances": "SELECT owner, sum(amount) AS amount FROM accounts GROUP BY owner",
        "rich": "SELECT owner FROM balances WHERE amount > 10",
        "notes": "SELECT note, count(*) AS n FROM other GROUP BY note",
    }
    with PostgresServer() as server:
        project.settings(name="bank", driver_memory="600m")
        project.source("bank", "postgres", dsn=server.dsn, heartbeat_seconds=0.5)
        for name, sql in views.items():
            project.view(name, sql)
        project.sink("out", "duckdb", path="views.duckdb")
        server.psql("CREATE TABLE accounts (id int PRIMARY KEY, amount int, owner text)")
        server.psql("CREATE TABLE other (id int PRIMARY KEY, note text)")
        server.psql("INSERT INTO accounts VALUES (1, 10, 'ada'), (2, 20, 'bo')")
        with Product(project.path) as product:

            def read(view: str) -> list[Any]:
                """Its rows in the sink; none while there is no such table."""
                file, end = project.path / "views.duckdb", time.monotonic() + WAIT_S
                while file.exists():
                    try:
                        with duckdb.connect(file, read_only=True) as store:
                            return sorted(store.execute(f"SELECT * FROM {view}").fetchall())
                    except duckdb.CatalogException:
                        break
                    except duckdb.IOException:  # the product has it open while it writes
                        assert time.monotonic() < end
                        time.sleep(0.05)
                return []

            def states() -> dict[str, str]:
                return {view["name"]: view["state"] for view in product.run("views")["views"]}

            def waits(until: Callable[[], bool]) -> None:
                end = time.monotonic() + WAIT_S
                while not until():
                    assert time.monotonic() < end, (states(), product.run("status"))
                    time.sleep(0.5)

            waits(lambda: read("owned") == [(1, "ada"), (2, "bo")])
            server.psql(
                "BEGIN; INSERT INTO accounts VALUES (3, 30, 'cy'); INSERT INTO other VALUES (1, 'a');"
                "ALTER TABLE accounts RENAME amount TO cents; INSERT INTO accounts VALUES (4, 40, 'di'); COMMIT"
            )
            waits(lambda: len(read("owned")) == 4)
            assert states() == {"owned": "live", "balances": "failed", "rich": "failed", "notes": "live"}
            assert read("notes") == [("a", 1)]
            assert read("balances") == [("ada", 10), ("bo", 20)]  # none of the transaction
            said = next(v["reason"] for v in product.run("views")["views"] if v["name"] == "balances")
            assert "ALTER TABLE public.accounts RENAME COLUMN amount TO cents" in said
            server.psql("INSERT INTO other VALUES (2, 'a'); UPDATE accounts SET cents = 41 WHERE id = 4")
            waits(lambda: read("notes") == [("a", 2)])
            frontier = {v["name"]: v["commit"] for v in product.run("frontier")["views"]}
            assert frontier["balances"] == frontier["rich"] < frontier["notes"] == frontier["owned"]

            project.view("balances", "SELECT owner, sum(cents) AS amount FROM accounts GROUP BY owner")
            project.view("raw", "SELECT id, cents FROM accounts")
            product.run("apply")
            waits(lambda: set(states().values()) == {"live"})
            waits(lambda: read("rich") == [("bo",), ("cy",), ("di",)])
            assert read("balances") == [("ada", 10), ("bo", 20), ("cy", 30), ("di", 41)]
            found = {v["name"]: v["version"] for v in product.run("views")["views"]}
            assert found == {"owned": 1, "balances": 2, "rich": 2, "notes": 1, "raw": 1}
            # A sum is the same over a wider type, and goes on by itself; a column that would be another waits.
            server.psql("ALTER TABLE accounts ALTER cents TYPE bigint")
            server.psql("UPDATE accounts SET cents = 5000000000 WHERE id = 1")
            waits(lambda: read("balances")[:1] == [("ada", 5000000000)])
            waits(lambda: states() == {**dict.fromkeys([*views, "raw"], "live"), "raw": "failed"})
            assert [row for row in read("raw") if row[0] == 1] == [(1, 10)]
            product.run("apply")
            waits(lambda: states()["raw"] == "live" and (1, 5000000000) in read("raw"))
            server.psql("UPDATE accounts SET cents = 1 WHERE id = 2")
            server.psql("ALTER TABLE accounts DROP COLUMN owner")
            server.psql("INSERT INTO accounts VALUES (5, 50)")
            waits(lambda: {n for n, s in states().items() if s == "failed"} == {"balances", "owned", "rich"})
            assert product.run("verify")["differences"] == 0
