"""Rows dealt out over the tasks of a wide circuit by way of files that are mapped.

Spark's own exchange takes each row through the JVM and back, which is most of the time of a large step. Here a task
writes its rows as Arrow has them, those for one task side by side, and Spark exchanges but where they lie. What a task
is given comes in the order of the tasks that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.circuit.task import attempt, current, gathered, partition
from headrace.state.phases import WRITE, timed
from headrace.state.run import HASH

TASK, INPUT, FILE, BATCH = "task", "input", "file", "batch"
LIES = ((TASK, "int"), (INPUT, "int"), (FILE, "string"), (BATCH, "int"))
PREFIX = ".dealt~"
ROWS, BYTES = 1 << 18, 64 << 20  # that a task deals out at a time


class Deal:
    """A stage that writes its rows and gives ``LIES``: for which task, as rows of which ``input`` of several that it is
    given together, in which file, as which of its batches.

    A row goes to the task that owns its ``_h``, or to that in the column ``by`` where it has one there, or
    ``everywhere``. ``number``: of those that deal out for the same tasks, as Spark may run several in one task of its
    own, each in another process.
    """

    def __init__(
        self, tasks: int, input: int = 0, number: int = 0, by: str | None = None, *, everywhere: bool = False
    ) -> None:
        self.tasks, self.input, self.number, self.by, self.everywhere = tasks, input, number, by, everywhere

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = Path(current().folder) / f"{PREFIX}{partition():06}~{attempt()}~{self.number:06}.arrow"
        owners, writer = list[Sequence[int]](), None
        for rows in _portions(pieces):
            with _naming(path):
                writer = writer or pa.ipc.new_file(pa.OSFile(str(path), "wb"), rows.schema)
                owners += self.written(rows, writer)
        if writer is None:
            return
        with _naming(path):
            writer.close()
        lie = [(task, self.input, str(path), batch) for batch, tasks in enumerate(owners) for task in tasks]
        types = (pa.int32(), pa.int32(), pa.string(), pa.int32())
        columns = [pa.array(column, t) for column, t in zip(zip(*lie, strict=True), types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=[n for n, _ in LIES])

    @timed(WRITE)
    def written(self, rows: pa.Table, writer: pa.RecordBatchWriter) -> list[Sequence[int]]:
        """Write the rows in batches: which tasks each of them is for."""
        if self.everywhere:
            (batch,) = rows.combine_chunks().to_batches()
            writer.write_batch(batch)
            return [range(self.tasks)]
        owners = self.owners(rows)
        order = np.argsort(owners, kind="stable")
        owned = owners[order]
        firsts = np.flatnonzero(np.diff(owned, prepend=-1))
        (batch,) = rows.take(pa.array(order)).combine_chunks().to_batches()
        for first, end in zip(firsts, [*firsts[1:], len(owned)], strict=True):
            writer.write_batch(batch.slice(first, end - first))
        return [(int(task),) for task in owned[firsts]]

    def owners(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """The task of each row. Of hashes they are equal ranges of the 64-bit space."""
        hashes = rows[HASH].fill_null(0).to_numpy()
        upper = (hashes >> 32) + (1 << 31)
        owners = np.where(rows[HASH].is_valid().to_numpy(), (upper * self.tasks) >> 32, 0).astype(np.int32)
        if self.by is None:
            return owners
        told = rows[self.by]
        return np.where(told.is_valid().to_numpy(), told.fill_null(0).to_numpy(), owners).astype(np.int32)


class Dealt:
    """A stage that turns ``LIES`` into the rows that lie there, of one ``input`` or of all."""

    def __init__(self, input: int | None = None) -> None:
        self.input = input

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lie = sorted(
            (file, batch)
            for piece in pieces
            for input, file, batch in zip(*(piece[name].to_pylist() for name in (INPUT, FILE, BATCH)), strict=True)
            if self.input in (None, input)
        )
        for file, batches in groupby(lie, key=itemgetter(0)):
            reader = pa.ipc.open_file(pa.memory_map(file))  # its descriptor goes with it, the rows stay mapped
            for _, batch in batches:
                yield reader.get_batch(batch)


def discard(folder: Path) -> None:
    """Delete what was dealt out in a job's folder. What cannot be goes with the folder."""
    for path in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):
            path.unlink()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An ``OSError`` names the file, which Arrow's own does not: from a task only its text arrives."""
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)  # the space that it takes is what others wait for
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _portions(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held = list[pa.RecordBatch]()
    rows = size = 0
    for piece in pieces:
        most = min(ROWS, max(1, BYTES * piece.num_rows // max(1, piece.nbytes)))
        for first in range(0, piece.num_rows, most):
            held.append(part := piece.slice(first, most))
            rows, size = rows + part.num_rows, size + part.nbytes
            if (rows >= ROWS or size >= BYTES) and (table := gathered(held)) is not None:
                yield table
                held, rows, size = [], 0, 0
    if (table := gathered(held)) is not None:
        yield table
