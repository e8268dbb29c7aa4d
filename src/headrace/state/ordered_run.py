"""Ordered runs: Arrow files of weighted rows sorted by key hash, then place in an order, then a hash of the row.

Columns of a run, beside those of its contents:
``_h`` int64   key hash
``_w`` int64   weight, never 0
``_o``         place in the order (``Order.type``): uint64, or bytes that compare as the rows do
``_t`` uint64  hash of the contents, by which rows of one place are told apart and follow each other in every run
``_cw`` int64  sum of ``_w`` from the run's first row to this one
``_n0 ..``, ``_s0_0 ..`` int64   the same for each summed column: rows where it is not NULL, and its value, which is
               kept in parts of 32 bits

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
from headrace.state.rows import canonical, row_codes
from headrace.state.run import HASH, column, write_run

PLACE = "_o"
TIE = "_t"
UPTO = "_cw"
_KEPT = (HASH, WEIGHT, PLACE, TIE)
_MARK = b"headrace.ordered"  # schema metadata of an ordered run: its key and summed columns
_PART = 32  # bits of a part of a summed value
_LARGEST = 1 << 31  # copies in one run that parts can be summed over
_FEW = 16  # bounds up to which searching one by one is faster


@dataclass(frozen=True)
class Layout:
    """What the runs of one ordered arrangement hold.

    ``content``: names (not beginning with ``_``) and types of the columns of a row. ``keys``: those that make the
    key, in a form in which keys that are equal in SQL are equal here as ``encode`` sees it; none when the hash alone
    says what belongs together. ``sums``: integer or decimal columns whose sums over any range are kept.
    """

    content: pa.Schema
    order: Order
    keys: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """What ``arrange`` takes, in any order of columns: ``_h``, ``_w``, ``_o`` and the contents."""
        fixed = [pa.field(HASH, pa.int64()), pa.field(WEIGHT, pa.int64()), pa.field(PLACE, self.order.type)]
        return pa.schema([*fixed, *self.content])


def arrange(table: pa.Table, layout: Layout) -> pa.Table:
    """The rows as a run: sorted, equal rows added up, weights of 0 dropped, with all columns of a run.

    Raises ``TypeError`` when a column has another type than the layout says, ``OverflowError`` when sums are kept
    over 2^31 copies or more.
    """
    wanted = layout.schema
    rows = table.select(wanted.names)
    if rows.schema.types != wanted.types:
        raise TypeError(f"rows of types {rows.schema.types} for an arrangement of {wanted.types}")
    contents = [canonical(rows[name]) for name in layout.content.names]
    arrays = [_single(rows[name]) for name in wanted.names[:3]]
    hashes = pa.array(row_hashes(contents, rows.num_rows))
    whole = pa.table([*arrays, hashes, *contents], names=[*_KEPT, *layout.content.names])
    return _finished(whole, layout.keys, layout.sums)


def write_ordered(path: Path, table: pa.Table, layout: Layout) -> int:
    """Write the rows as a run (see ``arrange``), all of it or nothing; returns the rows of the run."""
    run = arrange(table, layout)
    write_run(path, run)
    return int(run.num_rows)


def merge_ordered(tables: Sequence[pa.Table]) -> pa.Table:
    """One run of several runs of one arrangement: equal rows added up, weights of 0 dropped."""
    made = json.loads(tables[0].schema.metadata[_MARK])
    names = [*_KEPT, *_content(tables[0])]
    rows = pa.concat_tables([table.select(names).replace_schema_metadata(None) for table in tables])
    return _finished(rows, made["keys"], made["sums"])


def is_ordered(table: pa.Table) -> bool:
    return _MARK in (table.schema.metadata or {})


def _content(run: pa.Table) -> list[str]:
    return [name for name in run.column_names if not name.startswith("_")]


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _finished(table: pa.Table, keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    table = table.combine_chunks()
    rows, first = _sorted(table, keys)
    starts = np.flatnonzero(first)
    weights = column(table, WEIGHT)[rows]
    added = np.add.reduceat(weights, starts) if len(starts) else weights
    live = added != 0
    kept = table.take(pa.array(rows[starts[live]])).combine_chunks()
    weights = added[live]
    arrays = {name: kept[name] for name in kept.column_names} | {WEIGHT: pa.array(weights)}
    arrays[UPTO] = pa.array(np.cumsum(weights))
    for number, name in enumerate(sums):
        arrays |= _running(_single(kept[name]), weights, number)
    made = json.dumps({"keys": list(keys), "sums": list(sums)}).encode()
    return pa.table(arrays).replace_schema_metadata({_MARK: made})


def _sorted(table: pa.Table, keys: Sequence[str]) -> tuple[Rows, Flags]:
    """The order of the rows of a run, and where in it a row begins that is not equal to the one before."""
    words = [column(table, HASH), *Places(_single(table[PLACE])).sort_keys(), column(table, TIE)]
    rows, first, hashes = _ordered(words)
    inside = np.flatnonzero(~hashes)
    if not _equal_neighbours(table, keys, rows, inside):
        codes = row_codes([encode([table[key] for key in keys], [False] * len(keys), [False] * len(keys))])
        words.insert(1, codes)
        rows, first, _ = _ordered(words)
    repeated = np.flatnonzero(~first)
    if not _equal_neighbours(table, _content(table), rows, repeated):
        tied = np.unique(np.r_[repeated, repeated - 1])
        codes = np.zeros(len(rows), np.int64)
        codes[rows[tied]] = row_codes([table[name].take(pa.array(rows[tied])) for name in _content(table)])
        rows, first, _ = _ordered([*words, codes])
    return rows, first


def _ordered(words: Sequence[npt.NDArray[Any]]) -> tuple[Rows, Flags, Flags]:
    """The order by some numbers, where they change, and where the first of them changes."""
    rows = np.lexsort(words[::-1])
    changes = np.zeros((2, len(rows)), np.bool_)
    changes[:, :1] = True
    for number, word in enumerate(words):
        placed = word[rows]
        changes[min(number, 1), 1:] |= placed[1:] != placed[:-1]
    return rows, changes[0] | changes[1], changes[0]


def _equal_neighbours(table: pa.Table, names: Sequence[str], rows: Rows, at: Rows) -> bool:
    """Whether, in the order ``rows``, every row of ``at`` has the same values as the row before it."""
    if len(at) == 0 or not names:
        return True
    here, before = pa.array(rows[at]), pa.array(rows[at - 1])
    return bool(same([table[n].take(here) for n in names], [table[n].take(before) for n in names], len(at)).all())


def _running(values: pa.Array, weights: npt.NDArray[np.int64], number: int) -> dict[str, pa.Array]:
    """Running sums of a column: how often it is not NULL, and its value times weight, part by part."""
    if np.abs(weights).sum(dtype=np.float64) >= _LARGEST:
        raise OverflowError(f"sums over {_LARGEST} copies of rows or more in one run")
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    counted = np.where(valid, weights, 0)
    # Wraps round where the whole run's sum exceeds int64; the difference over one key does not.
    running = {f"_n{number}": pa.array(np.cumsum(counted))}
    for place, part in enumerate(_parts(values)):
        running[f"_s{number}_{place}"] = pa.array(np.cumsum(part * counted))
    return running


def _parts(values: pa.Array) -> list[npt.NDArray[np.int64]]:
    """The unscaled values in parts of 32 bits, the lowest first; the last has the sign. Anything under a NULL."""
    count = parts_of(values.type)
    if len(values) == 0:
        return [np.empty(0, np.int64)] * count
    if pa.types.is_decimal(values.type):
        each = values.type.bit_width // 64
        words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, each)[
            values.offset : values.offset + len(values)
        ]
        number = words[:, 0]
    else:
        number = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if count == 1:
        return [number]
    low = number & 0xFFFFFFFF
    if count == 2:
        return [low, number >> _PART]
    return [low, (number >> _PART) & 0xFFFFFFFF, words[:, 1] & 0xFFFFFFFF, words[:, 1] >> _PART]


def parts_of(arrow: pa.DataType) -> int:
    """How many parts of 32 bits a summed column of the type has; ``TypeError`` for one that cannot be summed."""
    if pa.types.is_signed_integer(arrow):
        return 2 if arrow.bit_width == 64 else 1
    if pa.types.is_decimal128(arrow):
        return 2 if arrow.precision <= 18 else 4
    raise TypeError(f"sums of type {arrow} are not kept: only integers and decimals add up exactly")


class OrderedRun:
    """A run as it is searched. ``reader``: who reads what is kept; None for rows of the step itself."""

    def __init__(self, table: pa.Table, reader: str | None) -> None:
        self.table, self.reader = table, reader
        self.hashes = column(table, HASH)
        self.weights = column(table, WEIGHT)
        self.ties: Words = column(table, TIE)
        self.places = Places(_single(table[PLACE]))
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
