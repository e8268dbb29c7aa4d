"""Goal: `headrace up --once` takes what the sources hold, brings views and sinks up to date and ends by itself.

Method: a folder of files and a real PostgreSQL in, a DuckDB file out; three runs of the command, with new
rows before the second and a file that cannot be read before the third, then the log begun anew. DuckDB's own reading
of the file is the judge.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

import warm_command
from headrace.testing.postgres import PostgresServer


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, *arguments)


def once(folder: Path) -> dict[str, Any]:
    """The last status of a run that ended well."""
    done = headrace(folder, "up", "--once", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events[-2:]] == ["done", "stopped"]
    return dict(events[-2])


def delivered(folder: Path, view: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(folder / "views.duckdb", read_only=True) as store:
        return store.execute(f"SELECT * FROM {view} ORDER BY ALL").fetchall()


@pytest.mark.spark
@pytest.mark.postgres
def test_what_is_there_is_taken_and_the_command_ends(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    assert headrace(tmp_path, "init", "pages", "--template", "files").returncode == 0
    (folder / "views/owners.sql").write_text("SELECT owner, count(*) AS n FROM accounts GROUP BY owner")
    with PostgresServer() as server:
        (folder / "sources/bank.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": server.dsn}))
        server.psql("CREATE TABLE accounts (id int PRIMARY KEY, owner text)")
        server.psql("INSERT INTO accounts SELECT n, 'ada' FROM generate_series(1, 1000) AS n")
        status = once(folder)
        assert status["frontier"] == status["commit"] == status["sinks"][0]["frontier"]
        assert delivered(folder, "owners") == [("ada", 1000)]
        assert [row[:2] for row in delivered(folder, "visits_per_page")] == [("/", 2), ("/prices", 2)]

        (tmp_path / "moved").mkdir()
        folder = folder.rename(tmp_path / "moved/pages")  # a project goes on wherever it lies
        for number in range(20):  # each a transaction of its own
            server.psql(f"INSERT INTO accounts VALUES ({2000 + number}, 'bo')")
        (folder / "incoming/visits-2.csv").write_text("at,page,seconds\n2026-03-02T08:00:00Z,/,5\n")
        status = once(folder)
        assert status["sinks"][0]["frontier"] == status["frontier"] == status["commit"]
        assert delivered(folder, "owners") == [("ada", 1000), ("bo", 20)]
        assert [row[:2] for row in delivered(folder, "visits_per_page")] == [("/", 3), ("/prices", 2)]

        (folder / "incoming/visits-3.csv").write_text("at,page,seconds\n2026-03-02T08:00:00Z,/,a while\n")
        done = headrace(folder, "up", "--once", "--json")
        assert done.returncode == 1
        error = json.loads(done.stderr.splitlines()[-1])["error"]
        assert error["code"] == "source.row" and "visits-3.csv" in error["where"] and "a while" in error["what"]
        assert delivered(folder, "owners") == [("ada", 1000), ("bo", 20)]

        # A log begun anew, behind the commit that the sink stands at: its rows are not taken for those of the new one.
        (folder / "incoming/visits-3.csv").unlink()
        server.psql("DELETE FROM accounts WHERE owner = 'bo'")
        shutil.rmtree(folder / ".headrace")
        again = once(folder)
        assert again["commit"] < status["commit"]
        assert delivered(folder, "owners") == [("ada", 1000)]
        assert [row[:2] for row in delivered(folder, "visits_per_page")] == [("/", 3), ("/prices", 2)]


@pytest.mark.spark
@pytest.mark.postgres
def test_a_table_or_source_that_was_given_up_comes_back_as_it_is_now(tmp_path: Path) -> None:
    """Rows deleted while nobody followed the table are gone from the view, also when its source was dropped."""
    folder = tmp_path / "pages"
    assert headrace(tmp_path, "init", "pages", "--template", "files").returncode == 0
    view = folder / "views/owners.sql"
    view.write_text("SELECT id, owner FROM accounts")
    with PostgresServer() as server:
        (folder / "sources/bank.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": server.dsn}))
        server.psql("CREATE TABLE accounts (id int PRIMARY KEY, owner text)")
        server.psql("INSERT INTO accounts VALUES (1, 'ada'), (2, 'bo'), (3, 'cy')")
        once(folder)
        assert delivered(folder, "owners") == [(1, "ada"), (2, "bo"), (3, "cy")]

        view.rename(folder / "views/owners.sql.kept")
        server.psql("DELETE FROM accounts WHERE id = 1")
        once(folder)
        server.psql("DELETE FROM accounts WHERE id = 2")
        (folder / "views/owners.sql.kept").rename(view)
        once(folder)
        assert delivered(folder, "owners") == [(3, "cy")]

        assert headrace(folder, "drop", "--source", "bank", "--yes").returncode == 0
        assert server.psql("SELECT count(*) FROM pg_replication_slots") == [(0,)]
        server.psql("DELETE FROM accounts; INSERT INTO accounts VALUES (4, 'di')")
        once(folder)
        assert delivered(folder, "owners") == [(4, "di")]
        server.psql("INSERT INTO accounts VALUES (5, 'ed')")
        once(folder)  # it begins anew once, not each time
        assert delivered(folder, "owners") == [(4, "di"), (5, "ed")]
