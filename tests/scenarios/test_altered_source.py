"""Goal: a PostgreSQL server that changed, and lost its slot, while nobody followed it costs a sink the difference alone.

Method: three runs of the installed command over one database, a DuckDB file out. DuckDB's own reading of the file,
PostgreSQL's own answer to the same query, and the count of rows that the sink was given are the judges.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.testing.postgres import PostgresServer
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))
QUERY = "SELECT id, owner FROM accounts"


def once(folder: Path) -> list[dict[str, Any]]:
    """The events of a run that ended well."""
    done = subprocess.run(
        [COMMAND, "up", "--once", "--json"], cwd=folder, check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(600)
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
