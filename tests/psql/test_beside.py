"""Goal: `headrace up` serves psql where headrace.yaml says so, to who has a token, and ends with it.

Method: the real command on a project of files; psql itself as the client, with a token made while it runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.api.server import Servers
from headrace.catalog.project import read
from headrace.governance.access import Access
from headrace.governance.roles import Role
from headrace.model.definition import ApiSettings, PsqlSettings
from headrace.model.errors import HeadraceError
from headrace.testing.ports import free_port
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))


def psql(port: int, password: str, statement: str) -> tuple[str, str]:
    done = subprocess.run(
        ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(port), "-U", "ada", "-d", "shop", "-c", statement],
        env={**os.environ, "PGPASSWORD": password}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.spark
def test_a_project_is_read_by_psql_while_it_runs(project: ProjectFolder) -> None:
    port = free_port()
    project.settings(psql={"port": port}, api={"port": 0})
    incoming = project.path / "incoming"
    incoming.mkdir()
    (incoming / "1.csv").write_text("id,area,n\n1,north,2\n2,south,3\n3,north,4\n")
    columns = {"id": "int", "area": "string", "n": "bigint"}
    project.source("sales", type="files", path="incoming", columns=columns)
    project.view("sums", "SELECT area, sum(n) AS n FROM sales GROUP BY area")
    with subprocess.Popen([COMMAND, "up", "--json"], cwd=project.path, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            for line in up.stdout:
                if "psql.started" in line:
                    break
            access = Access(project.path / ".headrace")
            _, token = access.tokens.create("reports", Role.VIEWER, ("sums",))
            for _ in range(100):
                if psql(port, token, "TABLE sums ORDER BY area") == ("north|6\nsouth|3", ""):
                    break
                time.sleep(0.1)
            assert psql(port, token, "TABLE sums ORDER BY area") == ("north|6\nsouth|3", "")
            assert psql(port, token, r"\dv") == ("public|sums|view|headrace", "")
            assert "there is no view or table 'sales'" in psql(port, token, "TABLE sales")[1]
            owner = (project.path / ".headrace/tokens/api").read_text().strip()
            assert psql(port, owner, "SELECT count(*) FROM sales") == ("3", "")
            access.tokens.revoke("reports")
            assert "the token 'reports' was revoked" in psql(port, token, "SELECT 1")[1]
            access.close()
        finally:
            up.terminate()
            up.wait(30)
    assert "Connection refused" in psql(port, token, "SELECT 1")[1]


def test_what_is_written_of_psql_is_checked_before_anything_starts(project: ProjectFolder, tmp_path: Path) -> None:
    for written, said in (
        ({"prot": 1}, "prot"), ({"port": "x"}, "0 to 65535"), ({"host": "0.0.0.0", "auth": "none"}, "loopback alone"),
        ({"certificate": "a.pem"}, "both 'certificate' and 'key'"), ({"connections": 0}, "above 0"), (7, "must be a mapping"),
    ):  # fmt: skip
        project.settings(psql=written)
        with pytest.raises(HeadraceError, match=said):
            read(project.path)
    project.settings(psql={})
    definitions = read(project.path)
    assert definitions.settings.psql == PsqlSettings()
    project.settings()
    assert read(project.path).settings.psql is None
    settings = replace(definitions.settings, api=ApiSettings(enabled=False), psql=PsqlSettings(port=free_port()))
    definitions = replace(definitions, settings=settings)
    first = Servers(definitions, lambda event: None)
    (project.path / ".headrace").mkdir(exist_ok=True)
    first.listen()
    second = Servers(definitions, lambda event: None)
    with pytest.raises(HeadraceError) as taken:
        second.listen()
    assert taken.value.code == "psql.port" and "psql: {port:" in taken.value.next
    second.close()
    first.close()
    first.close()
