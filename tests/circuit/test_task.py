"""Goal: what a worker keeps between steps is let go when the step is another one.

Method: two descriptions of steps, as tasks of two jobs meet them; oracle: which runs are open.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from headrace.circuit import task
from headrace.circuit.task import Step, current
from headrace.state import run as runs
from headrace.state.run import open_run, write_run


def test_a_run_that_is_gone_by_the_next_step_takes_no_more_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.run.STRETCH", 1_000)
    write_run(run := tmp_path / "run.arrow", pa.table({"c0": range(1_000), "_w": [1] * 1_000}))
    for number in (1, 2):
        step = Step("log", [], number - 1, number, "one", {}, {}, False, str(tmp_path))
        step.write(described := tmp_path / f"step.{number}.json")
        properties = SimpleNamespace(getLocalProperty=lambda name, of=described: str(of))
        monkeypatch.setattr(task, "_task", lambda found=properties: found)
        assert current() == step
        if number == 1:
            open_run(str(run))
            run.unlink()
            assert str(run) in runs._open
    assert str(run) not in runs._open
