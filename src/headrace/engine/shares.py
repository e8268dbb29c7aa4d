"""How a step's wall time divides among its phases, and what several steps say together. Numbers only, no Spark.

The engine's thread is in one phase after the other, so its spans make up the whole step. While it waits for Spark,
each instant is that of the most telling thing that goes on: work of a Python stage; else its waiting for rows or
handing them over; else the start or end of one (from the task's until its own, and back); else a task in the JVM; else
a job without a task at work; and what is left is the JVM before and after its jobs. Of several in one instant each has
an equal part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from headrace.state.phases import (
    ARROW,
    CATALOGUE,
    DRIVER,
    LOG,
    MERGE,
    OPERATORS,
    PLANNING,
    PROBE,
    PUBLISH,
    SPARK,
    WRITE,
    Span,
    Stage,
)

SCHEDULING, JVM, OTHER = "scheduling", "jvm", "other"
PYTHON_START, PYTHON_END = "python_start", "python_end"
PHASES = (
    DRIVER, PLANNING, CATALOGUE, SCHEDULING, JVM, PYTHON_START, PYTHON_END, ARROW, LOG, OPERATORS, PROBE, MERGE, WRITE,
    PUBLISH, OTHER,
)  # fmt: skip
# What tells more comes later; the work of a Python stage most of all.
_LEVELS = {SCHEDULING: 0, JVM: 1, PYTHON_START: 2, PYTHON_END: 2, ARROW: 3}
_WORK = 4
_MS = 1e6  # nanoseconds


@dataclass(frozen=True, slots=True)
class Task:
    """A task of Spark's. ``launched``, ``started`` (its closure is there), ``finished``: ns of the monotonic clock."""

    id: int
    launched: int
    started: int
    finished: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job of Spark's, from ``submitted`` to ``completed``, in ns of the monotonic clock."""

    submitted: int
    completed: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A step: its commit, its wall time and that of each phase in ns; rows by phase; how many of the view changed."""

    number: int
    commit: int
    wall: int
    phases: dict[str, int]
    rows: dict[str, int]
    changed: int


def divided(driver: Sequence[Span], stages: Iterable[Stage], jobs: Iterable[Job]) -> dict[str, int]:
    """Phase -> ns; together the time from the first of the driver's spans to the end of the last."""
    found: Counter[str] = Counter()
    overlays = list(_overlays(list(stages), jobs))
    for phase, since, upto in driver:
        if phase == SPARK:
            found.update(_covered(since, upto, overlays))
        else:
            found[phase] += upto - since
    found[OTHER] += driver[-1][2] - driver[0][1] - sum(found.values())
    return {phase: found[phase] for phase in PHASES}


def _overlays(stages: Sequence[Stage], jobs: Iterable[Job]) -> Iterator[Span]:
    at_work: dict[int, list[tuple[int, int]]] = {}  # of a task's stages
    for number, spans, _ in stages:
        yield from spans
        at_work.setdefault(number, []).append((spans[0][1], spans[-1][2]))
    for job in jobs:
        yield SCHEDULING, job.submitted, job.completed
        for task in job.tasks:
            yield JVM, task.launched, task.finished
            for entered, left in at_work.get(task.id, ()):
                yield PYTHON_START, task.started, entered
                yield PYTHON_END, left, task.finished


def _covered(since: int, upto: int, overlays: Iterable[Span]) -> Counter[str]:
    """The time between the two by phase."""
    edges: list[tuple[int, int, str]] = []
    for phase, *ends in overlays:
        begin, end = max(ends[0], since), min(ends[1], upto)
        if begin < end:
            edges += [(begin, 1, phase), (end, -1, phase)]
    found: Counter[str] = Counter()
    active: Counter[str] = Counter()
    at = since
    for edge, change, phase in sorted(edges):
        _give(found, active, edge - at)
        active[phase] += change
        at = edge
    _give(found, active, upto - at)
    return found


def _give(found: Counter[str], active: Counter[str], ns: int) -> None:
    """This time to the phases that tell most of those that are active, by how many are in each."""
    if ns == 0:
        return
    at_work = {phase: count for phase, count in active.items() if count}
    level = max((_LEVELS.get(phase, _WORK) for phase in at_work), default=-1)
    chosen = [p for p, count in at_work.items() for _ in range(count) if _LEVELS.get(p, _WORK) == level] or [JVM]
    for place, phase in enumerate(chosen):
        found[phase] += ns * (place + 1) // len(chosen) - ns * place // len(chosen)


def summed(steps: Sequence[Measured]) -> dict[str, Any]:
    """``{"wall", "phases", "each"}``: ms of the steps, of each phase in them, and all of it step by step.

    ``wall``: ``median_ms``, ``largest_ms``; ``phases``: ``phase``, ``median_ms``, ``largest_ms``, ``share`` of all the
    steps' time (0 to 1, together 1), ``rows`` a step (their median; None where a phase has none to count).
    """
    total = sum(step.wall for step in steps)
    phases = [
        {
            "phase": phase,
            **_ms([step.phases[phase] for step in steps]),
            "share": round(sum(step.phases[phase] for step in steps) / total, 4) if total else 0.0,
            "rows": int(median(step.rows[phase] for step in steps)) if all(phase in s.rows for s in steps) else None,
        }
        for phase in (PHASES if steps else ())
    ]
    each = [
        {
            "step": step.number,
            "commit": step.commit,
            "ms": step.wall / _MS,
            "rows": step.changed,
            "phases": {phase: ns / _MS for phase, ns in step.phases.items()},
        }
        for step in steps
    ]
    return {"wall": _ms([step.wall for step in steps]), "phases": phases, "each": each}


def _ms(times: Sequence[int]) -> dict[str, float | None]:
    if not times:
        return {"median_ms": None, "largest_ms": None}
    return {"median_ms": round(median(times) / _MS, 3), "largest_ms": round(max(times) / _MS, 3)}
