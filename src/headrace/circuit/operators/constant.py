"""d C = C at a view's first step, nothing after it: VALUES, range(), a SELECT without FROM. No state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, OUTPUT_ROWS, Flow, fields
from headrace.circuit.task import current, partition
from headrace.model.delivery import WEIGHT

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


class ConstantRows:
    """Output ``c0 ..``, ``_w``, ``_i``; task p of n makes the p-th part of the rows.

    ``width``: how many of a table's columns there are; it may have another, which gives it its length.
    """

    def __init__(self, rows: pa.Table | range, width: int, partitions: int) -> None:
        self.rows, self.width, self.partitions = rows, width, partitions

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        if not current().whole:
            return
        part, count = partition() % self.partitions, len(self.rows)
        first, last = count * part // self.partitions, count * (part + 1) // self.partitions
        for start in range(first, last, OUTPUT_ROWS):
            yield self.piece(start, min(start + OUTPUT_ROWS, last))

    def piece(self, start: int, end: int) -> pa.RecordBatch:
        if isinstance(self.rows, range):
            numbers = self.rows[start:end]
            columns = [pa.array(np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64))]
        else:
            columns = [c.combine_chunks() for c in self.rows.slice(start, end - start).columns[: self.width]]
        change = [pa.array(np.ones(end - start, np.int64)), pa.array(np.ones(end - start, np.int32))]
        names = [*[f"c{i}" for i in range(len(columns))], WEIGHT, INSTANT]
        return pa.RecordBatch.from_arrays([*columns, *change], names=names)


def delta(builder: Builder, this: node.Constant) -> Flow:
    return builder.made(ConstantRows(this.rows, len(this.types), builder.shape.partitions), (*fields(this), *CHANGE))
