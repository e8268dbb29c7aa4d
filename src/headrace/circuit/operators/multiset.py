"""d T: changes of a table without a key: each insert is +1 of its row, each delete -1, TRUNCATE - all it held.

A delete of a row that is not there would take its weight below zero: it is set aside for the quarantine, never
asserted. State: the table itself, arranged by the whole row; bounded by the table. Of a table that its source only adds
to, rows are kept as they come: nobody looks for one of them, and to hash and sort them is most of the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit.flow import INSTANT
from headrace.circuit.local import Local, materialized
from headrace.circuit.operators.changes import SEQUENCE
from headrace.circuit.operators.upsert import Contents, deletes
from headrace.circuit.task import batches, current, gathered, keep
from headrace.model.delivery import WEIGHT
from headrace.model.transaction import DELETE, OPERATION, TRUNCATE
from headrace.state.arrangement import Arrangement
from headrace.state.keys import key_order, lookup
from headrace.state.rows import consolidate
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import distinct_numbers, stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged


class Multiset(Contents):
    """Input ``_q``, ``_i``, ``_op``, ``_unchanged``, ``c0 ..``, maybe ``_h``; output ``c0 ..``, ``_w``, ``_i``.

    ``hashed``: how ``_h`` is made here, if that is possible: where the input does not have it, and of rows that were
    kept as they came. ``only_added``: that they are to be. ``as_it_came``: what was given last is to be kept too, by
    who writes it.
    """

    as_it_came = False

    def __init__(
        self, arranged: Arranged, types: tuple[str, ...], keys: tuple[int, ...], partitions: int, hashed: Local | None,
        *, only_added: bool,
    ) -> None:  # fmt: skip
        super().__init__(arranged, types, keys, partitions)
        self.hashed, self.only_added = hashed, only_added

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        changes = [piece for piece in pieces if piece.num_rows]
        self.as_it_came = self.only_added and not any(map(_take_away, changes))
        if self.as_it_came:
            yield from map(self.added, changes)
            return
        table = gathered(changes)
        if table is None:
            return
        truncates = (column(table, OPERATION) == TRUNCATE).any()
        table = self.with_hash(table)
        signed, refused = self.truncated(table) if truncates else self.possible(table, None)
        self.set_aside(refused)
        delta = signed.select([*self.names, WEIGHT, INSTANT])
        yield from batches(consolidate(delta) if (column(signed, WEIGHT) < 0).any() else delta)
        keep(current(), self.name, merge([signed.select([HASH, WEIGHT, *self.names])]))

    def added(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        ones = pa.array(np.ones(changes.num_rows, np.int64))
        return changes.select(self.names).append_column(WEIGHT, ones).append_column(INSTANT, changes[INSTANT])

    def with_hash(self, table: pa.Table) -> pa.Table:
        if HASH in table.column_names:
            return table
        assert self.hashed is not None
        return table.append_column(HASH, materialized(self.hashed.evaluate(table), table.num_rows))

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Kept rows that are as they came."""
        rows = self.with_hash(rows).select(self.empty.names)
        return rows.take(pa.array(stable_order(column(rows, HASH))))

    def arrangement(self) -> Arrangement:
        paths = current().runs.get(self.name, [])
        return Arrangement(paths, self.reader, None if self.hashed is None else self.sorted)

    def truncated(self, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Each TRUNCATE as deletes of every copy of every row that was there, kept or come earlier in the step.

        What lies between two of them is looked at by itself: a delete that finds no row counts for nothing.
        """
        operations, sequences = column(table, OPERATION), column(table, SEQUENCE)
        rows = table.filter(pa.array(operations != TRUNCATE))
        live, before = self.all_kept(table), -1
        taken, refused = [], []
        for at in [n for n in np.argsort(sequences, kind="stable") if operations[n] == TRUNCATE]:
            accepted, impossible = self.possible(_between(rows, before, sequences[at]), live)
            there = consolidate(pa.concat_tables([live, accepted.select(live.column_names).cast(live.schema)]))
            copies = np.repeat(np.arange(there.num_rows), column(there, WEIGHT))
            made = {SEQUENCE: sequences[at], INSTANT: column(table, INSTANT)[at], OPERATION: DELETE, WEIGHT: -1}
            taken += [accepted, deletes(there.drop_columns([WEIGHT]).take(pa.array(copies)), accepted.schema, made)]
            refused.append(impossible)
            live, before = live.slice(0, 0), sequences[at]
        accepted, impossible = self.possible(_between(rows, before, None), live)
        return pa.concat_tables([*taken, accepted]), pa.concat_tables([*refused, impossible])

    def possible(self, table: pa.Table, live: pa.Table | None) -> tuple[pa.Table, pa.Table]:
        """The changes with their weights, without those deletes that would take a row below zero; and these.

        ``live``: the rows there are before; None for what is kept.
        """
        weights = np.where(column(table, OPERATION) == DELETE, -1, 1).astype(np.int64)
        if not (weights < 0).any():
            return table.append_column(WEIGHT, pa.array(weights)), table.slice(0, 0)
        order, new = key_order(table, self.names, [column(table, SEQUENCE)])
        table, weights = table.take(pa.array(order)), weights[order]
        firsts = np.flatnonzero(new)
        rows = table.select([HASH, *self.names]).take(pa.array(firsts))
        if live is None:
            hashes = distinct_numbers(column(rows, HASH))
            live = self.arrangement().probe(hashes, self.empty.names, self.empty).rows
        kept = consolidate(live)
        kept = kept.take(pa.array(stable_order(column(kept, HASH))))
        found = lookup(rows, kept, self.names)
        start = np.where(found >= 0, column(kept, WEIGHT)[found] if kept.num_rows else 0, 0)
        refused = _below_zero(start, weights, firsts)
        signed = table.append_column(WEIGHT, pa.array(weights))
        return signed.filter(pa.array(~refused)), table.filter(pa.array(refused))


def _take_away(changes: pa.RecordBatch) -> bool:
    """Whether some of the changes are not rows that come."""
    operations = changes[OPERATION].to_numpy()
    return bool(((operations == TRUNCATE) | (operations == DELETE)).any())


def _between(rows: pa.Table, after: int, before: int | None) -> pa.Table:
    """The changes with a sequence number between the two."""
    sequences = column(rows, SEQUENCE)
    inside = sequences > after if before is None else (sequences > after) & (sequences < before)
    return rows.filter(pa.array(inside))


def _below_zero(start: np.ndarray, weights: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Which deletes find no copy of their row, given the copies before and the changes in order.

    A running count that stops at zero: the refused are where the lowest point so far below zero gets lower.
    """
    segment = np.repeat(np.arange(len(firsts)), np.diff(np.r_[firsts, len(weights)]))
    total = np.cumsum(weights)
    balance = start[segment] + total - (total[firsts] - weights[firsts])[segment]
    # Offsets grow with the segment, so that one running minimum over all serves each segment apart.
    span = 2 * (len(weights) + int(start.max(initial=0)) + 1)
    lowest = np.minimum.accumulate(np.minimum(balance, 0) - segment * span)
    previous = np.r_[0, lowest[:-1]]
    previous[firsts] = -np.arange(len(firsts)) * span
    refused: np.ndarray = lowest < previous
    return refused
