"""Searching the runs of an ordered arrangement for several queries at once; see ``ordered`` for what is asked.

A cut is a place between two rows, in every run of every query: an array (runs, queries) of row numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.state.keys import same
from headrace.state.order import Bounds
from headrace.state.ordered_run import TIE, UPTO, Layout, OrderedRun
from headrace.state.places import Flags, Places, Rows, Words, equal, less
from headrace.state.rows import row_codes
from headrace.state.sorting import lexical_order, stable_order

Numbers = npt.NDArray[np.int64]
Part = tuple[OrderedRun, Rows, Rows]  # a run, and where the rows of each query begin and end in it

_LEAST_READ = 1 << 10  # rows of all queries together, read at once even where fewer are asked for
_MOST_READ = 1 << 22  # rows of all queries together
_READS = 3  # so many times the reading doubles before dead rows are jumped over


@dataclass(frozen=True, slots=True)
class Found:
    """Rows found, by query and within it in the order asked for: ``queries[i]`` and ``weights[i]`` (> 0) of row i."""

    queries: Numbers
    weights: Numbers
    rows: pa.Table


class Stretches:
    """For each query its rows in each run: those in [low, high)."""

    def __init__(self, layout: Layout, size: int, parts: Sequence[Part]) -> None:
        used = [part for part in parts if (part[1] < part[2]).any()]
        self.layout, self.size = layout, size
        self.runs = [run for run, _, _ in used]
        none = np.empty((0, size), np.int64)
        self.low = np.stack([low for _, low, _ in used]) if used else none
        self.high = np.stack([high for _, _, high in used]) if used else none

    def take(self, queries: Rows) -> Stretches:
        """Some of the queries, each as often as it is named."""
        parts = zip(self.runs, self.low[:, queries], self.high[:, queries], strict=True)
        return Stretches(self.layout, len(queries), list(parts))

    def cut(self, bounds: Bounds) -> Rows:
        """Where the bounds cut each run."""
        if bounds.values.type != self.layout.order.type:
            raise TypeError(f"bounds of type {bounds.values.type} in an order of type {self.layout.order.type}")
        places, rows = Places(bounds.values), np.arange(self.size)
        words = places.words(rows, places.width(rows))
        return self._positions(self.low, self.high, words, bounds.after, False)

    def net(self, queries: Rows, cuts: Rows) -> Numbers:
        """Weights of all runs between the start of each query's rows and a cut (runs, chosen queries)."""
        total = np.zeros(len(queries), np.int64)
        for r, run in enumerate(self.runs):
            total += run.upto(cuts[r]) - run.upto(self.low[r, queries])
        return total

    def running(self, name: str, start: Rows, end: Rows) -> Numbers:
        """(runs, queries): a running sum between two cuts."""
        found = [run.running(name, end[r]) - run.running(name, start[r]) for r, run in enumerate(self.runs)]
        return np.stack(found) if found else start

    def all(self, start: Rows, end: Rows, columns: Sequence[str] | None) -> Found:
        """The rows between two cuts."""
        entries = self._entries(np.arange(self.size), start, end - start, False)
        most = np.full(self.size, np.iinfo(np.int64).max)
        return self._found([self._live(entries, most, False, columns)], columns)

    def _positions(self, low: Rows, high: Rows, bounds: Words, after: Flags, tie: bool) -> Rows:
        found = [run.position(low[r], high[r], bounds, after, tie) for r, run in enumerate(self.runs)]
        return np.stack(found) if found else low

    def locate(self, queries: Rows, positions: Numbers) -> tuple[Rows, Words]:
        """For each position, which must exist, the cut before the row there; and that row's place and hash.

        The row sought is the last one before which there are no more rows than the position says: a search over
        all runs at once, whose pivot is the middle of the longest stretch that is still open.
        """
        low, high = self.low[:, queries].copy(), self.high[:, queries].copy()
        start = low.copy()
        source, row = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
        searched = np.flatnonzero((low < high).any(axis=0))
        while len(searched):
            widest = (high[:, searched] - low[:, searched]).argmax(axis=0)
            middle = (low[widest, searched] + high[widest, searched]) >> 1
            pivots = self._words(widest, middle)
            before = np.zeros(len(searched), np.bool_)
            cuts = self._positions(start[:, searched], high[:, searched], pivots, before, True)
            beyond = self.net(queries[searched], cuts) > positions[searched]
            high[:, searched[beyond]] = cuts[:, beyond]
            best = searched[~beyond]
            start[:, best] = cuts[:, ~beyond]
            source[best], row[best] = widest[~beyond], middle[~beyond]
            low[:, best] = np.maximum(low[:, best], cuts[:, ~beyond])
            low[source[best], best] = row[best] + 1
            searched = searched[(low[:, searched] < high[:, searched]).any(axis=0)]
        return start, self._words(source, row)

    def _words(self, source: Rows, rows: Rows) -> Words:
        """Places and hashes of rows of several runs as numbers, ``source`` being the run of each."""
        chosen = [np.flatnonzero(source == r) for r in range(len(self.runs))]
        width = max((run.places.width(rows[c]) for run, c in zip(self.runs, chosen, strict=True)), default=0)
        words = np.empty((len(rows), width + 1), np.uint64)
        for run, c in zip(self.runs, chosen, strict=True):
            words[c] = run.words(rows[c], width, True)
        return words

    def _entries(self, queries: Rows, cursors: Rows, counts: Rows, backward: bool) -> _Entries:
        """``counts`` rows of each run and query from its cursor on, or back from it; by query, place and hash."""
        index, runs, rows = [], [], []
        for r in range(len(self.runs)):
            count = counts[r]
            index.append(np.repeat(np.arange(len(queries)), count))
            step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
            rows.append(np.repeat(cursors[r], count) + (-1 - step if backward else step))
            runs.append(np.full(len(step), r))
            self.runs[r].read(len(step))
        if not index:
            none = np.empty(0, np.int64)
            return _Entries(none, none, none, none, np.empty((0, 1), np.uint64))
        run, row = np.concatenate(runs), np.concatenate(rows)
        weights = np.concatenate([r.weights[chosen] for r, chosen in zip(self.runs, rows, strict=True)])
        words = self._words(run, row)
        return _Entries(queries[np.concatenate(index)], run, row, weights, ~words if backward else words)

    def walk(self, cursors: Rows, k: int | Numbers, backward: bool, columns: Sequence[str] | None) -> Found:
        """The next ``k`` rows of each query from where its runs are cut."""
        cursors = cursors.copy()
        left = np.broadcast_to(np.asarray(k, np.int64), (self.size,)).copy()
        ends = self.low if backward else self.high
        found: list[_Live] = []
        reads = 0
        while True:
            queries = np.flatnonzero((left > 0) & (cursors != ends).any(axis=0))
            if len(queries) == 0:
                return self._found(found, columns)
            if reads >= _READS:  # nothing but dead rows, or nearly
                self._jump(queries, cursors, backward)
            room = np.abs(ends[:, queries] - cursors[:, queries])
            least, most = (max(1, rows // (len(queries) * len(self.runs))) for rows in (_LEAST_READ, _MOST_READ))
            wanted = np.minimum(np.maximum(left[queries], min(least, 16)), most) << min(reads, 32)
            counts = np.minimum(room, wanted)
            entries = self._entries(queries, cursors[:, queries], counts, backward)
            entries = entries.where(self._complete(queries, cursors, entries, counts, room, backward))
            live = self._live(entries, left, backward, columns)
            found.append(live)
            np.subtract.at(left, live.queries, live.weights)
            taken = np.zeros_like(cursors)
            np.add.at(taken, (entries.runs, entries.queries), 1)
            cursors += -taken if backward else taken
            reads += 1

    def _complete(
        self, queries: Rows, cursors: Rows, entries: _Entries, counts: Rows, room: Rows, backward: bool
    ) -> Flags:
        """Which entries come before every row that was not read, so that nothing can be missing among them."""
        place = np.empty(self.size, np.int64)
        place[queries] = np.arange(len(queries))
        place = place[entries.queries]
        complete = np.ones(len(entries.queries), np.bool_)
        for r in range(len(self.runs)):
            unread = np.flatnonzero(counts[r] < room[r])
            if len(unread) == 0:
                continue
            at = cursors[r, queries[unread]] + (-1 - counts[r, unread] if backward else counts[r, unread])
            width = max(entries.words.shape[1] - 1, self.runs[r].places.width(at))
            words = self.runs[r].words(at, width, True)
            next_unread = np.zeros((len(queries), width + 1), np.uint64)
            next_unread[unread] = ~words if backward else words
            bounded = np.zeros(len(queries), np.bool_)
            bounded[unread] = True
            chosen = np.flatnonzero(bounded[place])
            mine = _widened(entries.words[chosen], width, backward)
            complete[chosen] &= less(mine, next_unread[place[chosen]])
        return complete

    def _jump(self, queries: Rows, cursors: Rows, backward: bool) -> None:
        """Move the cursors to the next live row; where there is none, to the end."""
        positions = self.net(queries, cursors[:, queries]) - backward
        ends = self.low if backward else self.high
        exists = (positions >= 0) & (positions < self.net(queries, self.high[:, queries]))
        cursors[:, queries[~exists]] = ends[:, queries[~exists]]
        start, words = self.locate(queries[exists], positions[exists])
        if backward:
            after = np.ones(len(words), np.bool_)
            start = self._positions(start, self.high[:, queries[exists]], words, after, True)
        cursors[:, queries[exists]] = start

    def _live(self, entries: _Entries, left: Numbers, backward: bool, columns: Sequence[str] | None) -> _Live:
        """Entries of equal rows added up, and of the rows left the first ``left`` of each query."""
        order, first = entries.sorted()
        entries = entries.where(order)
        group = np.cumsum(first) - 1
        starts = np.flatnonzero(first)
        net = np.add.reduceat(entries.weights, starts) if len(starts) else entries.weights
        kept = (net > 0) & (_before(entries.queries[starts], np.maximum(net, 0)) < left[entries.queries[starts]])
        chosen = kept[group] if len(group) else np.empty(0, np.bool_)
        entries, first = entries.where(chosen), first[chosen]
        contents = self._contents(entries, columns)
        repeated = np.flatnonzero(~first)
        here, before = contents.take(pa.array(repeated)), contents.take(pa.array(repeated - 1))
        if not same(here.columns, before.columns, len(repeated)).all():
            codes = row_codes(contents.columns)
            order, first = entries.sorted(-codes if backward else codes)
            entries, contents = entries.where(order), contents.take(pa.array(order))
        starts = np.flatnonzero(first)
        net = np.maximum(np.add.reduceat(entries.weights, starts), 0) if len(starts) else entries.weights
        queries = entries.queries[starts]
        weights = np.minimum(net, left[queries] - _before(queries, net))
        live = np.flatnonzero(weights > 0)
        return _Live(queries[live], weights[live], contents.take(pa.array(starts[live])))

    def _contents(self, entries: _Entries, columns: Sequence[str] | None) -> pa.Table:
        names = list(columns if columns is not None else self.layout.content.names)
        parts, places = [self._empty(names)], []
        for r, run in enumerate(self.runs):
            chosen = np.flatnonzero(entries.runs == r)
            if len(chosen):
                places.append(chosen)
                parts.append(run.table.select(names).take(pa.array(entries.rows[chosen])))
        table = pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
        if len(places) <= 1:
            return table
        back = np.empty(table.num_rows, np.int64)
        back[np.concatenate(places)] = np.arange(table.num_rows)
        return table.take(pa.array(back))

    def _empty(self, names: Sequence[str]) -> pa.Table:
        own = [pa.field(TIE, pa.uint64()), pa.field(UPTO, pa.int64())]
        whole = pa.schema([*self.layout.schema, *own])
        return pa.schema([whole.field(name) for name in names]).empty_table()

    def _found(self, parts: Sequence[_Live], columns: Sequence[str] | None) -> Found:
        if not parts:
            none = np.empty(0, np.int64)
            return Found(none, none, self._empty(columns if columns is not None else self.layout.content.names))
        if len(parts) == 1:
            return Found(parts[0].queries, parts[0].weights, parts[0].rows)
        queries = np.concatenate([part.queries for part in parts])
        order = stable_order(queries)
        rows = pa.concat_tables([part.rows for part in parts]).take(pa.array(order))
        return Found(queries[order], np.concatenate([part.weights for part in parts])[order], rows)


@dataclass(frozen=True, slots=True)
class _Live:
    queries: Numbers
    weights: Numbers
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class _Entries:
    """Rows of runs as read: the query and run of each, where it lies, its weight, its place and hash as numbers."""

    queries: Rows
    runs: Rows
    rows: Rows
    weights: Numbers
    words: Words

    def where(self, chosen: Flags | Rows) -> _Entries:
        return _Entries(
            self.queries[chosen], self.runs[chosen], self.rows[chosen], self.weights[chosen], self.words[chosen]
        )

    def sorted(self, codes: Numbers | None = None) -> tuple[Rows, Flags]:
        """The order by query, place, hash (and ``codes``), and where in it one of these changes."""
        keys = [self.queries, *self.words.T] if codes is None else [self.queries, *self.words.T, codes]
        order = lexical_order(keys)
        queries, words = self.queries[order], self.words[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (queries[1:] != queries[:-1]) | ~equal(words[1:], words[:-1])
        if codes is not None:
            first[1:] |= codes[order][1:] != codes[order][:-1]
        return order, first


def _before(queries: Rows, weights: Numbers) -> Numbers:
    """The sum of the weights of the same query before each row; rows lie by query."""
    before = np.cumsum(weights) - weights
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    return before - np.repeat(before[starts], np.diff(np.r_[starts, len(queries)]))


def _widened(words: Words, width: int, backward: bool) -> Words:
    """Places and hashes with the places as ``width`` words: what is added lies beyond their ends."""
    added = width - (words.shape[1] - 1)
    if added == 0:
        return words
    fill = np.full((len(words), added), ~np.uint64(0) if backward else np.uint64(0))
    return np.hstack([words[:, :-1], fill, words[:, -1:]])
