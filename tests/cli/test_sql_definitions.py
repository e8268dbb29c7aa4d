"""Goal: without a running `headrace up` `headrace sql` tells of definitions, and changes none, as `headrace apply` does not.

Method: the installed command on a project that never ran.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))


def sql(folder: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "sql", text, *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_definitions_are_shown_and_not_changed_while_nothing_runs(project: ProjectFolder) -> None:
    project.settings()
    project.source("shop", type="http", tables={"orders": {"columns": {"id": "int not null"}, "key": ["id"]}})
    project.view("sums", "SELECT id FROM orders")
    project.sink("store", type="duckdb", path="x.db", views=["sums"])
    assert json.loads(sql(project.path, "SHOW VIEWS", "--json").stdout) == {
        "columns": [{"name": "name", "type": "string"}, {"name": "state", "type": "string"}],
        "rows": [["sums", "new"]], "total": 1,
    }  # fmt: skip
    assert json.loads(sql(project.path, "show sinks", "--json").stdout)["rows"] == [["store", "duckdb", "sums"]]
    assert sql(project.path, "SHOW CREATE SOURCE shop").stdout == (
        "CREATE SOURCE shop FROM http (\n  tables = (orders = (columns = (id = 'int not null'), key = ['id']))\n)\n"
    )
    before = sorted(project.path.glob("*s/*"))
    for text in ("CREATE VIEW v AS SELECT 1 AS a", "DROP VIEW sums"):
        done = sql(project.path, text)
        assert (done.returncode, "project.not_running" in done.stderr) == (1, True)
    assert sorted(project.path.glob("*s/*")) == before
    project.view("steers", "SELECT '\x1b]0;x\x07' AS a,\n\t1 AS b")
    assert sql(project.path, "SHOW CREATE VIEW steers").stdout == (
        "CREATE VIEW steers AS\nSELECT '\\u001b]0;x\\u0007' AS a,\n\t1 AS b\n"
    )
    project.sink("told", type="webhook", url="http://127.0.0.1:1", searches=["late", "lost"])
    shown = json.loads(sql(project.path, "show sinks", "--json").stdout)["rows"]
    assert shown == [["store", "duckdb", "sums"], ["told", "webhook", "matches of late, matches of lost"]]
    unknown = sql(project.path, "SHOW CREATE SINK stor")
    assert unknown.returncode == 1 and "did you mean 'store'" in unknown.stderr
