"""d T: keyed changes become full rows: for each touched key, -(its row before) +(its row after), per instant.

The first operator on every table with a key. An update or delete may carry the key alone, an unchanged value
nothing; the table's contents, arranged by key, have the rest. An insert of a key that exists replaces its row;
a delete of one that does not is without effect; where the change is strict, both are set aside instead.
State: the table itself. Work: the touched keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit.flow import INSTANT
from headrace.circuit.operators.changes import BUCKET, SEQUENCE
from headrace.circuit.task import batches, current, gathered, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.model.transaction import DELETE, INSERT, OPERATION, STRICT, TRUNCATE, UNCHANGED, UPDATE
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct, key_order, lookup, newest, same
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged


REFUSED = "refused:"  # files of rows set aside are named after their table


class Contents:
    """What both kinds of table do alike: their kept contents, and TRUNCATE. ``keys`` are ordinals of columns."""

    def __init__(self, arranged: Arranged, types: tuple[str, ...], keys: tuple[int, ...], partitions: int) -> None:
        self.name, self.reader = arranged.name, arranged.reader
        self.types, self.partitions = [to_arrow(t) for t in types], partitions
        self.names = [f"c{i}" for i in range(len(types))]
        self.keys = [f"c{i}" for i in keys]
        self.empty = pa.schema(
            list(zip([HASH, WEIGHT, *self.names], [pa.int64(), pa.int64(), *self.types], strict=True))
        )

    def truncated(self, table: pa.Table) -> pa.Table:
        """Each TRUNCATE as deletes of every key that the table holds or was given earlier in the step."""
        operations = column(table, OPERATION)
        live = self.all_kept(table).select([HASH, *self.keys])
        rows = table.filter(pa.array(operations != TRUNCATE))
        parts = [rows]
        for at in np.flatnonzero(operations == TRUNCATE):
            sequence, instant = column(table, SEQUENCE)[at], column(table, INSTANT)[at]
            earlier = rows.filter(pa.array(column(rows, SEQUENCE) < sequence)).select(live.column_names)
            keys = pa.concat_tables([live, earlier.cast(live.schema)])
            made = {SEQUENCE: sequence, INSTANT: instant, OPERATION: DELETE}
            parts.append(deletes(keys, rows.schema, made))
        return pa.concat_tables(parts)

    def all_kept(self, given: pa.Table) -> pa.Table:
        """The whole table, as far as this task's part of the hash space goes; a TRUNCATE is among the ``given``."""
        tables = self.arrangement().all()
        if not tables:
            return self.empty.empty_table()
        rows = merge(tables)
        if self.partitions == 1:
            return rows
        # Its copy tells the part: a task's number depends on what else the job does.
        part = given.filter(pa.array(column(given, OPERATION) == TRUNCATE))[BUCKET][0].as_py()
        upper = (column(rows, HASH) >> 32) + (1 << 31)
        return rows.filter(pa.array((upper * self.partitions) >> 32 == part))

    def set_aside(self, changes: pa.Table) -> None:
        """Changes that the table cannot take, for the quarantine: ``_q``, ``_op``, ``_unchanged``, ``c0 ..``."""
        if changes.num_rows:
            names = [SEQUENCE, OPERATION, UNCHANGED, *self.names]
            keep(current(), REFUSED + self.name, changes.select(names))

    def arrangement(self) -> Arrangement:
        """The table before this step."""
        return Arrangement(current().runs.get(self.name, []), self.reader)


def deletes(keys: pa.Table, schema: pa.Schema, made: dict[str, int]) -> pa.Table:
    """Changes of that schema which delete ``keys``; ``made`` gives the other columns' values, the rest is null."""
    columns = []
    for field in schema:
        if field.name in made:
            columns.append(pa.array(np.full(keys.num_rows, made[field.name]), field.type))
        elif field.name in keys.column_names:
            columns.append(keys[field.name])
        else:
            columns.append(pa.nulls(keys.num_rows, field.type))
    return pa.table(columns, schema=schema)


class Upsert(Contents):
    """Input ``_h``, ``_q`` (order), ``_i``, ``_op``, ``_unchanged``, ``c0 ..``; output ``c0 ..``, ``_w``, ``_i``."""

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        if (column(table, OPERATION) == TRUNCATE).any():
            table = self.truncated(table)
        order, new = key_order(table, self.keys, [column(table, SEQUENCE)])
        table = table.take(pa.array(order)).combine_chunks()
        if table.num_rows == 0:
            return
        firsts = np.flatnonzero(new)
        kept = self.kept(distinct(column(table, HASH)))
        found = lookup(table.select([HASH, *self.keys]).take(pa.array(firsts)), kept, self.keys)
        if (column(table, OPERATION) & STRICT).any():
            table, new, found = self.without_conflicts(table, new, found)
            if table.num_rows == 0:
                return
        table = self.completed(table, new, found, kept)
        if not len(kept) and new.all() and (column(table, OPERATION) != DELETE).all():
            yield from self.all_new(table)
            return
        # The last change of a key in an instant is its image there.
        instants = column(table, INSTANT)
        last = np.r_[new[1:] | (instants[1:] != instants[:-1]), True]
        images = table.filter(pa.array(last))
        of_key = (np.cumsum(new) - 1)[last]
        exists = column(images, OPERATION) != DELETE
        is_first = np.r_[True, of_key[1:] != of_key[:-1]]
        before = np.where(is_first, found[of_key], len(kept) + np.arange(len(of_key)) - 1)
        existed = np.where(is_first, found[of_key] >= 0, np.r_[False, exists[:-1]])
        rows = pa.concat_tables([kept.select(self.names), images.select(self.names)]).combine_chunks()
        after = len(kept) + np.arange(len(of_key))
        old, new_rows = rows.take(pa.array(np.where(existed, before, 0))), rows.take(pa.array(after))
        changed = ~(existed & exists & same(old.columns, new_rows.columns, len(of_key)))
        yield from batches(self.signed(old, existed & changed, -1, column(images, INSTANT)))
        yield from batches(self.signed(new_rows, exists & changed, 1, column(images, INSTANT)))
        self.write(kept, found, images, np.r_[is_first[1:], True], exists)

    def all_new(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Keys that were not there, each with one change: their rows are both the delta and what is kept."""
        rows = table.select(self.names).append_column(WEIGHT, pa.array(np.ones(table.num_rows, np.int64)))
        yield from batches(rows.append_column(INSTANT, table[INSTANT]))
        keep(current(), self.name, rows.append_column(HASH, table[HASH]).select(self.empty.names).cast(self.empty))

    def without_conflicts(
        self, table: pa.Table, new: np.ndarray, found: np.ndarray
    ) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """The changes in order of key without those that are set aside; first of its key; its kept row, by key."""
        codes, of_key = column(table, OPERATION), np.cumsum(new) - 1
        operations, strict = codes & (STRICT - 1), (codes & STRICT) != 0
        # Whether the key is there before a change: as the changes before it in the step left it, else as kept. What
        # is set aside leaves it as the change itself would: only a strict update tells nothing.
        settled = np.where(strict & (operations == UPDATE), -1, np.arange(len(codes)))
        last = np.r_[-1, np.maximum.accumulate(settled)[:-1]]
        inside = last >= np.flatnonzero(new)[of_key]
        there = np.where(inside, operations[last] != DELETE, found[of_key] >= 0)
        conflicts = strict & (there == (operations == INSERT))
        self.set_aside(table.filter(pa.array(conflicts)))
        left, of_key = table.filter(pa.array(~conflicts)), of_key[~conflicts]
        at = left.column_names.index(OPERATION)
        left = left.set_column(at, OPERATION, pa.array(operations[~conflicts]))
        firsts = np.r_[True, of_key[1:] != of_key[:-1]][: len(of_key)]
        return left.combine_chunks(), firsts, found[of_key[firsts]]

    def signed(self, rows: pa.Table, chosen: np.ndarray, weight: int, instants: np.ndarray) -> pa.Table:
        part = rows.filter(pa.array(chosen))
        part = part.append_column(WEIGHT, pa.array(np.full(part.num_rows, weight, np.int64)))
        return part.append_column(INSTANT, pa.array(instants[chosen]))

    def kept(self, hashes: np.ndarray) -> pa.Table:
        """Live rows of the table with these hashes, sorted by hash."""
        return newest(self.arrangement().probe(hashes, self.empty.names, self.empty), self.keys)

    def completed(self, table: pa.Table, new: np.ndarray, found: np.ndarray, kept: pa.Table) -> pa.Table:
        """Values that a change left out, filled from the key's image before it, in this step or kept."""
        marks = table[UNCHANGED]
        if marks.null_count == table.num_rows:
            return table
        with_marks = np.flatnonzero(marks.is_valid().to_numpy())
        width = (len(self.names) + 7) // 8
        bits = np.zeros((table.num_rows, width * 8), bool)
        packed = b"".join(m[:width].ljust(width, b"\0") for m in marks.take(pa.array(with_marks)).to_pylist())
        rows = np.frombuffer(packed, np.uint8).reshape(-1, width)
        bits[with_marks] = np.unpackbits(rows, axis=1, bitorder="little").astype(bool)
        firsts = np.flatnonzero(new)
        start = np.repeat(firsts, np.diff(np.r_[firsts, table.num_rows]))
        of_key = np.cumsum(new) - 1
        for i, name in enumerate(self.names):
            if not bits[:, i].any():
                continue
            known = np.where(~bits[:, i], np.arange(table.num_rows), -1)
            source = np.maximum.accumulate(known)
            in_step = source >= start
            both = pa.concat_arrays([table[name].combine_chunks(), kept[name].combine_chunks().cast(table[name].type)])
            from_kept = found[of_key]
            index = np.where(in_step, source, table.num_rows + from_kept)
            column_now = both.take(pa.array(index, mask=~in_step & (from_kept < 0)))
            table = table.set_column(table.column_names.index(name), name, column_now)
        return table

    def write(self, kept: pa.Table, found: np.ndarray, images: pa.Table, final: np.ndarray, exists: np.ndarray) -> None:
        """The step's run: the row each touched key had goes, the one it has now comes."""
        gone = kept.take(pa.array(found[found >= 0]))
        come = images.select([HASH, *self.names]).filter(pa.array(final & exists))
        order = [HASH, WEIGHT, *self.names]
        parts = []
        for rows, weight in ((gone.select([HASH, *self.names]), -1), (come, 1)):
            weights = pa.array(np.full(rows.num_rows, weight, np.int64))
            parts.append(rows.append_column(WEIGHT, weights).select(order))
        run = pa.concat_tables([parts[0], parts[1].cast(parts[0].schema)])
        keep(current(), self.name, run.take(pa.array(stable_order(column(run, HASH)))))
