"""d top_k(A): the rows numbered up to k in each touched partition after dA - those before it.

Rows before the first changed one keep their numbers, and nothing numbered above k counts: only what lies between is
read, before the step and after each of its instants. Work follows the change and k (with rank, and the rows that tie
for it), not the partition. State: the input by key and order; bounded by the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, fields
from headrace.circuit.operators.placed import Numbers, Placed, Touched, before, placed
from headrace.circuit.operators.recompute import NEXT, VERSION, differences
from headrace.circuit.task import batches, gathered
from headrace.model.delivery import WEIGHT
from headrace.state.ordered import Groups
from headrace.state.ordered_run import PLACE
from headrace.state.ordered_search import Found

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

DENSE_MOST = 1_000  # the places of a dense_rank are passed one by one


class Ranked:
    """Input as of ``Placed``; output the columns, the number as the next one, ``_w``, ``_i``."""

    def __init__(self, given: Placed, function: str, most: int) -> None:
        self.given, self.function, self.most = given, function, most
        self.number = f"c{len(given.names)}"

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        touched = self.given.touched(table)
        yield from batches(self.change(touched))
        self.given.write(touched)

    def change(self, touched: Touched) -> pa.Table:
        """The change of the rows numbered up to k: the columns, the number, ``_w``, ``_i``."""
        old = self.given.groups(touched.keys)
        passed = old.rank(self.given.bounds(touched.lowest))
        numbered = self.places_before(old, passed) if self.function == "dense_rank" else passed
        chosen = np.flatnonzero(numbered < self.most)
        versions = touched.versions(chosen)
        at = chosen[versions.key]
        start = self.given.bounds(touched.lowest.take(pa.array(at)))
        rows = self.end(versions.contents, passed[at], numbered[at]) - passed[at]
        found = versions.contents.after(start, rows, [*self.given.names, PLACE])
        if self.function == "row_number":
            found = single(found)
        numbers = numbered[at][found.queries] + self.numbers(found)
        table = found.rows.select(self.given.names).append_column(self.number, pa.array(numbers.astype(np.int32)))
        table = table.append_column(VERSION, pa.array(versions.begin[found.queries]))
        table = table.append_column(NEXT, pa.array(versions.end[found.queries]))
        return differences(table, found.weights).select([*self.given.names, self.number, WEIGHT, INSTANT])

    def end(self, contents: Groups, passed: Numbers, numbered: Numbers) -> Numbers:
        """The position after the last row that counts."""
        if self.function == "row_number":
            return np.full(len(passed), self.most)
        if self.function == "rank":
            return self.past_peers(contents, np.full(len(passed), self.most - 1))
        return self.past_places(contents, passed, self.most - numbered, contents.count())[0]

    def numbers(self, found: Found) -> Numbers:
        """The number of each row found, counted from the first row found by its query."""
        if self.function == "row_number":
            return before(found) + 1
        place = found.rows[PLACE].combine_chunks()
        starts = np.diff(found.queries, prepend=-1) != 0
        new = starts.copy()
        new[1:] |= pc.not_equal(place[1:], place[:-1]).to_numpy(zero_copy_only=False)
        group = np.cumsum(new) - 1
        if self.function == "rank":
            ranks: Numbers = before(found)[np.flatnonzero(new)[group]] + 1
            return ranks
        first = np.flatnonzero(starts)[np.cumsum(starts) - 1]  # of the same query
        places: Numbers = group - group[first] + 1
        return places

    def places_before(self, old: Groups, passed: Numbers) -> Numbers:
        """How many distinct places the first ``passed`` rows have, counted up to k."""
        most = np.full(len(passed), self.most)
        return self.past_places(old, np.zeros(len(passed), np.int64), most, passed)[1]

    def past_places(self, contents: Groups, start: Numbers, most: Numbers, stop: Numbers) -> tuple[Numbers, Numbers]:
        """From the position ``start`` on past ``most`` distinct places, or to ``stop``: (position, how many)."""
        position, places = start.copy(), np.zeros(len(start), np.int64)
        while True:
            open_ = (places < most) & (position < stop)
            if not open_.any():
                return position, places
            position = np.where(open_, self.past_peers(contents, np.where(open_, position, -1)), position)
            places += open_

    def past_peers(self, contents: Groups, positions: Numbers) -> Numbers:
        """The position after the last peer of the row at each position; after the last row where there is none."""
        found = contents.select(positions, self.given.ordered)
        ends = contents.count()
        if len(found.queries):
            row = np.zeros(len(positions), np.int64)
            row[found.queries] = np.arange(len(found.queries))
            ranks = contents.rank(self.given.bounds(found.rows.take(pa.array(row)), after=True))
            ends[found.queries] = ranks[found.queries]
        return ends


def single(found: Found) -> Found:
    """Each copy of a row by itself."""
    copies = np.repeat(np.arange(len(found.weights)), found.weights)
    return Found(found.queries[copies], np.ones(len(copies), np.int64), found.rows.take(pa.array(copies)))


def delta(builder: Builder, this: node.TopK) -> Flow:

    given, flow = placed(builder, this.child, this.keys, this.order)
    return flow.then(Ranked(given, this.function, this.most), [*fields(this), *CHANGE])
