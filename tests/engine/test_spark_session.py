"""Goal: a session of one process never takes its own executor for dead, as after a machine has slept for minutes."""

from __future__ import annotations

from typing import Any

import pytest

DAY_MS = 24 * 3600 * 1000


@pytest.mark.spark
def test_a_machine_may_sleep_for_weeks(spark: Any) -> None:
    """Spark drops an executor that it has not heard of for this long by the clock on the wall."""
    java = spark.sparkContext._jsc.sc().conf()
    assert java.getTimeAsMs("spark.network.timeout", "120s") >= 14 * DAY_MS
    assert java.getTimeAsMs("spark.rpc.askTimeout", "120s") == 120_000  # what asks within the process still gives up
