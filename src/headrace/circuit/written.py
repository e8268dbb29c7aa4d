"""What a task says it wrote: one row of text, however many files there are, as each value that the driver takes from
the JVM is a call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson
import pyarrow as pa

COLUMNS: tuple[tuple[str, str], ...] = (("written", "string"),)


@dataclass(frozen=True, slots=True)
class Written:
    """A file of a circuit's delta, with its rows and ``headrace.state.run.checksums``."""

    circuit: str
    path: str
    rows: int
    sums: str


def told(files: Iterable[Written]) -> pa.RecordBatch:
    """The row that tells of some files."""
    return pa.record_batch([[orjson.dumps([*files]).decode()]], names=[name for name, _ in COLUMNS])


def read(text: str | bytes) -> list[Written]:
    """The files that a row's text tells of."""
    return [Written(**file) for file in orjson.loads(text)]


def files_of(batch: pa.RecordBatch) -> list[Written]:
    """The files that a batch tells of."""
    return [file for text in batch.column(0).to_pylist() for file in read(text)]
