"""Goal: many small steps leave nothing behind. Method: a short run of the endurance benchmark in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.spark
def test_nothing_piles_up_over_many_steps() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.endurance", "--steps", "200", "--every", "20"]
    done = subprocess.run(command, check=False, cwd=root, capture_output=True, text=True, timeout=300)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0 and lines[-1]["grown"] == {}, done.stdout + done.stderr
    assert lines[-2]["step"] == 200
    # Nothing is compiled once it is warm, but for a step that had to be run again in another form.
    assert lines[-2]["compiled"] <= lines[1]["compiled"] + 5
