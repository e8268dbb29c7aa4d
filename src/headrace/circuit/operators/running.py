"""d W(A) for frames over an order: W(rows that a change reaches, after it) - W(the same rows, before it), W by Spark.

A fixed ROWS frame, lag and lead reach so many rows to either side of each changed one. A frame that grows from the
partition's first row reaches every row after the first changed one, and none after the last where all counts and
sums of the partition are as before; what lies before is one number a function, found in the order without reading
rows. State: the input by key and order, with running sums; bounded by the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, Flow, fields
from headrace.circuit.operators.placed import Numbers, Placed, Touched, Versions, before, placed
from headrace.circuit.operators.recompute import NEXT, VERSION, Difference
from headrace.circuit.task import batches, gathered
from headrace.formats.types.arrow import to_arrow
from headrace.state.ordered_run import PLACE
from headrace.state.ordered_search import Found
from headrace.state.rows import row_codes

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows to evaluate together, one entry each: those of version ``version`` at positions [first, last) are read,
    and of these the ones at [start, end) may have changed."""

    version: Numbers
    start: Numbers
    end: Numbers
    first: Numbers
    last: Numbers

    def where(self, chosen: np.ndarray) -> Stretch:
        return Stretch(*(getattr(self, name)[chosen] for name in self.__slots__))


class Reached:
    """Input as of ``Placed``; output the columns, ``_v``, ``_n`` and those of ``node.Running.MARKS``."""

    def __init__(self, given: Placed, this: node.Running) -> None:
        self.given, self.back, self.forward, self.growing = given, this.back, this.forward, this.growing
        self.totals = {f"s{i}": to_arrow(this.total(i)) for i in range(len(this.sums))}

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        touched = self.given.touched(table)
        versions = touched.versions(np.arange(touched.keys.num_rows))
        yield from batches(self.rows(versions, self.stretches(touched, versions)))
        self.given.write(touched)

    def stretches(self, touched: Touched, versions: Versions) -> Stretch:
        """What to evaluate of each version."""
        version, spots = self.spots(touched, versions)
        contents = versions.contents.take(version)
        start = np.maximum(contents.rank(self.given.bounds(spots)) - self.forward, 0)
        end = contents.rank(self.given.bounds(spots, after=True)) + self.back
        counts = versions.contents.count()
        if self.growing:
            firsts = np.flatnonzero(np.diff(version, prepend=-1))
            lasts = np.r_[firsts[1:] - 1, len(version) - 1]
            end = np.where(self.settled(versions)[version[lasts]], end[lasts], counts[version[firsts]])
            version, start = version[firsts], start[firsts]
        else:
            version, start, end = _merged(version, start, end)
        end = np.minimum(end, counts[version])
        first, last = np.maximum(start - self.back, 0), np.minimum(end + self.forward, counts[version])
        found = Stretch(version, start, end, first, last)
        return found.where(first < last)

    def spots(self, touched: Touched, versions: Versions) -> tuple[Numbers, pa.Table]:
        """Each place that a step changes, for every version of its key, in order: (version, a row there)."""
        codes = row_codes([touched.table[PLACE]])
        key = touched.of_key[touched.segment]
        order = np.lexsort((codes, key))
        new = np.r_[True, (key[order][1:] != key[order][:-1]) | (codes[order][1:] != codes[order][:-1])]
        rows = order[new]
        low, high = (np.searchsorted(key[rows], versions.key, side) for side in ("left", "right"))
        count = high - low
        version = np.repeat(np.arange(len(count)), count)
        chosen = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(len(version))
        return version, touched.table.take(pa.array(rows[chosen]))

    def settled(self, versions: Versions) -> np.ndarray:
        """The versions of keys of which all counts and sums stay what they were through the whole step."""
        totals = versions.contents.totals()
        codes = row_codes(totals.columns)
        changed = np.zeros(len(codes), bool)
        np.logical_or.at(changed, versions.key, codes != codes[versions.key])  # a key's first version is its number
        return ~changed[versions.key]

    def rows(self, versions: Versions, read: Stretch) -> pa.Table:
        """The rows of each stretch, from the first of equal ones on, with what lies before it."""
        contents = versions.contents.take(read.version)
        opening = contents.select(read.first)
        assert len(opening.queries) == len(read.version)
        bounds = self.given.bounds(opening.rows)
        first = contents.rank(bounds)
        found = contents.after(bounds, read.last - first, self.given.names)
        position = first[found.queries] + before(found)
        copies = np.repeat(np.arange(len(found.weights)), found.weights)
        position = position[copies] + before(Found(copies, np.ones(len(copies), np.int64), found.rows))
        at = found.queries[copies]
        table = found.rows.take(pa.array(copies))
        for name, values in (
            (VERSION, versions.begin[read.version][at]),
            (NEXT, versions.end[read.version][at]),
            (node.Running.STRETCH, at),
            (node.Running.REACHED, (position >= read.start[at]) & (position < read.end[at])),
            (node.Running.BEFORE, first[at]),
        ):
            table = table.append_column(name, pa.array(values))
        totals = contents.totals(high=bounds)
        for i, (name, arrow) in enumerate(self.totals.items()):
            table = table.append_column(f"_n{i}", totals[f"n_{name}"].take(pa.array(at)))
            table = table.append_column(f"_s{i}", pc.cast(totals[f"s_{name}"], arrow).take(pa.array(at)))
        return table


def _merged(version: Numbers, start: Numbers, end: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Stretches of each version in order, those that touch made one."""
    new = np.r_[True, (version[1:] != version[:-1]) | (start[1:] > end[:-1])]
    firsts = np.flatnonzero(new)
    return version[firsts], start[firsts], end[np.r_[firsts[1:] - 1, len(end) - 1]]


def delta(builder: Builder, this: node.Running) -> Flow:

    given, flow = placed(builder, this.child, this.keys, this.order, this.sums)
    marks = [(VERSION, "int"), (NEXT, "int"), *this.marks]
    reached = flow.then(Reached(given, this), [*fields(this.child), *marks])
    names = this.child.names
    functions = [e.column.alias(f"c{len(names) + i}") for i, e in enumerate(this.functions)]
    windowed = reached.frame.select(*names, *functions, VERSION, NEXT, this.REACHED).filter(F.col(this.REACHED))
    rows = Flow(windowed.drop(this.REACHED), (*fields(this), (VERSION, "int"), (NEXT, "int")))
    return rows.then(Difference(), [*fields(this), *CHANGE])
