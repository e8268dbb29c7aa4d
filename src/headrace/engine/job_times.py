"""When Spark's jobs and tasks began and ended, from its own record of them. It knows milliseconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine.shares import Job, Task

TASKS_MAX = 10_000  # of a stage
_NS = 1_000_000  # of a millisecond


def jobs(spark: SparkSession, groups: Iterable[str]) -> list[Job]:
    """The ended jobs of these groups, soon after they ended: Spark forgets all but the last thousand."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()  # else the record may lack the last of them
    store, tracker = context.statusStore(), context.statusTracker()
    offset = time.time_ns() - time.monotonic_ns()
    found = []
    for number in (number for group in groups for number in tracker.getJobIdsForGroup(group)):
        job = store.job(number)
        if job.submissionTime().isEmpty() or job.completionTime().isEmpty():
            continue
        stages = _items(job.stageIds())
        tasks = tuple(task for stage in stages for task in _tasks(store, stage, offset))
        found.append(Job(_at(job.submissionTime(), offset), _at(job.completionTime(), offset), tasks))
    return found


def _tasks(store: Any, stage: int, offset: int) -> Iterator[Task]:
    for task in _items(store.taskList(stage, 0, TASKS_MAX)):
        if task.duration().isEmpty():
            continue
        launched = task.launchTime().getTime() * _NS - offset
        metrics = task.taskMetrics()
        waited = metrics.get().executorDeserializeTime() * _NS if metrics.isDefined() else 0
        yield Task(task.taskId(), launched, launched + waited, launched + task.duration().get() * _NS)


def _at(date: Any, offset: int) -> int:
    return int(date.get().getTime()) * _NS - offset


def _items(seq: Any) -> list[Any]:
    return [seq.apply(place) for place in range(seq.size())]
