"""Goal: it is known which circuit has ended Spark's process, though it is dead; those that only were there are not blamed.

Method: jobs that end, at once or together, over a process that stands for Spark's.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.deadly import Deadly, in_patterns
from headrace.engine.lost import end_spark, lost_spark
from headrace.model.errors import HeadraceError


@contextmanager
def process() -> Iterator[Any]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
        process.kill()


def dies(deadly: Deadly, *circuits: str) -> None:
    """Spark ends while these run, each alone in its job."""
    all_there = threading.Barrier(len(circuits))

    def job(circuit: str) -> None:
        with pytest.raises(HeadraceError), deadly.alone(at_work, circuit):
            all_there.wait(10)
            end_spark(at_work, "it is time")
            at_work.sparkContext._gateway.proc.wait()
            gone = lost_spark(at_work)
            assert gone is not None
            all_there.wait(10)
            raise gone

    with process() as at_work:
        at_once(job, circuits)


def at_once(job: Callable[[str], None], circuits: Sequence[str]) -> None:
    jobs = [threading.Thread(target=job, args=[circuit]) for circuit in circuits]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join()


def test_a_circuit_that_ends_spark_twice_is_known(tmp_path: Path) -> None:
    for number in range(2):
        assert not Deadly(tmp_path, 0).known("a@1")
        dies(Deadly(tmp_path, 0), "a@1")
        assert Deadly(tmp_path, 0).careful, number
    deadly = Deadly(tmp_path, 0)
    assert deadly.known("a@1") and not deadly.known("b@1")
    assert "Spark's process ended while this view was computed" in str(deadly.error())
    assert not deadly.known("a@1", published=True), "it has outlived the steps that were published"
    deadly.recovered()
    assert not Deadly(tmp_path, 0).careful and Deadly(tmp_path, 0).known("a@1")
    deadly.forget(["a@1"])
    assert not Deadly(tmp_path, 0).known("a@1")


def test_of_those_that_ran_together_none_is_blamed_and_each_runs_by_itself(tmp_path: Path) -> None:
    dies(Deadly(tmp_path, 0), "a@1", "b@1")
    deadly = Deadly(tmp_path, 0)
    assert deadly.together == {"a@1", "b@1"} and not deadly.known("a@1") and not deadly.known("b@1")
    inside: list[str] = []

    def job(circuit: str) -> None:
        with deadly.alone(here, circuit):
            inside.append(circuit)
            time.sleep(0.05)
            assert inside == [circuit]
            inside.remove(circuit)

    with process() as here:
        at_once(job, ("a@1", "b@1") * 3)
    assert inside == []


def test_one_that_comes_when_spark_has_ended_is_not_blamed(tmp_path: Path) -> None:
    deadly = Deadly(tmp_path, 0)
    with process() as ended:
        end_spark(ended, "")
        ended.sparkContext._gateway.proc.wait()
        with pytest.raises(HeadraceError), deadly.alone(ended, "a@1"):
            raise AssertionError
    assert deadly.times == {}


@pytest.mark.parametrize("wide", [False, True])
def test_a_step_over_few_rows_ends_with_its_time(wide: bool, tmp_path: Path) -> None:
    with process() as at_work, Deadly(tmp_path, 0.1).in_time(at_work, wide=wide):
        time.sleep(2.5)
        gone = lost_spark(at_work)
    assert (gone is None) == wide
    if gone is not None:
        assert "took more than 0.1 seconds (step_seconds in headrace.yaml)" in gone.why


@pytest.mark.spark
def test_a_task_within_a_regular_expression_is_seen(spark: Any) -> None:
    frame = spark.range(1).selectExpr("rlike(repeat('a', int(id) + 26), '(.*a){12}b') AS found")
    assert in_patterns(spark) == []
    asked = threading.Thread(target=frame.collect)
    asked.start()
    seen: set[str] = set()
    while asked.is_alive():
        seen.update(in_patterns(spark))
        time.sleep(0.05)
    assert len(seen) == 1 and in_patterns(spark) == []


def test_a_damaged_file_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "deadly.json").write_text('{"times": ')
    assert not Deadly(tmp_path, 0).known("a@1")
