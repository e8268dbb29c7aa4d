"""Goal: rows leave a view and its sink as time passes, with no new input, across a kill; idle writes nothing.

Method: the installed command over a folder of files, into a DuckDB file, which is the judge beside `headrace verify`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import warm_command

COMMAND = str(Path(sys.executable).with_name("headrace"))
WAIT_S = 90
SOON_S, LATER_S = 10, 18


def answer(folder: Path, *arguments: str) -> dict[str, Any]:
    done = warm_command.run(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


@contextmanager
def up(folder: Path) -> Iterator[None]:
    """`headrace up`, killed at the end."""
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen([COMMAND, "up", "--json"], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)  # fmt: skip
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not there():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.2)


@pytest.mark.spark
def test_rows_leave_as_time_passes(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    made = [COMMAND, "init", "pages", "--template", "files"]
    assert subprocess.run(made, cwd=tmp_path, check=False, capture_output=True).returncode == 0
    (folder / "views/coming.sql").write_text("SELECT page FROM visits WHERE at > now()\n")
    (folder / "views/expected.sql").write_text("SELECT count(*) AS n FROM coming\n")

    def delivered() -> tuple[set[str], int]:
        try:
            with duckdb.connect(folder / "views.duckdb", read_only=True) as store:
                counted = store.execute("SELECT n FROM expected").fetchone()
                return {row[0] for row in store.execute("SELECT page FROM coming").fetchall()}, counted[
                    0
                ] if counted else -1
        except duckdb.Error:  # not made yet, or being written
            return set(), -1

    def arrive(name: str, pages: dict[str, int]) -> datetime:
        """A file with a visit of each page so many seconds from now; when that was."""
        now = datetime.now(UTC)
        rows = "".join(f"{(now + timedelta(seconds=s)).isoformat()},{page},1\n" for page, s in pages.items())
        (folder / "incoming/.visits").write_text("at,page,seconds\n" + rows)
        (folder / "incoming/.visits").rename(folder / f"incoming/visits-{name}.csv")
        return now

    with up(folder):
        until(lambda: delivered()[1] == 0)
        arrive("first", {"/first": 86_400})
        until(lambda: delivered() == ({"/first"}, 1))  # what a first step takes is no part of the moments
        now = arrive("now", {"/soon": SOON_S, "/later": LATER_S, "/tomorrow": 86_400, "/before": -60})
        until(lambda: delivered() == ({"/first", "/soon", "/later", "/tomorrow"}, 4))
        until(lambda: delivered() == ({"/first", "/later", "/tomorrow"}, 3))
        assert datetime.now(UTC) >= now + timedelta(seconds=SOON_S)
    with up(folder):
        until(lambda: delivered() == ({"/first", "/tomorrow"}, 2))
        assert datetime.now(UTC) >= now + timedelta(seconds=LATER_S)
        until(lambda: bool(answer(folder, "status", "--json")["frontier"]))
        commit = answer(folder, "status", "--json")["commit"]
        time.sleep(3)
        assert answer(folder, "status", "--json")["commit"] == commit
        assert answer(folder, "verify", "--json")["differences"] == 0
        shown = answer(folder, "explain", "coming", "--json")
        assert [o["bound"] for o in shown["operators"] if o["name"] == "filter by a value"] == [
            "the rows that the clock has yet to pass"
        ]
