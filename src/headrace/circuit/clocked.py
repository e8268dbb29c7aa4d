"""When the stages of a profiled step did what, and which of Spark's jobs were its own.

A step that is profiled says so in its description; the plan is the same. Each Python stage then leaves a file in the
step's folder, and the driver takes it up when the job has ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from headrace.circuit.task import attempt, current
from headrace.state.phases import ARROW, OPERATORS, PROBE, SPARK, phase, recorder, recording
from headrace.state.reads import READS

FILES = "spans~"
GROUP = "spark.jobGroup.id"


@contextmanager
def clocked() -> Iterator[bool]:
    """Around a stage's work: its phases, written down where the step asks for them. Gives whether it does."""
    step = current()
    if not step.profiled:
        yield False
        return
    before = READS.total()
    with recording(OPERATORS) as made:
        yield True
    made.rows[PROBE] += READS.total() - before
    name = f"{FILES}{os.getpid()}~{os.urandom(6).hex()}"
    (Path(step.folder) / name).write_bytes(orjson.dumps((attempt(), made.spans, made.rows)))


def handed(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same pieces; the time until the next one is asked for is that of handing them over."""
    for piece in pieces:
        with phase(ARROW):
            yield piece


@contextmanager
def spark_job(context: Any, folder: Path) -> Iterator[None]:
    """Around a run of Spark whose stages write into ``folder``; ``context``: the SparkContext."""
    known = recorder()
    if known is None:
        yield
        return
    group = f"{folder.name}/{os.urandom(6).hex()}"
    context.setLocalProperty(GROUP, group)
    try:
        with phase(SPARK):
            yield
    finally:
        context.setLocalProperty(GROUP, None)
        known.jobs.append(group)
        for path in folder.glob(f"{FILES}*"):
            task, spans, rows = orjson.loads(path.read_bytes())
            known.stages.append((task, [(name, since, upto) for name, since, upto in spans], rows))
            path.unlink()
