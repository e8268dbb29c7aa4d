"""Goal: a Python worker of Spark that is killed costs a moment; it is no fault of a view, unless the view's code does it.

Method: a function of a view kills the process that it runs in, SIGKILL, as often as a file says; then the contents of all
views are those that the rows give.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_case import Case, Running, running

from headrace.engine.lost import WORKERS_LOST_MAX
from headrace.engine.step import Stepper

pytestmark = pytest.mark.spark

TABLES = {"t": {"columns": {"id": "int not null", "v": "int"}, "key": "id"}}
VIEWS = {"tenfold": "SELECT id, tenfold(v) AS v FROM t", "plain": "SELECT count(*) AS n, sum(v) AS v FROM t"}
TEXT = """
import os, signal
from pathlib import Path

from headrace import function

LEFT = Path({left!r})

@function
def tenfold(v: int) -> int:
    left = int(LEFT.read_text())
    if left:
        LEFT.write_text(str(left - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * v
"""
KILLS = 2  # in one task for all circuits, then in the view's own


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """How many more workers are killed."""
    file = tmp_path / "left"
    file.write_text("0")
    return file


@pytest.fixture
def project(spark: Any, tmp_path: Path, left: Path) -> Iterator[Running]:
    case = Case("project", TABLES, VIEWS, (), {}, functions=TEXT.format(left=str(left)))
    with running(case, tmp_path / "project") as at_work:
        at_work.define()
        at_work.push({"t": {"insert": [[1, 1], [2, 2]]}})
        at_work.step()
        yield at_work


def state(project: Running) -> dict[str, str]:
    return {name: record.state for name, record in project.pipeline.catalog.views().items()}


def contents(project: Running) -> dict[str, list[tuple[str, ...]]]:
    return {view: sorted(project.contents(view).elements()) for view in VIEWS}


def test_a_killed_worker_is_no_fault_of_a_view(project: Running, left: Path) -> None:
    left.write_text(str(KILLS))
    project.push({"t": {"insert": [[3, 3]], "delete": [[1]]}})
    project.step()
    assert left.read_text() == "0"
    assert state(project) == {"tenfold": "live", "plain": "live"}
    assert contents(project) == {"tenfold": [("2", "20"), ("3", "30")], "plain": [("2", "5")]}


def test_a_view_that_kills_every_worker_fails_alone(project: Running, left: Path) -> None:
    left.write_text(str(3 * (WORKERS_LOST_MAX + 2)))
    project.push({"t": {"insert": [[3, 3]]}})
    project.step()
    assert state(project) == {"tenfold": "failed", "plain": "live"}
    assert project.contents("plain").total() == 1
    assert contents(project)["plain"] == [("3", "6")]


def test_in_the_one_task_of_a_small_step_it_is_told_in_a_line(
    project: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lost = Exception("stage 1.0 failed 1 times: Python worker exited unexpectedly (crashed)")
    monkeypatch.setattr(Stepper, "at_once", lambda *_: (False, lost))
    project.push({"t": {"insert": [[3, 3]]}})
    project.step()
    [told] = [record for record in caplog.records if record.name == "headrace.engine.step"]
    assert told.getMessage().endswith("runs again: a Python worker has ended") and told.exc_info is None
    assert contents(project)["plain"] == [("3", "6")]
