"""Goal: `headrace sql --engine duckdb` answers from what is published, as of any commit, without a JVM."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path

import pytest

import warm_command
from headrace.log.append import LogWriter
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from published_view import Published, Rows

COMMAND = Path(sys.executable).with_name("headrace")


@pytest.fixture
def published(tmp_path: Path) -> Published:
    made = Published(tmp_path / "p")
    made.step([Rows({(n, n % 3): 1 for n in range(150)})])
    made.step([Rows({(1, 1): -1})])
    return made


def headrace(published: Published, *arguments: str) -> tuple[int, str, str]:
    done = warm_command.run(None, "sql", "--engine", "duckdb", "--project", published.folder, *arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_query_is_answered_without_spark(published: Published) -> None:
    status, out, err = headrace(published, "SELECT n, count(*) AS c FROM Sums GROUP BY n ORDER BY n", "--json")
    assert (status, json.loads(out)) == (
        0,
        {
            "columns": [{"name": "n", "type": "bigint"}, {"name": "c", "type": "bigint"}],
            "rows": [[0, 50], [1, 49], [2, 50]],
            "commit": 2,
            "more": False,
            "stale": {},
        },
    ), err
    status, out, err = headrace(published, "SELECT count(*) FROM sums", "--at", "1", "--json")
    assert (status, json.loads(out)["rows"]) == (0, [[150]]), err
    status, out, err = headrace(published, "SELECT id FROM sums", "--limit", "2")
    assert (status, out.split()[-4:]) == (0, ["rows", "(--limit", "shows", "more)"]), err


def test_a_query_of_a_time_sees_what_was_committed_by_then(published: Published) -> None:
    log = LogWriter(published.folder / ".headrace/log")
    for hour in (8, 9):  # of commits 1 and 2
        at = datetime.datetime(2026, 3, 1, hour, tzinfo=datetime.UTC)
        log.append(TransactionBatch((TransactionOrigin("shop", str(hour), int(at.timestamp() * 1e6)),), {}))
    log.close()
    for time, count in {"2026-03-01T08:30": 150, "2026-03-01T10:00+01:00": 149, "2026-03-01T07:59": 0}.items():
        status, out, err = headrace(published, "SELECT count(*) FROM sums", "--at", time, "--json")
        assert (status, json.loads(out)["rows"]) == (0, [[count]]), err


def test_what_is_wrong_is_told(published: Published) -> None:
    for sql, code in {
        "SELECT * FROM summs": "sql.unknown_relation",
        "SELECT\n  FROM FROM": "sql.syntax",
        "DROP TABLE sums": "sql.refused",
    }.items():
        status, _, err = headrace(published, sql, "--json")
        assert (status, json.loads(err)["error"]["code"] if err.startswith("{") else err) == (1, code)


def test_sparks_sql_is_not_asked_of_the_past(published: Published) -> None:
    command = [str(COMMAND), "sql", "SELECT 1", "--at", "1", "--project", str(published.folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "--engine duckdb" in done.stderr
