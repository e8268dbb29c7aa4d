"""Goal: `headrace doctor` names all that a project lacks, each with the statement that gives it, and changes nothing.

Method: the installed command against real servers in states that a user's may be in. Its own advice is run as it is
printed, until it finds nothing; then the judge is the source itself, which starts, and the server's catalogue.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.project import read
from headrace.engine import connectors
from headrace.testing.postgres import PostgresServer
from postgres_server import changes, database, drain, postgres_server
from project_folder import ProjectFolder

__all__ = ["database", "postgres_server"]  # fixtures

COMMAND = Path(sys.executable).with_name("headrace")


def doctor(folder: Path, status: int, **environment: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The findings by kind and name; what is printed as text has all that is missing too."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    done = [
        subprocess.run(
            [COMMAND, "doctor", "--quick", *more],
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for more in (["--json"], [])
    ]
    assert [each.returncode for each in done] == [status, status], done[0].stdout + done[0].stderr
    answer = json.loads(done[0].stdout)
    for part in answer["examined"]:
        found[part["kind"], part["name"]] = part["findings"]
    missing = [f for findings in found.values() for f in findings if f["state"] == "missing"]
    assert answer["missing"] == len(missing) and all(f["next"] for f in missing)
    flat = " ".join(done[1].stdout.split())
    assert all(" ".join(f["next"].split()) in flat for f in missing)
    return found


def missing(findings: list[dict[str, Any]]) -> list[str]:
    return [finding["next"] for finding in findings if finding["state"] == "missing"]


@pytest.mark.postgres
def test_its_advice_is_all_that_a_role_needs(postgres_server: PostgresServer, database: str, tmp_path: Path) -> None:
    server, role = postgres_server, f"limited_{database}"
    project = ProjectFolder(tmp_path / "shop")
    project.settings(name="headrace")
    project.source("shop", "postgres", dsn=server.dsn_for(database, role), schemas=["s"])
    project.sink("out", "postgres", dsn=server.dsn_for(database, role), schema="views")
    project.view("v", "SELECT count(*) AS n FROM t")

    def catalogue() -> Any:
        tables = ("pg_publication", "pg_replication_slots", "pg_namespace", "pg_roles")
        return [
            server.psql(f"SELECT to_jsonb(c) - 'confirmed_flush_lsn' FROM {t} c ORDER BY 1::text", database)
            for t in tables
        ]

    server.psql(
        f"CREATE ROLE {role} LOGIN; CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY); INSERT INTO s.t VALUES (5);"
        "CREATE TABLE s.unread (id int)", database,
    )  # fmt: skip
    try:
        before = catalogue()
        found = doctor(project.path, 1)
        assert catalogue() == before
        advice = missing(found["source", "shop"])
        assert len(advice) == 2 and "unread" not in " ".join(advice)
        assert "WITH REPLICATION" in advice[0] and 'GRANT SELECT ON "s"."t"' in advice[0]
        assert "CREATE PUBLICATION" in advice[1]
        (schema,) = missing(found["sink", "out"])
        assert schema.startswith('CREATE SCHEMA "views"')
        for text in [*advice, schema]:
            server.psql(text.partition("superuser: ")[2] or text, database)
        found = doctor(project.path, 0)
        assert not missing(found["source", "shop"]) and found["sink", "out"][-1]["state"] == "ok"
        definitions = read(project.path)
        source = connectors.make_source(definitions.sources[0], definitions)
        source.start(frozenset({"t"}), None)
        assert [row["id"] for row in changes(drain(source), "t")] == [5]
        assert "the slot" in str(doctor(project.path, 0)["source", "shop"])  # beside one that reads
        source.close()
    finally:
        server.psql(
            f"DROP PUBLICATION IF EXISTS {publication(project.path)}; DROP OWNED BY {role}; DROP ROLE {role}", database
        )


def publication(folder: Path) -> str:
    return f"headrace_headrace_{(folder / '.headrace/id').read_text().strip()}_shop"


@pytest.mark.postgres
def test_settings_of_a_server_and_a_server_that_is_not_there(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "p")
    project.settings(name="headrace")
    project.view("v", "SELECT * FROM t")
    with PostgresServer(tmp_path / "pg", wal_level="replica", settings={"max_replication_slots": "0"}) as server:
        server.psql("CREATE TABLE t (n numeric)")
        project.source("bank", "postgres", dsn=server.dsn)
        found = doctor(project.path, 1)["source", "bank"]
        advice = missing(found)
        assert "ALTER SYSTEM SET wal_level = 'logical'; then restart" in advice[0]
        assert "ALTER SYSTEM SET max_replication_slots = " in advice[1] and "restart" in advice[1]
        warned = [f["what"] for f in found if f["state"] == "warning"]
        assert any("PostgreSQL itself refuses every UPDATE" in text for text in warned)
        assert any("max_slot_wal_keep_size" in text for text in warned)
        assert server.psql("SELECT count(*) FROM pg_publication") == [(0,)]
    found = doctor(project.path, 1)["source", "bank"]
    assert found[-1]["code"] == "source.connect" and missing(found) == [
        "check host, port and database, and that the server runs"
    ]


def test_the_machine_and_what_has_no_server(tmp_path: Path) -> None:
    """A Java that is too old, none at all, and a DuckDB file where no folder is."""
    project = ProjectFolder(tmp_path / "p")
    project.settings(name="headrace")
    project.sink("good", "duckdb", path="out/views.duckdb")
    found = doctor(project.path, 0)
    assert not (project.path / "out").exists()
    project.write("file", "")
    project.sink("bad", "duckdb", path="file/views.duckdb")
    (tmp_path / "jdk/bin").mkdir(parents=True)
    java = tmp_path / "jdk/bin/java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    found = doctor(project.path, 1, JAVA_HOME=str(tmp_path / "jdk"))
    assert [f["state"] for f in found["machine", ""]] == ["ok", "missing", "ok", "ok", "ok", "ok", "ok"]
    assert "Java 8 is too old" in found["machine", ""][1]["what"] and "openjdk-17" in missing(found["machine", ""])[0]
    assert "is no folder" in found["sink", "bad"][0]["why"] and found["sink", "good"][0]["state"] == "ok"
    found = doctor(project.path, 1, JAVA_HOME=str(tmp_path / "nowhere"))
    assert "Java cannot be started" in found["machine", ""][1]["what"]
    found = doctor(project.path, 1, TMPDIR=str(tmp_path / "nowhere"))
    passed_over = found["machine", ""][-1]
    assert (passed_over["state"], passed_over["what"]) == ("warning", f"TMPDIR is {tmp_path / 'nowhere'}")
    assert passed_over["why"] == f"no file can be written there, so that {tempfile.gettempdir()} is used"
    found = doctor(project.path, 1, TMPDIR=str(tmp_path))
    assert found["machine", ""][-1]["what"].endswith(f"are free for {tmp_path}")
