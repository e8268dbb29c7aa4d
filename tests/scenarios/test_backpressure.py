"""Goal: a source that is ten times as fast as its sink is held to the sink's pace, within its bounds, and the sink ends with
what was pushed. The benchmark of the same name does it for as long as one likes; here for a moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.spark
def test_a_source_waits_for_a_sink_that_is_ten_times_slower() -> None:
    command = [sys.executable, "-m", "benchmarks.backpressure", "--seconds", "20"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=400, cwd=Path(__file__).parents[2]
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["wrong"], told["grown"], done.returncode) == ([], {}, 0), done.stderr[-2000:]
    assert told["waited_s"] > 5
    assert 0 < told["rows"] <= 20_000
    assert told["most"]["backlog"] >= 50_000  # its bound was reached
