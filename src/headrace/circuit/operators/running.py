"""d W(A) for frames over an order: W(rows that a change reaches, after it) - W(the same rows, before it).

A fixed ROWS frame, lag and lead reach so many rows to either side of each changed one. A frame that grows from the
partition's first row reaches every row after the first changed one, and none after the last where all counts and
sums of the partition are as before; what lies before is found in the order without reading rows: the row's number,
the exact accumulators of counts, sums, means, variances, regressions and bitwise functions, minima, maxima, first
and last values. Functions over the whole partition, and dense_rank, are joins with an aggregate instead.
State: the input by key and order, with running sums or results; bounded by the input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.circuit import added, node
from headrace.circuit.flow import CHANGE, Flow, computed, fields, kept
from headrace.circuit.operators.carried import FUNCTIONS, Carried
from headrace.circuit.operators.placed import Numbers, Placed, Touched, Versions, before, placed
from headrace.circuit.operators.recompute import NEXT, VERSION, Difference
from headrace.circuit.slots import Groups as Accumulated
from headrace.circuit.task import batches, gathered
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.ordered import Groups
from headrace.state.ordered_run import PLACE, Layout
from headrace.state.ordered_search import Found
from headrace.state.rows import row_codes
from headrace.state.run import HASH
from headrace.state.sorting import lexical_order

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


NUMBER, ADDED, CARRIED = "number", "added", "carried"  # how a growing function is maintained


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


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of stretches, each copy one: of stretch ``at``, at ``position`` in its partition. Those of stretch s are
    ``starts[s]:starts[s + 1]``, the first of them at position ``first[s]``, which no equal row comes before.
    ``reached``: which may have changed."""

    table: pa.Table
    at: Numbers
    position: Numbers
    starts: Numbers
    first: Numbers
    reached: np.ndarray

    def peers(self) -> tuple[Numbers, Numbers]:
        """For each row the first and the last of its peers."""
        codes = row_codes([self.table[PLACE]])
        new = np.ones(len(codes), bool)
        new[1:] = (self.at[1:] != self.at[:-1]) | (codes[1:] != codes[:-1])
        firsts, peer = np.flatnonzero(new), np.cumsum(new) - 1
        return firsts[peer], np.r_[firsts[1:] - 1, len(codes) - 1][peer]


class Reached:
    """Input as of ``Placed``; output the columns, ``_v``, ``_n``, the growing functions' results and, where others
    follow, ``node.Running.MARKS``: else only rows whose results may have changed."""

    def __init__(self, given: Placed, carried: Carried | None, this: node.Running) -> None:
        self.given, self.carried, self.back, self.forward = given, carried, this.back, this.forward
        self.growing = tuple((_kind(g), g.peers) for g in this.growing)
        self.marked = bool(this.functions)
        read = {*given.names, *given.ordered, *given.layout.keys, *(n for slot in given.slots for n in slot.arguments)}
        read |= {argument for _, argument in carried.functions} if carried is not None else set()
        self.read = [*sorted(read), PLACE]

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        touched = self.given.touched(table)
        versions = touched.versions(np.arange(touched.keys.num_rows))
        read = self.stretches(touched, versions)
        contents = versions.contents.take(read.version)
        rows = self.rows(contents, read)
        begin, end = versions.begin[read.version][rows.at], versions.end[read.version][rows.at]
        keys = touched.keys.take(pa.array(versions.key[read.version]))
        result = rows.table.select(self.given.names)
        columns = [(VERSION, begin), (NEXT, end)]
        columns += [(f"v{i}", values) for i, values in enumerate(self.results(rows, contents, keys, begin, end))]
        if self.marked:
            columns += [(node.Running.STRETCH, rows.at), (node.Running.REACHED, rows.reached)]
        for name, values in columns:
            result = result.append_column(name, pa.array(values))
        yield from batches(result if self.marked else result.filter(pa.array(rows.reached)))
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
            settled = self.settled(versions)[version[lasts]] & (self.carried is None)
            end = np.where(settled, end[lasts], counts[version[firsts]])
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
        order = lexical_order([key, codes])
        new = np.r_[True, (key[order][1:] != key[order][:-1]) | (codes[order][1:] != codes[order][:-1])]
        rows = order[new]
        low, high = (np.searchsorted(key[rows], versions.key, side) for side in ("left", "right"))
        count = high - low
        version = np.repeat(np.arange(len(count)), count)
        chosen = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(len(version))
        return version, touched.table.take(pa.array(rows[chosen]))

    def settled(self, versions: Versions) -> np.ndarray:
        """The versions of keys of which all counts and sums stay what they were through the whole step."""
        counts = versions.contents.count()
        whole = added.groups(self.given.slots, versions.contents.totals(), counts)
        codes = row_codes([pa.array(n) for n in (counts, *whole.counts)] + [s.to_arrow() for s in whole.sums])
        changed = np.zeros(len(codes), bool)
        np.logical_or.at(changed, versions.key, codes != codes[versions.key])  # a key's first version is its number
        return ~changed[versions.key]

    def rows(self, contents: Groups, read: Stretch) -> Rows:
        """The rows of each stretch, from the first of equal ones on. ``contents``: a query for each."""
        opening = contents.select(read.first)
        assert len(opening.queries) == len(read.version)
        bounds = self.given.bounds(opening.rows)
        first = contents.rank(bounds)
        found = contents.after(bounds, read.last - first, self.read)
        position = first[found.queries] + before(found)
        copies = np.repeat(np.arange(len(found.weights)), found.weights)
        position = position[copies] + before(Found(copies, np.ones(len(copies), np.int64), found.rows))
        at = found.queries[copies]
        starts = np.searchsorted(at, np.arange(len(first) + 1))
        reached = (position >= read.start[at]) & (position < read.end[at])
        return Rows(found.rows.take(pa.array(copies)), at, position, starts, first, reached)

    def results(
        self, rows: Rows, contents: Groups, keys: pa.Table, begin: np.ndarray, end: np.ndarray
    ) -> Iterator[pa.Array]:
        """Each growing function at each row. ``keys``: each stretch's; ``begin`` and ``end``: each row's version."""
        if not self.growing:
            return
        firsts, lasts = rows.peers()
        own = np.arange(len(rows.at))
        upto = {False: self.upto(rows, contents)} if self.given.parts else {}
        if upto and any(of_peers for _, of_peers in self.growing):
            upto[True] = upto[False].take(lasts)
        parts, carried = iter(self.given.parts), iter(self.carried_on(rows, keys, begin, end, lasts))
        for kind, of_peers in self.growing:
            if kind == NUMBER:
                yield pa.array((rows.position[firsts if of_peers else own] + 1).astype(np.int32))
            elif kind == ADDED:
                yield next(parts).of(self.given.slots, upto[of_peers], rows.reached)
            else:
                yield next(carried)

    def upto(self, rows: Rows, contents: Groups) -> Accumulated:
        """What adds up to each row."""
        slots, heads = self.given.slots, rows.table.take(pa.array(rows.starts[:-1]))
        earlier = added.groups(slots, contents.totals(high=self.given.bounds(heads)), rows.first)
        here = added.each(slots, rows.table, np.ones(len(rows.at), np.int64))
        return here.running(rows.starts) + earlier.take(rows.at)

    def carried_on(
        self, rows: Rows, keys: pa.Table, begin: np.ndarray, end: np.ndarray, lasts: Numbers
    ) -> list[pa.Array]:
        """Minima and their like at each row; what becomes of them is kept."""
        if self.carried is None:
            return []
        results = self.carried.results(rows.table, rows.starts, *self.carried.before(keys, rows.first))
        of_peers = [of_peers for kind, of_peers in self.growing if kind == CARRIED]
        results = [r.take(pa.array(lasts)) if p else r for r, p in zip(results, of_peers, strict=True)]
        # The version that was kept goes, the newest comes; what only stood within the step leaves no trace.
        weights = (end == 0).astype(np.int64) - (begin == 0)
        chosen = pa.array(np.flatnonzero(rows.reached & (weights != 0)))
        placed = rows.table.select([*self.given.layout.keys, *self.given.ordered, PLACE])
        placed = placed.append_column(HASH, keys[HASH].take(pa.array(rows.at)))
        for name, values in zip(self.carried.names, results, strict=True):
            placed = placed.append_column(name, values)
        self.carried.write(placed.append_column(WEIGHT, pa.array(weights)).take(chosen))
        return results


def _merged(version: Numbers, start: Numbers, end: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Stretches of each version in order, those that touch made one."""
    new = np.r_[True, (version[1:] != version[:-1]) | (start[1:] > end[:-1])]
    firsts = np.flatnonzero(new)
    return version[firsts], start[firsts], end[np.r_[firsts[1:] - 1, len(end) - 1]]


def _kind(of: node.Growing) -> str:
    if of.accumulation is None:
        return NUMBER
    return CARRIED if of.accumulation.function in FUNCTIONS else ADDED


def delta(builder: Builder, this: node.Running) -> Flow:

    added_up, carried_on = (
        [g.accumulation for g in this.growing if g.accumulation is not None and _kind(g) == kind]
        for kind in (ADDED, CARRIED)
    )
    given, flow = placed(builder, this.child, this.keys, this.order, added_up, carried_on)
    carried = _carried(builder, this, given, carried_on) if carried_on else None
    version = ((VERSION, "int"), (NEXT, "int"))
    grown = [(f"v{i}", g.type) for i, g in enumerate(this.growing)]
    reached = flow.then(Reached(given, carried, this), [*fields(this.child), *version, *grown, *this.marks])
    values = [kept(name, type_text) for name, type_text in (*fields(this.child), *version)]
    names = [name for name, _ in fields(this)[len(this.child.types) :]]
    values += [kept(name, of_type, of) for name, (of, of_type) in zip(names, grown, strict=False)]
    values += [computed(name, e) for name, e in zip(names[len(grown) :], this.functions, strict=True)]
    if not this.functions:
        return reached.select(values).then(Difference(), [*fields(this), *CHANGE])
    windowed = reached.frame.select(*[v.column.alias(v.name) for v in values], this.REACHED).filter(F.col(this.REACHED))
    rows = Flow(windowed.drop(this.REACHED), tuple((v.name, v.type) for v in values))
    return rows.then(Difference(), [*fields(this), *CHANGE])


def _carried(builder: Builder, this: node.Running, given: Placed, of: Sequence[node.Accumulation]) -> Carried:
    content = given.layout.content
    names = dict.fromkeys([*given.layout.keys, *given.ordered])
    types = [(name, content.field(name).type) for name in names]
    types += [(f"r{i}", to_arrow(a.type)) for i, a in enumerate(of)]
    layout = Layout(pa.schema(types), given.layout.order, given.layout.keys)
    functions = tuple(zip((a.function for a in of), given.values, strict=True))
    name = hashlib.blake2b(f"carried:{this.fingerprint}".encode(), digest_size=12).hexdigest()
    return Carried(builder.claim(name), functions, layout)
