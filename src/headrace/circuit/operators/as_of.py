"""d as_of(A, B) = dA with its matches after it + (A from a changed right row to the next, before) x (new match - old).

A left row's match is the last right row of its key before it in the order. All left rows between a right row and the
next one have the same match, so it is looked up once, and they are read only where it changes. Work follows the
change and these rows. State: both inputs by key, side and time; bounded by the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, fields
from headrace.circuit.operators.placed import Numbers, Placed, Touched, Versions, placed
from headrace.circuit.task import batches, gathered
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.order import Bounds
from headrace.state.ordered import Groups
from headrace.state.rows import consolidate, row_codes
from headrace.state.run import column
from headrace.state.sorting import lexical_order

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


@dataclass(frozen=True, slots=True)
class Matches:
    """For each query the right row found: ``at[q]`` into ``rows``, -1 for none."""

    at: Numbers
    rows: pa.Table

    def take(self, queries: Numbers) -> Matches:
        return Matches(self.at[queries], self.rows)


@dataclass(frozen=True, slots=True)
class Regions:
    """Left rows that may have another match from an instant on, each from a changed right row to the next one.

    ``segment``: the rows changed at one instant, as ``Touched`` numbers them; ``low`` and ``high``: cuts."""

    segment: Numbers
    low: Bounds
    high: Bounds
    before: Matches
    after: Matches


class Meet:
    """Input as of ``Placed``; output the left's columns, the right's, ``_w``, ``_i``."""

    def __init__(self, given: Placed, this: node.AsOf) -> None:
        self.given, self.inner, self.inclusive = given, this.inner, this.inclusive
        self.lefts = [given.names[i] for i in this.lefts]
        self.rights = [given.names[i] for i in this.rights]
        self.side, self.time = given.ordered[:2]
        self.schema = pa.schema([(n, to_arrow(t)) for n, t in (*fields(this), *CHANGE)])

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        touched = self.given.touched(table)
        versions = touched.versions(np.arange(touched.keys.num_rows))
        made = pa.concat_tables([self.of_changed(touched, versions), *self.of_regions(touched, versions)])
        yield from batches(consolidate(made))
        self.given.write(touched)

    def of_changed(self, touched: Touched, versions: Versions) -> pa.Table:
        """Changed left rows with their matches as of their instant."""
        rows = np.flatnonzero(self.is_left(touched.table))
        left = touched.table.take(pa.array(rows))
        contents = versions.contents.take(touched.keys.num_rows + touched.segment[rows])
        cuts = self.cuts(False, left[self.time], after=self.inclusive)
        return self.joined(left, self.last(contents, cuts), column(left, WEIGHT), column(left, INSTANT))

    def of_regions(self, touched: Touched, versions: Versions) -> Iterator[pa.Table]:
        """Left rows from before an instant whose match it changes: without the old one, with the new one."""
        if self.is_left(touched.table).all():
            return
        regions = self.regions(touched, versions)
        contents = versions.contents.take(earlier(touched)[regions.segment])
        found = contents.between(regions.low, regions.high, list(dict.fromkeys((*self.lefts, self.time))))
        instants = touched.instants[regions.segment][found.queries]
        for matches, sign in ((regions.before, -1), (regions.after, 1)):
            yield self.joined(found.rows, matches.take(found.queries), sign * found.weights, instants)

    def regions(self, touched: Touched, versions: Versions) -> Regions:
        """Where a match changes; each ends at the next right row, be it changed itself or as it was."""
        segment, times = self.spots(touched)
        past = self.cuts(False, times, after=True)
        old, new = versions.contents.take(earlier(touched)[segment]), self.at(touched, versions, segment)
        before, after = self.last(old, past), self.last(new, past)
        low = self.cuts(True, times, after=not self.inclusive)
        high = self.ends(segment, times, old, past)
        chosen = np.flatnonzero(self.differ(before, after))
        low, high = (Bounds(b.values.take(pa.array(chosen)), b.after[chosen]) for b in (low, high))
        return Regions(segment[chosen], low, high, before.take(chosen), after.take(chosen))

    def spots(self, touched: Touched) -> tuple[Numbers, pa.ChunkedArray]:
        """The times at which right rows change, each once a segment, in order: (segment, time)."""
        rows = np.flatnonzero(~self.is_left(touched.table))
        times = touched.table[self.time].take(pa.array(rows))
        codes = row_codes([self.cuts(False, times).values])
        segment = touched.segment[rows]
        order = lexical_order([segment, codes])
        new = np.ones(len(order), np.bool_)
        new[1:] = (segment[order][1:] != segment[order][:-1]) | (codes[order][1:] != codes[order][:-1])
        chosen = order[new]
        return segment[chosen], times.take(pa.array(chosen))

    def ends(self, segment: Numbers, times: pa.ChunkedArray, old: Groups, past: Bounds) -> Bounds:
        """Where the right rows after each time begin: those of before the instant, and the changed ones."""
        found = old.after(past, 1, [self.side, self.time])
        right = np.flatnonzero(~self.is_left(found.rows))
        count = len(segment)
        every = pa.concat_arrays([*times.chunks, *found.rows[self.time].take(pa.array(right)).chunks])
        codes = row_codes([self.cuts(False, every).values])
        at = np.full((2, count), -1, np.int64)
        following = np.flatnonzero(segment[1:] == segment[:-1])
        at[0, following] = following + 1
        at[1, found.queries[right]] = count + np.arange(len(right))
        far = np.iinfo(np.int64).max
        place = np.where(at >= 0, np.append(codes, far)[at], far)
        nearest = np.where(place[0] <= place[1], at[0], at[1])
        none = self.given.layout.order.bounds([pa.array([True])], True).values
        values = pa.concat_arrays([self.cuts(True, every, after=not self.inclusive).values, none])
        flags = np.where(nearest < 0, True, not self.inclusive)
        return Bounds(values.take(pa.array(np.where(nearest < 0, len(every), nearest))), flags)

    def last(self, contents: Groups, cuts: Bounds) -> Matches:
        """The last right row of each query before its cut."""
        found = contents.before(cuts, 1, list(dict.fromkeys((*self.rights, self.side))))
        at = np.full(len(cuts.after), -1, np.int64)
        at[found.queries] = np.arange(len(found.queries))
        return Matches(at, found.rows)

    def differ(self, before: Matches, after: Matches) -> npt.NDArray[np.bool_]:
        """Where two matches are not the same to the output."""
        rows = pa.concat_tables([before.rows, after.rows]).select(self.rights)
        codes = np.append(row_codes(rows.columns) if self.rights else np.zeros(len(before.rows) + len(after.rows)), -1)
        moved = np.where(after.at >= 0, after.at + before.rows.num_rows, -1)
        different: npt.NDArray[np.bool_] = codes[before.at] != codes[moved]
        return different

    def joined(self, left: pa.Table, matches: Matches, weights: Numbers, instants: npt.NDArray[np.int32]) -> pa.Table:
        """Left rows with their matches; without one NULLs, or nothing."""
        rows = np.flatnonzero(matches.at >= 0) if self.inner else np.arange(len(matches.at))
        at = matches.at[rows]
        left, right = left.take(pa.array(rows)), matches.rows.take(pa.array(at, mask=at < 0))
        arrays = [*(left[n] for n in self.lefts), *(right[n] for n in self.rights)]
        return pa.table([*arrays, pa.array(weights[rows]), pa.array(instants[rows])], names=self.schema.names).cast(
            self.schema
        )

    def cuts(self, left: bool, times: pa.Array | pa.ChunkedArray, *, after: bool = False) -> Bounds:
        """Cuts before (or after) the rows of a side that have these times."""
        return self.given.layout.order.bounds([pa.array(np.full(len(times), left)), times], after)

    def at(self, touched: Touched, versions: Versions, segment: Numbers) -> Groups:
        """The contents after segments."""
        return versions.contents.take(touched.keys.num_rows + segment)

    def is_left(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        flags: npt.NDArray[np.bool_] = table[self.side].to_numpy(zero_copy_only=False).astype(np.bool_)
        return flags


def earlier(touched: Touched) -> Numbers:
    """For each segment the version (see ``Versions``) of its key just before it."""
    of = touched.of_key
    first = np.r_[True, of[1:] != of[:-1]]
    previous: Numbers = np.where(first, of, touched.keys.num_rows + np.arange(len(of)) - 1)
    return previous


def delta(builder: Builder, this: node.AsOf) -> Flow:

    given, flow = placed(builder, this.child, this.keys, this.order)
    return flow.then(Meet(given, this), [*fields(this), *CHANGE])
