"""Ordered runs: Arrow files of weighted rows sorted by key hash, then place in an order, then a hash of the row.

Columns of a run, beside those of its contents:
``_h`` int64   key hash
``_w`` int64   weight, never 0
``_o``         place in the order (``Order.type``): uint64, or bytes that compare as the rows do
``_t`` uint64  hash of the contents, by which rows of one place are told apart and follow each other in every run
``_cw`` int64  sum of ``_w`` from the run's first row to this one
``_s..`` int64  what the caller adds up, if anything: running sums from the run's first row to this one; a run has those
               it needs, what it lacks is 0

Hashes only route: rows of one key lie together within their hash, so that looking at the first and last row of a
hash tells whether another key is among them.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.delivery import WEIGHT
from headrace.state.keys import same
from headrace.state.order import Order, encode
from headrace.state.places import Flags, Places, Rows, Words, less
from headrace.state.reads import READS
from headrace.state.row_hash import row_hashes
from headrace.state.rows import canonical, one_array, row_codes
from headrace.state.run import HASH, column, write_run
from headrace.state.sorting import distinct_numbers, lexical_order

PLACE = "_o"
TIE = "_t"
UPTO = "_cw"
_KEPT = (HASH, WEIGHT, PLACE, TIE)
SUMMED = "_s"  # how the names of columns that are added up begin
_MARK = b"headrace.ordered"  # schema metadata of an ordered run: its key
_LARGEST = 1 << 30  # rows of one run over which numbers of 32 bits can be added up
_FEW = 16  # bounds up to which searching one by one is faster


@dataclass(frozen=True)
class Layout:
    """What the runs of one ordered arrangement hold.

    ``content``: names (not beginning with ``_``) and types of the columns of a row. ``keys``: those that make the
    key, in a form in which keys that are equal in SQL are equal here as ``encode`` sees it; none when the hash alone
    says what belongs together.
    """

    content: pa.Schema
    order: Order
    keys: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """What ``arrange`` takes, in any order of columns: ``_h``, ``_w``, ``_o`` and the contents.

        And columns ``_s..`` (int64, within +-2^32) to be added up: what a row adds, its weight taken into account.
        """
        fixed = [pa.field(HASH, pa.int64()), pa.field(WEIGHT, pa.int64()), pa.field(PLACE, self.order.type)]
        return pa.schema([*fixed, *self.content])


def arrange(table: pa.Table, layout: Layout) -> pa.Table:
    """The rows as a run: sorted, equal rows added up, weights of 0 dropped, with all columns of a run.

    Raises ``TypeError`` when a column has another type than the layout says, ``OverflowError`` when sums are kept
    over more than 2^30 rows.
    """
    wanted = layout.schema
    rows = table.select(wanted.names)
    if rows.schema.types != wanted.types:
        raise TypeError(f"rows of types {rows.schema.types} for an arrangement of {wanted.types}")
    contents = [canonical(rows[name]) for name in layout.content.names]
    arrays = [one_array(rows[name]) for name in wanted.names[:3]]
    hashes = pa.array(row_hashes(contents, rows.num_rows))
    whole = pa.table([*arrays, hashes, *contents], names=[*_KEPT, *layout.content.names])
    for name in summed(table):
        whole = whole.append_column(name, table[name])
    return _finished(whole, layout.keys)


def write_ordered(path: Path, table: pa.Table, layout: Layout) -> int:
    """Write the rows as a run (see ``arrange``), all of it or nothing; returns the rows of the run."""
    run = arrange(table, layout)
    write_run(path, run)
    return int(run.num_rows)


def merge_ordered(tables: Sequence[pa.Table]) -> pa.Table:
    """One run of several runs of one arrangement: equal rows added up, weights of 0 dropped."""
    keys = json.loads(tables[0].schema.metadata[_MARK])
    names = [*_KEPT, *_content(tables[0])]
    added = list(dict.fromkeys(name for table in tables for name in summed(table)))
    rows = pa.concat_tables([_with_added(table.select(names), table, added) for table in tables])
    return _finished(rows, keys, merged=True)


def _with_added(rows: pa.Table, run: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows of a run with what each of them adds."""
    rows = rows.replace_schema_metadata(None)
    for name in names:
        there = name in run.column_names
        added = np.diff(column(run, name), prepend=0) if there else np.zeros(run.num_rows, np.int64)
        rows = rows.append_column(name, pa.array(added))
    return rows


def is_ordered(table: pa.Table) -> bool:
    return _MARK in (table.schema.metadata or {})


def summed(table: pa.Table) -> list[str]:
    """The columns that are added up."""
    return [name for name in table.column_names if name.startswith(SUMMED)]


def _content(run: pa.Table) -> list[str]:
    return [name for name in run.column_names if not name.startswith("_")]


def _finished(table: pa.Table, keys: Sequence[str], *, merged: bool = False) -> pa.Table:
    """``merged``: the rows are those of a few runs, one after the other."""
    table = table.combine_chunks()
    rows, first = _sorted(table, keys, merged)
    starts = np.flatnonzero(first)
    weights = column(table, WEIGHT)[rows]
    added = np.add.reduceat(weights, starts) if len(starts) else weights
    live = added != 0
    kept = table.take(pa.array(rows[starts[live]])).combine_chunks()
    weights = added[live]
    arrays = {name: kept[name] for name in kept.column_names} | {WEIGHT: pa.array(weights)}
    arrays[UPTO] = pa.array(np.cumsum(weights))
    for name in summed(table):
        if len(live) > _LARGEST:
            raise OverflowError(f"sums over more than {_LARGEST} rows in one run")
        values = np.add.reduceat(column(table, name)[rows], starts)[live] if len(starts) else weights
        arrays[name] = pa.array(np.cumsum(values))
    return pa.table(arrays).replace_schema_metadata({_MARK: json.dumps(list(keys)).encode()})


def _sorted(table: pa.Table, keys: Sequence[str], merged: bool) -> tuple[Rows, Flags]:
    """The order of the rows of a run, and where in it a row begins that is not equal to the one before."""
    words = [column(table, HASH), *Places(one_array(table[PLACE])).sort_keys(), column(table, TIE)]
    rows, first, hashes = _ordered(words, merged)
    inside = np.flatnonzero(~hashes)
    if not _equal_neighbours(table, keys, rows, inside):
        codes = row_codes([encode([table[key] for key in keys], [False] * len(keys), [False] * len(keys))])
        words.insert(1, codes)
        rows, first, _ = _ordered(words, merged)
    repeated = np.flatnonzero(~first)
    if not _equal_neighbours(table, _content(table), rows, repeated):
        tied = distinct_numbers(np.r_[repeated, repeated - 1])
        codes = np.zeros(len(rows), np.int64)
        codes[rows[tied]] = row_codes([table[name].take(pa.array(rows[tied])) for name in _content(table)])
        rows, first, _ = _ordered([*words, codes], merged)
    return rows, first


def _ordered(words: Sequence[npt.NDArray[Any]], merged: bool) -> tuple[Rows, Flags, Flags]:
    """The order by some numbers, where they change, and where the first of them changes."""
    rows = _merged_order(words) if merged else lexical_order(words)
    changes = np.zeros((2, len(rows)), np.bool_)
    changes[:, :1] = True
    for number, word in enumerate(words):
        placed = word[rows]
        changes[min(number, 1), 1:] |= placed[1:] != placed[:-1]
    return rows, changes[0] | changes[1], changes[0]


def _merged_order(words: Sequence[npt.NDArray[Any]]) -> Rows:
    """``np.lexsort`` of rows that come in order but for a few places: of all numbers as one string of bytes, by which
    numpy's stable sort, timsort, finds what is in order already."""
    whole = np.empty((len(words[0]), len(words)), ">u8")
    for number, word in enumerate(words):
        whole[:, number] = word.view(np.uint64) ^ np.uint64(1 << 63) if word.dtype == np.int64 else word
    return np.argsort(whole.view(f"S{8 * len(words)}").ravel(), kind="stable")


def _equal_neighbours(table: pa.Table, names: Sequence[str], rows: Rows, at: Rows) -> bool:
    """Whether, in the order ``rows``, every row of ``at`` has the same values as the row before it."""
    if len(at) == 0 or not names:
        return True
    here, before = pa.array(rows[at]), pa.array(rows[at - 1])
    return bool(same([table[n].take(here) for n in names], [table[n].take(before) for n in names], len(at)).all())


class OrderedRun:
    """A run as it is searched. ``reader``: who reads what is kept; None for rows of the step itself."""

    def __init__(self, table: pa.Table, reader: str | None) -> None:
        self.table, self.reader = table, reader
        self.hashes = column(table, HASH)
        self.weights = column(table, WEIGHT)
        self.ties: Words = column(table, TIE)
        self.places = Places(one_array(table[PLACE]))
        self._upto = column(table, UPTO)

    def read(self, rows: int) -> None:
        """Count rows that are read of what is kept."""
        if self.reader is not None:
            READS[self.reader] += rows

    def segments(self, hashes: npt.NDArray[np.int64]) -> tuple[Rows, Rows]:
        """Where each hash begins and ends."""
        return np.searchsorted(self.hashes, hashes, "left"), np.searchsorted(self.hashes, hashes, "right")

    def upto(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The sum of all weights before each row."""
        return self.running(UPTO, rows)

    def running(self, name: str, rows: Rows) -> npt.NDArray[np.int64]:
        """A running sum just before each row."""
        if name != UPTO and name not in self.table.column_names:
            return np.zeros(len(rows), np.int64)
        sums = self._upto if name == UPTO else column(self.table, name)
        if len(sums) == 0:
            return np.zeros(len(rows), np.int64)
        return np.where(rows > 0, sums[np.maximum(rows - 1, 0)], 0)

    def words(self, rows: Rows, width: int, tie: bool) -> Words:
        """(rows, width [+ 1]) numbers in the order of places [and then of hashes of rows]."""
        words = self.places.words(rows, width)
        return np.c_[words, self.ties[rows]] if tie else words

    def position(self, low: Rows, high: Rows, bounds: Words, after: Flags, tie: bool) -> Rows:
        """For each bound the first row in [low, high) that does not lie before it; ``high`` when there is none.

        ``after[i]``: whether what equals the bound lies before it.
        """
        width = bounds.shape[1] - tie
        if len(bounds) <= _FEW:
            each = [self._find(low[i], high[i], bounds[i], width, bool(after[i])) for i in range(len(bounds))]
            return np.array(each, np.int64)
        low, high = low.copy(), high.copy()
        searched = np.flatnonzero(low < high)
        while len(searched):
            middle = (low[searched] + high[searched]) >> 1
            there, wanted = self.words(middle, width, tie), bounds[searched]
            before = np.where(after[searched], ~less(wanted, there), less(there, wanted))
            low[searched] = np.where(before, middle + 1, low[searched])
            high[searched] = np.where(before, high[searched], middle)
            searched = searched[low[searched] < high[searched]]
        return low

    def _find(self, low: int, high: int, bound: Words, width: int, after: bool) -> int:
        """``position`` of one bound."""
        find = bisect.bisect_right if after else bisect.bisect_left
        places, ties, wanted = self.places, self.ties, self.places.as_one(bound[:width])
        if len(bound) == width:
            return find(range(low, high), wanted, key=lambda row: places.one(row, width)) + low
        pair = (wanted, int(bound[width]))
        return find(range(low, high), pair, key=lambda row: (places.one(row, width), int(ties[row]))) + low
