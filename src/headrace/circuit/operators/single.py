"""d S = -(the value shown before) +(the value after), for a subquery used as a value: its only row, NULL for none.

Several rows at an instant are an error, as in Spark. State: the row shown and whether it is the subquery's own; one
row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, change, fields, kept
from headrace.circuit.hashing import group_hash
from headrace.circuit.operators.matches import several_rows
from headrace.circuit.task import batches, current, gathered, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.rows import consolidate, difference
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import distinct_numbers

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

OWN = "own"  # boolean: whether the row shown is the subquery's own, not the NULL that stands for none


class OnlyRow:
    """Input ``_h`` (0), ``_w``, ``_i``, ``c0 ..``; output ``c0 ..``, ``_w``, ``_i``."""

    def __init__(self, arranged: Arranged, types: tuple[str, ...], partitions: int) -> None:
        self.arranged, self.partitions = arranged, partitions
        self.names = [f"c{i}" for i in range(len(types))]
        self.schema = pa.schema([*zip(self.names, map(to_arrow, types), strict=True), (WEIGHT, pa.int64())])

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        shown, rows = self.before()
        if table is None and (shown is not None or self.partitions > 1):  # of several tasks another has the row
            return
        instants = np.ones(1, np.int32) if table is None else distinct_numbers(column(table, INSTANT))
        first = shown
        for instant in instants:
            if table is not None:
                now = table.filter(pa.array(column(table, INSTANT) == instant)).select(self.schema.names)
                rows = consolidate(pa.concat_tables([rows, now.cast(self.schema)]))
            after = self.value(rows)
            yield from self.changed(shown, after, int(instant))
            shown = after
        assert shown is not None
        if self.arranged.owned:
            self.write(first, shown, rows.num_rows > 0)

    def before(self) -> tuple[pa.Table | None, pa.Table]:
        """(the row shown, None before the first step; the subquery's rows)."""
        tables = self.kept()
        if not tables:
            return None, self.schema.empty_table()
        kept = merge(tables)
        own = kept.filter(kept[OWN])
        return kept.select(self.schema.names).cast(self.schema), own.select(self.schema.names).cast(self.schema)

    def kept(self) -> list[pa.Table]:
        return Arrangement(current().runs.get(self.arranged.name, []), self.arranged.reader).all()

    def value(self, rows: pa.Table) -> pa.Table:
        """The row to show. Raises ``ArithmeticError`` where there are several."""
        if column(rows, WEIGHT).sum() > 1:
            raise several_rows()
        if rows.num_rows:
            return rows
        return pa.table(
            [*[pa.nulls(1, f.type) for f in self.schema][:-1], pa.array([1], pa.int64())], schema=self.schema
        )

    def changed(self, before: pa.Table | None, after: pa.Table, instant: int) -> Iterator[pa.RecordBatch]:
        rows = after if before is None else difference(after, before)
        yield from batches(rows.append_column(INSTANT, pa.array(np.full(rows.num_rows, instant, np.int32))))

    def write(self, before: pa.Table | None, after: pa.Table, own: bool) -> None:
        run = self.stored(after, own)
        if before is not None:
            gone = merge(self.kept())
            run = difference(run, gone.select(run.column_names).cast(run.schema))
        if run.num_rows:
            keep(current(), self.arranged.name, run)

    def stored(self, row: pa.Table, own: bool) -> pa.Table:
        head = {HASH: pa.array([0], pa.int64()), WEIGHT: row[WEIGHT], OWN: pa.array([own])}
        return pa.table({**head, **{name: row[name] for name in self.names}})


def delta(builder: Builder, this: node.Single) -> Flow:

    columns = [kept(n, t) for n, t in fields(this)]
    changed = builder.gather_all(builder.delta(this.child).select([group_hash([]), *change(), *columns]))
    arranged = builder.claim(hashlib.blake2b(f"single:{this.fingerprint}".encode(), digest_size=12).hexdigest())
    return changed.then(OnlyRow(arranged, this.types, builder.shape.partitions), [*fields(this), *CHANGE])
