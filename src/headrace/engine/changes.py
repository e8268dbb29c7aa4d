"""What joins circuits to the log: a step's changes of a relation, read inside the task. Light, as workers load it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from headrace.circuit.task import Step
from headrace.log.read import FrameRef, LogReader
from headrace.state.reference import Piece


class ReadLog:
    """Reads a step's range of the log inside a task; a reader is kept by path in each Python worker."""

    _readers: dict[str, LogReader] = {}

    def __call__(self, step: Step, relation: str) -> Iterator[pa.RecordBatch]:
        return self.reader(step).read(self.refs(step), relation, step.after, step.upto)

    def pieces(self, step: Step, relation: str) -> list[Piece] | None:
        """Where these changes lie, as seen from the step's folder; None where other changes lie there too."""
        places = self.reader(step).places(self.refs(step), relation, step.after, step.upto)
        if places is None:
            return None
        log = os.path.relpath(step.log, step.folder)
        return [Piece(f"{log}/{p.segment}", p.offset, p.length, p.crc) for p in places]

    def reader(self, step: Step) -> LogReader:
        return self._readers.setdefault(step.log, LogReader(Path(step.log)))

    def refs(self, step: Step) -> list[FrameRef]:
        return [FrameRef(**ref) for ref in step.refs]
