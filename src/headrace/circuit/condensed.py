"""Equal rows of a large step brought together before they are hashed, dealt out and grouped: one row, weights added.

Arrow's hash table does that at a few times the speed of hashing and sorting each row, and a window that hops or a
count leaves few rows. Where few are equal, which a first part of the rows tells, they pass as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa

from headrace.circuit.flow import Flow, Value, change, united
from headrace.circuit.task import gathered
from headrace.model.delivery import WEIGHT

TRIED = 1 << 16  # rows by which it is told whether condensing pays
FEW = 1 << 12  # rows that are not worth it
SHARE = 0.5  # of the rows, that may be left at most
# Types of which equal values have equal bits: no floats, nothing nested, no text with a collation.
EQUAL_BITS = re.compile(
    r"boolean|tinyint|smallint|int|bigint|date|timestamp|timestamp_ntz|string|binary|decimal\(\d+,\d+\)"
)


def condensed(flow: Flow, values: Sequence[Value]) -> Flow:
    """``values`` of the flow's rows with ``_w`` and ``_i``; equal rows of an instant may be brought together."""
    if flow.beside:
        return united([condensed(each, values) for each in flow.each])
    made = flow.select([*change(), *values])
    if not made.stages or not all(EQUAL_BITS.fullmatch(v.type) for v in values):
        return made
    return made.then(condense, made.columns)


def condense(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    given = (piece for piece in pieces if piece.num_rows)
    tried: list[pa.RecordBatch] = []
    while sum(piece.num_rows for piece in tried) < TRIED and (more := list(islice(given, 1))):
        tried += more
    first = gathered(tried)
    if first is None:
        return
    if first.num_rows < FEW or _added(first).num_rows > SHARE * first.num_rows:
        yield from chain(tried, given)
        return
    rest = gathered(chain(tried, given))
    assert rest is not None
    yield from _added(rest).to_batches()


def _added(table: pa.Table) -> pa.Table:
    """Each distinct row once, in the order in which they came."""
    names = [name for name in table.column_names if name != WEIGHT]
    summed = table.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    return summed.rename_columns([*names, WEIGHT]).select(table.column_names).combine_chunks()
