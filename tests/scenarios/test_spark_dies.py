"""Goal: Spark's processes that are killed cost a moment, of which one clear sentence tells.

Method: `headrace up` on a real PostgreSQL, with its view in another database; its Python workers are killed under load,
then its JVM, while it works and while it is idle. The view is held against PostgreSQL's own answer.

HEADRACE_KILLS=50 for as many of each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from headrace.control import up
from headrace.testing.postgres import PostgresServer

COMMAND = str(Path(sys.executable).with_name("headrace"))
VIEW = "SELECT id % 5 AS part, count(*) AS n, sum(v) AS total FROM t GROUP BY id % 5"
JUDGE = "SELECT id % 5, count(*), sum(v) FROM t GROUP BY id % 5 ORDER BY 1"
SHOWN = "SELECT part, n, total FROM parts ORDER BY part"
KILLS = int(os.environ.get("HEADRACE_KILLS", "1"))
WAIT_S = 240.0


class Followed:
    """A project at work: its folder, its source, its sink, and the process."""

    def __init__(self, folder: Path, source: str, store: str) -> None:
        self.folder, self.store = folder, store
        self.source = psycopg.connect(source, autocommit=True)
        self.source.execute("CREATE TABLE t (id serial PRIMARY KEY, v int)")
        for part in ("sources", "views", "sinks"):
            (folder / part).mkdir(parents=True)
        (folder / "headrace.yaml").write_text("name: followed\n")
        (folder / "sources/source.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": source}))
        (folder / "views/parts.sql").write_text(VIEW)
        (folder / "sinks/store.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": store}))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def up(self) -> None:
        with (self.folder / "said").open("wb") as said:
            self.process = subprocess.Popen([COMMAND, "up"], cwd=self.folder, stdout=said, stderr=said)

    def write(self, rows: int) -> None:
        for _ in range(rows):
            self.source.execute("INSERT INTO t (v) VALUES (7)")
            self.source.execute("UPDATE t SET v = v + 1 WHERE id % 3 = 0")

    def caught_up(self) -> float:
        """Seconds until the sink shows what the source's own answer is."""
        began = time.monotonic()
        expected = self.source.execute(JUDGE).fetchall()
        while self.shown() != expected:
            assert self.process is not None and self.process.poll() is None, self.said
            assert time.monotonic() - began < WAIT_S, (self.shown(), expected, self.said)
            time.sleep(0.05)
        return time.monotonic() - began

    def shown(self) -> list[tuple[object, ...]]:
        try:
            with psycopg.connect(self.store) as store:
                return store.execute(SHOWN).fetchall()
        except psycopg.errors.UndefinedTable:
            return []

    def kill(self, of: str) -> int:
        """SIGKILL to those processes below ours whose command line has ``of``; how many there were."""
        assert self.process is not None
        victims = [pid for pid in below(self.process.pid) if of in command_line(pid)]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        return len(victims)


def below(pid: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            yield int(entry.parent.name)
            yield from below(int(entry.parent.name))


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.spark
@pytest.mark.usefixtures("own_jvm")
@pytest.mark.postgres
@pytest.mark.timeout(600 + 150 * KILLS)
def test_sparks_processes_are_killed(tmp_path: Path) -> None:
    workers, ended = list[float](), list[float]()
    with PostgresServer(tmp_path / "server") as server:
        followed = Followed(tmp_path / "project", server.dsn, server.create_database("store"))
        followed.write(20)
        followed.up()
        try:
            followed.caught_up()
            for _ in range(KILLS):
                followed.write(10)
                assert followed.kill("pyspark.worker")
                followed.write(5)
                workers.append(followed.caught_up())
            assert "failed" not in followed.said
            for number in range(KILLS):
                if number % 2:
                    followed.write(10)
                began, before = time.monotonic(), len(followed.said)
                assert followed.kill("java") == 1  # every other time while it is idle
                followed.write(5)
                followed.caught_up()
                ended.append(time.monotonic() - began)
                last = followed.said[before:]
                assert "Spark's Java process has ended, by signal 9: it was killed" in last, followed.said
                assert "it begins again in 1 s, and nothing acknowledged is lost" in last
                assert "Traceback" not in followed.said and last.count("\n") < 15, followed.said
                if KILLS > 1:  # or the next pause is a longer one
                    time.sleep(up.QUIET_S)
        finally:
            if followed.process is not None and followed.process.poll() is None:
                followed.process.send_signal(signal.SIGTERM)
                followed.process.wait(60)
            followed.source.close()
    print(f"{KILLS} times the workers, caught up in at most {max(workers):.1f} s; {KILLS} times the JVM, "
          f"went on after at most {max(ended):.1f} s")  # fmt: skip
