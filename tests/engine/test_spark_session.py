"""Goal: a session of one process never takes its own executor for dead; what the JVM says is heard, but for its noise."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from headrace.circuit.prepare import starting_workers
from headrace.engine.bridge import OBJECT
from headrace.engine.standard_error import NOISE, without_noise

DAY_MS = 24 * 3600 * 1000


@pytest.mark.spark
def test_a_machine_may_sleep_for_weeks(spark: Any) -> None:
    """Spark drops an executor that it has not heard of for this long by the clock on the wall."""
    java = spark.sparkContext._jsc.sc().conf()
    assert java.getTimeAsMs("spark.network.timeout", "120s") >= 14 * DAY_MS
    assert java.getTimeAsMs("spark.rpc.askTimeout", "120s") == 120_000  # what asks within the process still gives up


@pytest.mark.spark
def test_its_workers_import_nothing_from_the_folder_they_begin_in(spark: Any) -> None:
    def told(rows: Any) -> Any:
        import sys

        import pyarrow as pa

        for _ in rows:
            yield pa.RecordBatch.from_pydict({"safe": [sys.flags.safe_path and "" not in sys.path]})

    assert [row.safe for row in spark.range(1).mapInArrow(told, "safe boolean").collect()] == [True]


@pytest.mark.spark
def test_it_loads_no_extensions_from_the_class_path(spark: Any) -> None:
    """MLlib registers functions so, for which a session takes 1.5 s to make; nothing else changes for what comes after."""
    jvm = spark._jvm
    registry = getattr(jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$").__getattr__(OBJECT)
    known = registry.internal().listFunction().toString()
    assert "vector_to_array" not in known
    assert "bloom_filter_agg" in known  # one of Spark's own
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    assert loader.loadClass("org.apache.spark.ml.linalg.Vector").getSimpleName() == "Vector"


@pytest.mark.spark
def test_workers_are_there_when_the_work_beside_their_start_is_done(spark: Any) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    with starting_workers(spark, 2):
        pass
    (job,) = set(tracker.getJobIdsForGroup(None)) - before
    told = tracker.getJobInfo(job)
    assert told.status == "SUCCEEDED"
    assert [tracker.getStageInfo(stage).numTasks for stage in told.stageIds] == [2]


def test_only_the_line_of_every_start_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    said = NOISE + b"OpenJDK: out of memory\nno end of line"
    with without_noise():
        told = [sys.executable, "-c", f"import os; os.write(2, {said!r})"]
        subprocess.run(told, check=True)
    heard, end = "", time.monotonic() + 10
    while not heard.endswith("line") and time.monotonic() < end:
        time.sleep(0.01)
        heard += capfd.readouterr().err
    assert heard == "OpenJDK: out of memory\nno end of line"
