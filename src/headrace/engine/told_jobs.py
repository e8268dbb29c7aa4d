"""How far Spark's jobs of this thread are, told while they run."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark import SparkContext

from headrace.model.pace import TOLD_S


@contextmanager
def telling(context: SparkContext, tell: Callable[[float], None]) -> Iterator[None]:
    """Once a second ``tell`` is given the share of the tasks of the block's jobs that have ended, of all known then."""
    group, ended = uuid.uuid4().hex, threading.Event()

    def watch() -> None:
        while not ended.wait(TOLD_S):
            tell(_share(context, group))

    thread = threading.Thread(target=watch, name="headrace-told-jobs", daemon=True)
    context.setJobGroup(group, "headrace")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        context._jsc.clearJobGroup()


def _share(context: SparkContext, group: str) -> float:
    """0 to 1; a stage that was not begun yet counts with one task."""
    tracker, done, total = context.statusTracker(), 0, 0
    for number in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(number)
        for stage in job.stageIds if job else ():
            known = tracker.getStageInfo(stage)
            done += known.numCompletedTasks if known else 0
            total += known.numTasks if known else 1
    return done / total if total else 0.0
