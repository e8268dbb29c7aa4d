"""Goal: a disk that refuses is told as such, and what a query or a cell says is never taken for it.

Method: errors of the real kinds: of the system, of SQLite, of a Python worker, of Java; a view that throws on a text
that reads like a disk's error stops alone.
"""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failing_case import rows, state, stepped
from running_case import Case, running

from headrace.engine.disk import refusal
from headrace.engine.ingest import Ingest
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.state.run import write_run

LIKE_A_DISK = "Permission denied\nOSError: [Errno 28] No space left on device\njava.io.IOException: Input/output error"
TABLES = {"texts": {"columns": {"id": "int not null", "t": "string"}, "key": "id"}}


def raised(work: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:
        work()
    return caught.value


def code(error: Exception, folder: Path) -> str | None:
    found = refusal(error, folder)
    return found.code if found else None


def test_of_the_system_and_of_sqlite(tmp_path: Path) -> None:
    assert code(raised(lambda: Path("/dev/full").write_text("x")), tmp_path) == "state.full"
    database = sqlite3.connect(tmp_path / "small.db")
    database.execute("pragma max_page_count = 2")
    error = raised(lambda: database.executescript("create table t (v); insert into t values (zeroblob(99999))"))
    database.close()
    assert code(error, tmp_path) == "state.full"
    assert code(ArithmeticError(LIKE_A_DISK), tmp_path) is None


@pytest.mark.spark
def test_of_a_worker_and_of_java(spark: Any, tmp_path: Path) -> None:
    def refused(path: Path, number: int) -> Exception:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            raise OSError(number, "it is refused with Too many open files", str(path))
            yield from batches

        return raised(lambda: spark.range(1).mapInArrow(work, "id long").collect())

    assert code(refused(tmp_path / "state/1/run.arrow", 24), tmp_path) == "state.failed"
    assert code(refused(Path("/somewhere/of/a/users/function"), 24), tmp_path) is None
    java = spark._jvm.java.io.FileOutputStream("/dev/full")
    error = raised(lambda: java.write(bytearray(9)))
    java.close()
    assert code(error, tmp_path) == "state.full"
    quoting = f"{LIKE_A_DISK}\nOSError: [Errno 28] No space left on device: '{tmp_path}/state/1/run.arrow'"
    frame = spark.createDataFrame([(quoting,)], "t string")
    assert code(raised(lambda: frame.selectExpr("cast(t as int)").collect()), tmp_path) is None
    assert code(raised(lambda: frame.selectExpr("raise_error(t)").collect()), tmp_path) is None


def test_a_file_that_cannot_be_written_is_named_and_takes_no_space(tmp_path: Path) -> None:
    table = pa.table({"_h": np.arange(9000), "_w": np.ones(9000, np.int64)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        error = raised(lambda: write_run(tmp_path / "run.arrow", table))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(tmp_path / "run.arrow") in str(error)
    assert code(error, tmp_path) == "state.full"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_a_cell_that_reads_like_a_disks_error_stops_its_view_alone(spark: Any, tmp_path: Path) -> None:
    with running(Case("texts", TABLES, {}, (), {}), tmp_path / "texts") as at_work:
        at_work.define({"numbers": "SELECT id, cast(t AS int) AS n FROM texts", "ids": "SELECT id FROM texts"})
        stepped(at_work, {"texts": {"insert": [[1, "7"]]}}, {"texts": {"insert": [[2, LIKE_A_DISK]]}})
        assert state(at_work) == {"numbers": "failed", "ids": "live"}
        at_work.reopen()
        stepped(at_work, {"texts": {"update": [[2, "8"]]}})
        assert state(at_work) == {"numbers": "live", "ids": "live"}
        assert at_work.contents("numbers") == rows((1, 7), (2, 8))
        at_work.verify()


def test_a_source_goes_on_once_the_quarantine_can_be_written_again(tmp_path: Path) -> None:
    class OneBatch:
        name = "shop"

        def start(self, tables: object, position: object) -> None: ...

        def poll(self, timeout_s: float) -> object:
            return object()

        def close(self) -> None: ...

        def reject(self, batch: object, error: object) -> None: ...

    def full(batch: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    told: list[dict[str, Any]] = []
    with LogWriter(tmp_path / "log") as log:
        ingest = Ingest(OneBatch(), log, frozenset(), told.append, append=full)  # type: ignore[arg-type]
        assert ingest.turn() == 0.5  # when it tries again
    assert isinstance(ingest.error, HeadraceError)
    assert (ingest.error.code, told[-1]["error"]["code"]) == ("state.full", "state.full")
