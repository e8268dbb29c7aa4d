"""What a Python stage knows of the step it runs in: its ranges, runs and feeds, read from the step's description.

The driver writes the description once a job and names it in a job-local property; tasks write their results under
names of their own, and only the driver makes them part of the state.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyspark import TaskContext

from headrace.formats.types.arrow import from_arrow, to_arrow
from headrace.state.phases import WRITE, timed
from headrace.state.reference import SUFFIX, Reference, write
from headrace.state.run import let_gone_go, write_run

PROPERTY = "headrace.step"


@dataclass(frozen=True, slots=True)
class Step:
    """The description of one job of a step.

    ``log``, ``refs``, ``after``, ``upto``: the range of commits; ``instants``: "one" (all transactions of the
    step form one instant) or "each"; ``runs``: live runs of each arrangement before the step, oldest first;
    ``feeds``: files with each relation's delta (or, when ``whole``, all of its contents); ``folder``: where
    tasks write. ``profiled``: whether they also write when they did what, see
    ``clocked``. ``bounded``: whether Spark bounds the bytes of each Arrow batch, see ``prepare``.
    """

    log: str
    refs: Sequence[Any]
    after: int
    upto: int
    instants: str
    runs: dict[str, list[str]]
    feeds: dict[str, list[str]]
    whole: bool
    folder: str
    profiled: bool = False
    bounded: bool = True

    def write(self, path: Path) -> None:
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(orjson.dumps({name: getattr(self, name) for name in self.__slots__}))
        temporary.rename(path)


_known: dict[str, Step] = {}


def current() -> Step:
    """The description of the step that this task belongs to."""
    path = _task().getLocalProperty(PROPERTY)
    assert path is not None, "a circuit ran outside a step"
    if path not in _known:
        _known.clear()
        let_gone_go()
        _known[path] = Step(**orjson.loads(Path(path).read_bytes()))
    return _known[path]


def _task() -> Any:
    task = TaskContext.get()
    assert task is not None, "a stage ran outside a task"
    return task


def partition() -> int:
    return int(_task().partitionId())


def attempt() -> int:
    """The id of this run of the task, one of its own in the whole session."""
    return int(_task().taskAttemptId())


def keep(step: Step, name: str, table: pa.Table) -> str:
    """Write a file of this task; its name tells what it is, the partition, the attempt and the rows."""
    file = f"{name}~{partition()}~{attempt()}~{table.num_rows}.arrow"
    path = Path(step.folder) / file
    write_run(path, table)
    return os.fspath(path)


@timed(WRITE)
def keep_reference(step: Step, name: str, reference: Reference) -> str:
    """As ``keep``, of rows that lie elsewhere."""
    path = Path(step.folder) / f"{name}~{partition()}~{attempt()}~{reference.rows}{SUFFIX}"
    write(path, reference)
    return os.fspath(path)


@timed(WRITE)
def keep_too(name: str, written: str) -> None:
    """What this task has written is a file of another name too, without a copy where the file system can do that."""
    path = Path(written).with_name("~".join([name, *Path(written).name.rsplit("~", 3)[1:]]))
    try:
        path.hardlink_to(written)
    except OSError:
        shutil.copyfile(written, path)


def gathered(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """All input of a stage as one table, or None when there is none."""
    kept = [batch for batch in batches if batch.num_rows]
    if not kept:
        return None
    table = pa.Table.from_batches(kept)
    return table.cast(plain(table.schema)).combine_chunks()


@lru_cache(maxsize=1024)
def plain(schema: pa.Schema) -> pa.Schema:
    """The schema with the hub's types, every field nullable: Spark's own differ in flags that forbid concatenation."""
    return pa.schema([(field.name, to_arrow(from_arrow(field.type))) for field in schema])


def batches(table: pa.Table) -> Iterable[pa.RecordBatch]:
    """A stage's output: one batch, or none when it has no rows."""
    yield from table.combine_chunks().to_batches()
