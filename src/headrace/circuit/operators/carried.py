"""Functions that go on from their value at the row before: minima, maxima, first and last values of growing frames.

State: their results at each row, by key and order, beside what their operator keeps; bounded by its input. Before the
first row that a step changes, results are what they were, so the one just before it is where a new row goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit.operators.placed import Numbers
from headrace.circuit.task import current, keep
from headrace.state.ordered import OrderedArrangement
from headrace.state.ordered_run import Layout, arrange
from headrace.state.rows import row_codes
from headrace.state.run import HASH, column

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged

FUNCTIONS = ("min", "max", "first", "last", "first_present", "last_present")


@dataclass(frozen=True)
class Carried:
    """``functions``: each with the column of its argument; ``layout``: keys, order, and the results ``r0 ..``."""

    arranged: Arranged
    functions: tuple[tuple[str, str], ...]
    layout: Layout

    @property
    def names(self) -> list[str]:
        return [f"r{i}" for i in range(len(self.functions))]

    def before(self, keys: pa.Table, first: Numbers) -> tuple[np.ndarray, pa.Table]:
        """For each key (``_h`` and key columns) the results at the row before position ``first``: (which have such a
        row, their rows)."""
        runs = OrderedArrangement(current().runs.get(self.arranged.name, []), self.layout, self.arranged.reader)
        found = runs.groups(column(keys, HASH), [keys[k] for k in self.layout.keys]).select(first - 1, self.names)
        there = np.zeros(len(first), bool)
        there[found.queries] = True
        return there, found.rows

    def results(self, table: pa.Table, starts: Numbers, there: np.ndarray, earlier: pa.Table) -> list[pa.Array]:
        """The results at each row of the stretches ``starts[s]:starts[s + 1]``; see ``before``."""
        sequences = _Sequences(starts, there)
        place = np.full(len(there), -1, np.int64)
        place[there] = np.arange(earlier.num_rows)
        results = []
        for name, (function, argument) in zip(self.names, self.functions, strict=True):
            carried = earlier[name].take(pa.array(place, mask=place < 0))
            both = pa.chunked_array([*carried.chunks, *table[argument].chunks], carried.type)
            values = both.take(pa.array(sequences.index))
            results.append(values.take(pa.array(sequences.chosen(function, values))).combine_chunks())
        return results

    def write(self, rows: pa.Table) -> None:
        """Add rows with their results (``_h``, ``_w``, ``_o``, the layout's contents)."""
        if self.arranged.owned:
            run = arrange(rows, self.layout)
            if run.num_rows:
                keep(current(), self.arranged.name, run)


class _Sequences:
    """For each stretch what lies before it, or NULL, then its rows: at ``heads`` and at ``rows``.

    ``head``: the head of each entry; ``index``: each entry's place among all heads and then all rows. ``there``: which
    stretches have something before them.
    """

    def __init__(self, starts: Numbers, there: np.ndarray) -> None:
        sizes, self.there = np.diff(starts), there
        self.heads: Numbers = starts[:-1] + np.arange(len(sizes))
        self.head: Numbers = self.heads.repeat(sizes + 1)
        self.rows: Numbers = np.delete(np.arange(len(self.head)), self.heads)
        self.index = np.empty(len(self.head), np.int64)
        self.index[self.heads], self.index[self.rows] = np.arange(len(sizes)), len(sizes) + np.arange(len(self.rows))

    def chosen(self, function: str, values: pa.ChunkedArray) -> Numbers:
        """For each row the entry whose value is its result."""
        entries, present = np.arange(len(values)), values.is_valid().to_numpy()
        match function:
            case "last":
                found = entries
            case "first":
                found = self.head + ~self.there.repeat(np.diff(np.r_[self.heads, len(values)]))
            case "last_present":
                found = np.maximum(np.maximum.accumulate(np.where(present, entries, 0)), self.head)
            case "first_present":
                first = np.minimum.reduceat(np.where(present, entries, len(values)), self.heads)
                each = first.repeat(np.diff(np.r_[self.heads, len(values)]))
                found = np.where(each <= entries, each, self.head)
            case _:
                found = self._extreme(values, present, greatest=function == "max")
        chosen: Numbers = found[self.rows]
        return chosen

    def _extreme(self, values: pa.ChunkedArray, present: np.ndarray, *, greatest: bool) -> Numbers:
        """For each entry the one with the extreme of those from its head on; NULL is less than any."""
        codes = row_codes([values])
        ranks = np.where(present, codes + 1 if greatest else len(values) - codes, 0)
        # Each sequence lies above the one before it, so that one maximum runs through all of them.
        level = np.zeros(len(values), np.int64)
        level[self.heads] = len(values) + 1
        best = np.maximum.accumulate(ranks + np.cumsum(level))
        extreme: Numbers = np.maximum.accumulate(np.where(best > np.r_[-1, best[:-1]], np.arange(len(values)), 0))
        return extreme
