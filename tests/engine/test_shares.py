"""Goal: the time of a step goes to its phases, each instant once. Method: spans with given times, without Spark."""

from __future__ import annotations

import random

from headrace.engine.shares import (
    JVM,
    OTHER,
    PHASES,
    PYTHON_END,
    PYTHON_START,
    SCHEDULING,
    Job,
    Measured,
    Task,
    divided,
    summed,
)
from headrace.state.phases import ARROW, DRIVER, LOG, OPERATORS, PROBE, PUBLISH, SPARK, WRITE, Span, Stage

STEP: list[Span] = [(DRIVER, 0, 10), (SPARK, 10, 110), (DRIVER, 110, 115), (PUBLISH, 115, 120)]


def told(phases: dict[str, int]) -> dict[str, int]:
    assert tuple(phases) == PHASES
    return {phase: ns for phase, ns in phases.items() if ns}


def test_a_step_in_one_task() -> None:
    stage: Stage = (7, [(ARROW, 40, 42), (OPERATORS, 42, 60), (PROBE, 60, 70), (WRITE, 70, 75), (ARROW, 75, 76)], {})
    found = divided(STEP, [stage], [Job(15, 100, (Task(7, 20, 25, 90),))])
    assert told(found) == {
        DRIVER: 15,
        PUBLISH: 5,
        JVM: 5 + 5 + 10,  # before the job, the task before its closure was there, after the job
        SCHEDULING: 5 + 10,
        PYTHON_START: 15,
        PYTHON_END: 14,
        ARROW: 3,
        OPERATORS: 18,
        PROBE: 10,
        WRITE: 5,
    }
    assert sum(found.values()) == 120


def test_work_hides_what_waits_for_it_and_parallel_work_has_equal_parts() -> None:
    first: Stage = (1, [(OPERATORS, 20, 60)], {})
    second: Stage = (2, [(ARROW, 20, 40), (PROBE, 40, 80)], {})
    found = divided([(SPARK, 0, 100)], [first, second], [Job(0, 100, (Task(1, 20, 20, 60), Task(2, 20, 20, 80)))])
    assert told(found) == {SCHEDULING: 40, OPERATORS: 20 + 10, PROBE: 10 + 20}


def test_a_task_without_python_is_the_jvm_and_times_beyond_the_wait_count_for_nothing() -> None:
    found = divided([(DRIVER, 0, 50), (SPARK, 50, 60)], [], [Job(45, 65, (Task(1, 48, 49, 58),))])
    assert told(found) == {DRIVER: 50, JVM: 8, SCHEDULING: 2}


def test_what_no_span_tells_is_other() -> None:
    assert told(divided([(DRIVER, 0, 5), (PUBLISH, 7, 9)], [], [])) == {DRIVER: 5, PUBLISH: 2, OTHER: 2}


def test_nothing_is_lost_or_counted_twice_whatever_overlaps() -> None:
    draw = random.Random(3)
    for _ in range(200):
        stages: list[Stage] = []
        tasks = []
        for number in range(draw.randint(0, 5)):
            at = sorted(draw.randint(0, 120) for _ in range(6))
            tasks.append(Task(number, at[0], at[1], at[5]))
            stages.append((number, [(draw.choice([ARROW, LOG, PROBE]), at[n], at[n + 1]) for n in (2, 3)], {}))
        found = divided(STEP, stages, [Job(draw.randint(0, 60), draw.randint(60, 120), tuple(tasks))])
        assert sum(found.values()) == 120 and min(found.values()) >= 0


def test_several_steps_together() -> None:
    def measured(number: int, driver: int, probe: int, probed: int) -> Measured:
        phases = {**dict.fromkeys(PHASES, 0), DRIVER: driver * 10**6, PROBE: probe * 10**6}
        return Measured(number, 10 * number, (driver + probe) * 10**6, phases, {PROBE: probed}, number)

    answer = summed([measured(1, 10, 30, 4), measured(2, 20, 10, 8), measured(3, 15, 15, 0)])
    assert answer["wall"] == {"median_ms": 30.0, "largest_ms": 40.0}
    by_name = {phase.pop("phase"): phase for phase in answer["phases"]}
    assert tuple(by_name) == PHASES
    assert by_name[DRIVER] == {"median_ms": 15.0, "largest_ms": 20.0, "share": 0.45, "rows": None}
    assert by_name[PROBE] == {"median_ms": 15.0, "largest_ms": 30.0, "share": 0.55, "rows": 4}
    assert by_name[OTHER] == {"median_ms": 0.0, "largest_ms": 0.0, "share": 0.0, "rows": None}
    assert [(step["step"], step["commit"], step["ms"], step["rows"]) for step in answer["each"]] == [
        (1, 10, 40.0, 1), (2, 20, 30.0, 2), (3, 30, 30.0, 3),
    ]  # fmt: skip
    assert answer["each"][0]["phases"][PROBE] == 30.0


def test_no_step_at_all() -> None:
    assert summed([]) == {"wall": {"median_ms": None, "largest_ms": None}, "phases": [], "each": []}
