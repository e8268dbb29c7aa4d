"""d top_k(A) where rows of A only come: the first k of what was first and what comes - what was first.

A row that is not among the first k of its key will never be again, so nothing but those is kept, and of a step's rows
only those that are first among themselves are looked at; the columns of the order are compared as far as it takes.
State: the first k rows of each key, with rank and the rows that tie for it; bounded by k x keys, and these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.circuit.appended import AppendTopK
from headrace.circuit.extremes import refuse_gone
from headrace.circuit.flow import CHANGE, INSTANT, Flow, fields
from headrace.circuit.operators.placed import Stored, order_of
from headrace.circuit.task import batches, current, gathered, keep
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct, key_order
from headrace.state.order import Order
from headrace.state.rows import row_codes
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import lexical_order, stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

Numbers = npt.NDArray[np.int64]
NUMBER = "number"  # int: the row's place among those of its key, from 1; 0 for one that was not kept


@dataclass(frozen=True)
class Firsts:
    """Input ``_h``, ``_w``, ``_i`` and ``stored``; output ``names``, the number as the next column, ``_w``, ``_i``.

    ``names``: the input's columns, ``keys`` and ``ordered``: the stored columns that make the key and the order.
    """

    arranged: Arranged
    stored: pa.Schema
    names: tuple[str, ...]
    keys: tuple[str, ...]
    ordered: tuple[str, ...]
    order: Order
    function: str
    most: int

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        refuse_gone(column(table, WEIGHT))
        given, key, instants = self.likely(table)
        if given.num_rows == 0:  # of none at all, none is among the first
            return
        kept = self.kept(distinct(column(given, HASH)))
        first = given.select([HASH, *self.stored.names]).append_column(NUMBER, pa.array(np.zeros(len(given), np.int32)))
        key, key_kept = _together(first, kept, self.keys, key)
        found = list(self.rounds(first, key, instants, kept, key_kept))
        if found:
            changes = pa.concat_tables(found)
            out = changes.select([*self.names, NUMBER, WEIGHT, INSTANT])
            yield from batches(out.rename_columns([*self.names, f"c{len(self.names)}", WEIGHT, INSTANT]))
            if self.arranged.owned:
                self.write(changes, summed=len(found) > 1)

    def likely(self, table: pa.Table) -> tuple[pa.Table, Numbers, npt.NDArray[np.int32]]:
        """The rows that may be among the first of their key at their instant, a copy each; their keys, as numbers in
        the order of the rows, and instants."""
        instants = column(table, INSTANT)
        words, _ = self.order.leading([table[name] for name in self.ordered])
        order, new = key_order(table, self.keys, [instants, *words])
        at = instants[order]
        begins = new.copy()
        begins[1:] |= at[1:] != at[:-1]
        peer = begins.copy()
        for word in words:
            here = word[order]
            peer[1:] |= here[1:] != here[:-1]
        # How many rows of its key and instant come before a row's first peer.
        place = np.arange(len(order))
        before = _carried(place, peer) - _carried(place, begins)
        chosen = np.flatnonzero(before < self.most)
        copies = column(table, WEIGHT)[order[chosen]]
        chosen = np.repeat(chosen, copies if self.function == "rank" else np.minimum(copies, self.most))
        return table.take(pa.array(order[chosen])), (np.cumsum(new) - 1)[chosen], at[chosen]

    def kept(self, hashes: np.ndarray) -> pa.Table:
        """The first rows of the keys with these hashes."""
        schema = pa.schema(
            [(HASH, pa.int64()), (WEIGHT, pa.int64()), *zip(self.stored.names, self.stored.types, strict=True),
             (NUMBER, pa.int32())]
        )  # fmt: skip
        paths = current().runs.get(self.arranged.name, [])
        hits = Arrangement(paths, self.arranged.reader).probe(hashes, schema.names, schema)
        rows = merge([hits.rows.cast(schema)])
        copies = np.repeat(np.arange(rows.num_rows), column(rows, WEIGHT))  # rows that tie may be equal
        return rows.take(pa.array(copies)).drop_columns([WEIGHT])

    def rounds(
        self, given: pa.Table, key: Numbers, instants: npt.NDArray[np.int32], kept: pa.Table, key_kept: Numbers
    ) -> Iterator[pa.Table]:
        """What changes among the first rows: ``given``'s columns, ``_w``, ``_i``. One round for each instant of the
        key that has most of them."""
        segment = np.r_[True, (key[1:] != key[:-1]) | (instants[1:] != instants[:-1])]
        number = np.cumsum(segment) - 1
        starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        turn = number - np.repeat(number[starts], np.diff(np.r_[starts, len(key)]))
        for this in range(int(turn.max()) + 1):
            rows = np.flatnonzero(turn == this)
            at = np.zeros(1 + max(key.max(), key_kept.max(initial=0)), np.int32)  # 0: not in this round
            at[key[rows]] = instants[rows]
            is_old = at[key_kept] > 0
            both = pa.concat_tables([kept.filter(pa.array(is_old)), given.take(pa.array(rows))]).combine_chunks()
            of = np.r_[key_kept[is_old], key[rows]]
            kept, key_kept = kept.filter(pa.array(~is_old)), key_kept[~is_old]
            before = column(both, NUMBER)
            after = self.numbered(both, of)
            for chosen, numbers, weight in ((before > 0, before, -1), (after > 0, after, 1)):
                index = np.flatnonzero(chosen & (before != after))
                yield (
                    _numbered(both, index, numbers)
                    .append_column(WEIGHT, pa.array(np.full(len(index), weight, np.int64)))
                    .append_column(INSTANT, pa.array(at[of[index]]))
                )
            index = np.flatnonzero(after > 0)
            kept, key_kept = pa.concat_tables([kept, _numbered(both, index, after)]), np.r_[key_kept, of[index]]

    def numbered(self, table: pa.Table, key: Numbers) -> npt.NDArray[np.int32]:
        """The number of each row among those of its key, from 1; 0 beyond k."""
        columns = [table[name] for name in self.ordered]
        words, complete = self.order.leading(columns)
        order = lexical_order([key, *words])
        alike = _alike([key, *words], order)
        if not complete:
            tied = alike | np.r_[alike[1:], False]
            if tied.any():
                rows = pa.array(order[tied])
                last = np.zeros(len(order), np.int64)
                last[order[tied]] = row_codes([self.order.encode([c.take(rows) for c in columns])])
                order = lexical_order([key, *words, last])
                alike = _alike([key, *words, last], order)
        begins = np.r_[True, key[order[1:]] != key[order[:-1]]]
        place = np.arange(len(order))
        numbers = np.empty(len(order), np.int32)
        counted = _carried(place, ~alike) if self.function == "rank" else place
        numbers[order] = counted - _carried(place, begins) + 1
        return np.where(numbers <= self.most, numbers, 0).astype(np.int32)

    def write(self, changes: pa.Table, *, summed: bool) -> None:
        """The step's run; ``summed``: rows may have come and gone within the step."""
        run = changes.select([HASH, WEIGHT, *self.stored.names, NUMBER])
        run = merge([run]) if summed else run.take(pa.array(stable_order(column(run, HASH))))
        if run.num_rows:
            keep(current(), self.arranged.name, run)


def _carried(values: Numbers, begins: np.ndarray) -> Numbers:
    """For each position the value at the last beginning up to it; values rise."""
    carried: Numbers = np.maximum.accumulate(np.where(begins, values, 0))
    return carried


def _alike(words: Sequence[np.ndarray], order: Numbers) -> npt.NDArray[np.bool_]:
    """Which rows, in an order, have the words of the one before them."""
    alike = np.ones(len(order), bool)
    alike[0] = False
    for word in words:
        alike[1:] &= word[order[1:]] == word[order[:-1]]
    return alike


def _numbered(table: pa.Table, index: np.ndarray, numbers: np.ndarray) -> pa.Table:
    """Some rows under these numbers."""
    at = table.column_names.index(NUMBER)
    return table.take(pa.array(index)).set_column(at, NUMBER, pa.array(numbers[index].astype(np.int32)))


def _together(given: pa.Table, kept: pa.Table, keys: tuple[str, ...], key: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers of the keys of both tables, equal where the keys are; ``key``: those of ``given``, rising.

    Both are sorted by hash; what is kept under a key that only has the hash of another one gets a number of its own.
    """
    starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    names = [HASH, *keys]
    both = pa.concat_tables([given.select(names).take(pa.array(starts)), kept.select(names)])
    order, new = key_order(both, keys, [])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return np.repeat(numbers[: len(starts)], np.diff(np.r_[starts, len(key)])), numbers[len(starts) :]


def delta(builder: Builder, this: AppendTopK) -> Flow:

    stored = Stored(this.child, this.keys)
    keys = tuple(stored.name(k, "g") for k in this.keys)
    ordered = tuple(stored.name(s.expression, "o") for s in this.order)
    arranged = builder.claim(hashlib.blake2b(f"append top-k:{this.fingerprint}".encode(), digest_size=12).hexdigest())
    stage = Firsts(
        arranged, stored.schema, this.child.names, keys, ordered, order_of(this.order), this.function, this.most
    )
    return stored.flow(builder, this.child).then(stage, [*fields(this), *CHANGE])
