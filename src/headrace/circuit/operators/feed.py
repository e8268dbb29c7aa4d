"""dA: a relation's delta in this step, or all its contents when a view starts over existing rows. No state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, fields
from headrace.circuit.task import batches, current, partition
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.narrow import widened
from headrace.state.rows import row_codes
from headrace.state.run import open_run, stored_run

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

ASIDE = "aside:"  # rows that a leaf leaves out are named after it, among a step's runs
ALL = "*"  # the last part of a relation's name that stands for all levels of a recursive query


class ReadFeed:
    """Reads some columns of the relation's files of this step; task p of n takes the p-th part of the rows."""

    def __init__(
        self, relation: str, ordinals: tuple[int, ...], types: tuple[str, ...], partitions: int, without: str = ""
    ) -> None:
        self.relation, self.ordinals, self.types, self.partitions = relation, ordinals, types, partitions
        self.without = without

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        step, part = current(), partition() % self.partitions
        left_out = [open_run(path) for path in step.runs.get(ASIDE + self.without, ())] if self.without else []
        for rows in left_out:
            if part == 0:
                yield from batches(self.renamed(rows.filter(pc.not_equal(rows[WEIGHT], 0))))
        for path in self.paths(step.feeds):
            table = stored_run(path)
            first = table.num_rows * part // self.partitions
            last = table.num_rows * (part + 1) // self.partitions
            if first < last:
                rows = table.slice(first, last - first)
                for others in left_out:
                    rows = lacking(widened(rows), others)
                yield from batches(self.renamed(rows, whole=step.whole))

    def paths(self, feeds: Mapping[str, Sequence[str]]) -> list[str]:
        loop, _, last = self.relation.rpartition(":")
        if last != ALL:
            return list(feeds.get(self.relation, ()))
        return [path for name in sorted(feeds) if name.startswith(f"{loop}:") for path in feeds[name]]

    def renamed(self, table: pa.Table, *, whole: bool = False) -> pa.Table:
        """``whole``: the instants are those of the steps in which the rows came."""
        told = INSTANT in table.column_names and not whole
        table = widened(table.select([*{f"c{o}": None for o in self.ordinals}, WEIGHT, *([INSTANT] if told else [])]))
        columns = [table[f"c{o}"].cast(to_arrow(t)) for o, t in zip(self.ordinals, self.types, strict=True)]
        instants = table[INSTANT] if told else pa.array(np.ones(table.num_rows, np.int32))
        names = [f"c{i}" for i in range(len(columns))]
        return pa.table([*columns, table[WEIGHT], instants], names=[*names, WEIGHT, INSTANT])


def lacking(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows that are none of ``others``, compared by all of its columns ``c0 ..``."""
    names = [name for name in others.column_names if name.startswith("c")]
    both = [pa.chunked_array([*others[n].chunks, *rows[n].cast(others[n].type).chunks]) for n in names]
    codes, count = row_codes(both), others.num_rows
    return rows.filter(pa.array(~np.isin(codes[count:], codes[:count])))


def delta(builder: Builder, this: node.Feed) -> Flow:

    stage = ReadFeed(this.relation, this.ordinals, this.types, builder.shape.partitions, this.without)
    return builder.made(stage, (*fields(this), *CHANGE))
