"""What joins circuits to the log: a step's changes of a relation, read inside the task. Light, as workers load it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from headrace.circuit.task import Step
from headrace.log.read import FrameRef, LogReader


class ReadLog:
    """Reads a step's range of the log inside a task; a reader is kept by path in each Python worker."""

    _readers: dict[str, LogReader] = {}

    def __call__(self, step: Step, relation: str) -> Iterator[pa.RecordBatch]:
        reader = self._readers.setdefault(step.log, LogReader(Path(step.log)))
        refs = [FrameRef(**ref) for ref in step.refs]
        return reader.read(refs, relation, step.after, step.upto)
