"""Jobs of Spark that end: when their time is over, or when nobody waits for what they give."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.model import bounds
from headrace.model.errors import HeadraceError

LOOK_S = 0.5  # so often it is looked whether somebody waits, and whether a job has begun that is to end
GROUP, INTERRUPT = "spark.jobGroup.id", "spark.job.interruptOnCancel"


@contextmanager
def bounded(spark: SparkSession, seconds: float, end: float, still_wanted: Callable[[], bool]) -> Iterator[None]:
    """Jobs of the block, of this thread, end by ``end`` (``time.monotonic``). Raises ``query.timeout``, and
    ``query.canceled`` once they are not wanted any more.
    """
    group, over, ended = f"query {uuid.uuid4().hex}", threading.Event(), list[HeadraceError]()
    context = spark.sparkContext

    def watch() -> None:
        while not over.wait(min(LOOK_S, max(end - time.monotonic(), 0.01))):
            if time.monotonic() >= end:
                ended.append(bounds.timeout(seconds))
            elif not still_wanted():
                ended.append(HeadraceError("query.canceled", "the query was ended", why="who asked it has left"))
            if ended:
                try:
                    context.cancelJobGroup(group)  # again and again: the block may begin another job
                except (Py4JError, OSError):
                    return  # Spark has ended, and its jobs with it

    before = {name: context.getLocalProperty(name) for name in (GROUP, INTERRUPT)}
    watcher = threading.Thread(target=watch, name="headrace-bounded", daemon=True)
    context.setLocalProperty(GROUP, group)
    context.setLocalProperty(INTERRUPT, "true")
    watcher.start()
    try:
        yield
    except Exception as error:
        raise (ended[0] if ended else error) from None
    finally:
        over.set()
        watcher.join()
        for name, value in before.items():
            context.setLocalProperty(name, value)
