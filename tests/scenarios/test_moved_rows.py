"""Goal: rows that get another key keep their large values, in the views and in a sink.

Method: the installed command over one database, a DuckDB file out; DuckDB's own reading of the file against PostgreSQL's.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from test_altered_source import once

from headrace.testing.postgres import PostgresServer
from project_folder import ProjectFolder

LARGE = "(SELECT string_agg(md5(g::text || {0}), '') FROM generate_series(1, 200) g)"
QUERY = "SELECT id, note FROM notes"


@pytest.mark.spark
@pytest.mark.postgres
def test_rows_keep_their_large_values_under_another_key(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "notes")
    with PostgresServer() as server:
        project.settings(name="notes")
        project.source("shop", "postgres", dsn=server.dsn)
        project.view("noted", QUERY)
        project.sink("out", "duckdb", path="views.duckdb")
        server.psql("CREATE TABLE notes (id int PRIMARY KEY, note text)")
        server.psql(f"INSERT INTO notes SELECT n, {LARGE.format('n')} FROM generate_series(1, 20) AS n")
        for statement in (
            "SELECT 1",
            "UPDATE notes SET id = id + 100 WHERE id < 10",
            f"UPDATE notes SET note = {LARGE.format(7)} WHERE id = 101; UPDATE notes SET id = id + 100 WHERE id > 100",
        ):
            server.psql(statement)
            once(project.path)
            with duckdb.connect(project.path / "views.duckdb", read_only=True) as store:
                found = store.execute("SELECT id, note FROM noted ORDER BY id").fetchall()
            assert found == server.psql(QUERY + " ORDER BY id")
