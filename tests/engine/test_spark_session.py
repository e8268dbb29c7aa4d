"""Goal: a session of one process never takes its own executor for dead; what the JVM says is heard, but for its noise."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

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
