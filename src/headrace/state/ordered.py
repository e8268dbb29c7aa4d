"""An ordered arrangement: rows found by key hash and, within a key, by their place in an order.

Built for what follows an order instead of a whole group: top-k, least and greatest, ranks and running sums,
percentiles, range and as-of joins. Several queries are answered at once, column by column. With r runs of up to n
rows, a query costs about r x log n for a rank and r x k rows for the first k; ``select`` costs r x (log n)^2.

Rows of equal content may stand in several runs with weights of either sign; all runs together hold no row less than
0 times. Rows of one place follow each other by a hash of their contents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.order import Bounds, encode
from headrace.state.ordered_run import Layout, OrderedRun, arrange, is_ordered, merge_ordered, summed
from headrace.state.ordered_search import Found, Numbers, Part, Stretches
from headrace.state.phases import PROBE, timed
from headrace.state.places import Flags, Rows
from headrace.state.run import HASH, merge, open_run

QUERY = "_q"  # int64: the query that alone sees a row which is not kept (yet)


def merge_runs(tables: list[pa.Table]) -> pa.Table:
    """One run of several, of whichever kind their arrangement is."""
    return merge_ordered(tables) if is_ordered(tables[0]) else merge(tables)


class OrderedArrangement:
    """Ordered runs read as of one step. ``reader``: who reads, for the count of ``headrace.state.reads``."""

    def __init__(self, paths: Sequence[str], layout: Layout, reader: str) -> None:
        self.paths, self.layout, self.reader = paths, layout, reader

    @timed(PROBE)
    def groups(
        self, hashes: Numbers, keys: Sequence[pa.Array | pa.ChunkedArray] = (), more: pa.Table | None = None
    ) -> Groups:
        """The contents of some keys, one a query; a key may stand in several queries.

        ``keys``: the key columns of the queries, of the layout's types. ``more``: rows that a query sees beside what
        is kept, such as the changes up to an instant: ``_q`` (the query's index), ``_w``, ``_o``, contents, what they
        add.
        """
        if [key.type for key in keys] != [self.layout.content.field(key).type for key in self.layout.keys]:
            raise TypeError(f"keys of types {[str(key.type) for key in keys]} are not those of the arrangement")
        runs = [OrderedRun(open_run(path), self.reader) for path in self.paths]
        parts = [(run, *run.segments(hashes)) for run in runs]
        if keys and parts:
            self._checked(parts, keys)
        if more is not None and more.num_rows:
            alone = Layout(self.layout.content, self.layout.order)
            given = more.select([*[name for name in alone.schema.names if name != HASH], *summed(more)])
            given = given.append_column(HASH, more[QUERY].cast(pa.int64()))
            run = OrderedRun(arrange(given, alone), None)
            parts.append((run, *run.segments(np.arange(len(hashes)))))
        return Groups(Stretches(self.layout, len(hashes), parts))

    def _checked(self, parts: Sequence[Part], keys: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        """Narrow the rows of each hash to those of the key: all of them, once the first and the last have it."""
        wanted = _key_bytes(keys)
        found = [np.flatnonzero(low < high) for _, low, high in parts]
        ends = [np.r_[low[f], high[f] - 1] for (_, low, high), f in zip(parts, found, strict=True)]
        for (run, _, _), at in zip(parts, ends, strict=True):
            run.read(len(at))
        rows = [
            run.table.select(self.layout.keys).take(pa.array(at)) for (run, _, _), at in zip(parts, ends, strict=True)
        ]
        there = _key_bytes(pa.concat_tables(table.replace_schema_metadata(None) for table in rows).columns)
        other = ~_equal(there, wanted.take(pa.array(np.concatenate([np.r_[f, f] for f in found]))))
        start = 0
        for part, queries in zip(parts, found, strict=True):
            ends_differ = other[start : start + 2 * len(queries)].reshape(2, -1).any(axis=0)
            start += 2 * len(queries)
            for query in queries[ends_differ]:  # a collision of hashes: as good as never, so one at a time
                self._narrow(part, int(query), wanted[int(query)])

    def _narrow(self, part: Part, query: int, wanted: pa.Scalar) -> None:
        run, low, high = part
        rows = np.arange(low[query], high[query])
        there = _key_bytes([run.table[key].take(pa.array(rows)) for key in self.layout.keys])
        mine = rows[_equal(there, pa.repeat(wanted, len(rows)))]
        low[query], high[query] = (mine[0], mine[-1] + 1) if len(mine) else (low[query], low[query])


def _key_bytes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    return encode(columns, [False] * len(columns), [False] * len(columns))


def _equal(left: pa.Array, right: pa.Array) -> Flags:
    result: Flags = pc.equal(left, right).to_numpy(zero_copy_only=False)
    return result


class Groups:
    """The contents of some keys. Query i is row i of what ``OrderedArrangement.groups`` was given.

    Results hold the ``columns`` asked for (any of a run's own; all contents when none are named), in the order of
    the arrangement; ``before`` and ``last`` in the opposite one. A bound is a cut between rows, see ``Bounds``.
    """

    def __init__(self, stretches: Stretches) -> None:
        self._at = stretches

    def take(self, queries: Numbers) -> Groups:
        """The contents of some of the queries, each as often as it is named."""
        return Groups(self._at.take(queries))

    @timed(PROBE)
    def first(self, k: int | Numbers, columns: Sequence[str] | None = None) -> Found:
        """The first ``k`` rows of each key; a row of weight w counts as w rows, the last one's is cut to fit."""
        return self._at.walk(self._at.low, k, False, columns)

    @timed(PROBE)
    def last(self, k: int | Numbers, columns: Sequence[str] | None = None) -> Found:
        """The last ``k`` rows of each key, the very last first."""
        return self._at.walk(self._at.high, k, True, columns)

    @timed(PROBE)
    def after(self, bounds: Bounds, k: int | Numbers, columns: Sequence[str] | None = None) -> Found:
        """The next ``k`` rows after each cut."""
        return self._at.walk(self._at.cut(bounds), k, False, columns)

    @timed(PROBE)
    def before(self, bounds: Bounds, k: int | Numbers, columns: Sequence[str] | None = None) -> Found:
        """The ``k`` rows before each cut, the nearest first."""
        return self._at.walk(self._at.cut(bounds), k, True, columns)

    @timed(PROBE)
    def between(
        self, low: Bounds | None = None, high: Bounds | None = None, columns: Sequence[str] | None = None
    ) -> Found:
        """All rows between two cuts; without one, from the first or to the last row."""
        return self._at.all(*self._range(low, high), columns)

    @timed(PROBE)
    def count(self, low: Bounds | None = None, high: Bounds | None = None) -> Numbers:
        """How many rows (weights added) lie between two cuts."""
        start, end = self._range(low, high)
        return self._weight(end) - self._weight(start)

    def rank(self, bounds: Bounds) -> Numbers:
        """How many rows lie before each cut."""
        return self.count(high=bounds)

    @timed(PROBE)
    def totals(self, low: Bounds | None = None, high: Bounds | None = None) -> dict[str, Numbers]:
        """What is added up between two cuts: for each column ``_s..`` of some run its sum, one a query."""
        start, end = self._range(low, high)
        names = dict.fromkeys(name for run in self._at.runs for name in summed(run.table))
        return {name: self._at.running(name, start, end).sum(axis=0) for name in names}

    @timed(PROBE)
    def select(self, positions: Numbers, columns: Sequence[str] | None = None) -> Found:
        """The row at each position (from 0, weights counted): one a query, of weight 1, or none beyond the ends."""
        queries = np.flatnonzero((positions >= 0) & (positions < self.count()))
        starts, _ = self._at.locate(queries, positions[queries])
        cursors, k = self._at.low.copy(), np.zeros(self._at.size, np.int64)
        cursors[:, queries] = starts
        k[queries] = positions[queries] - self._at.net(queries, starts) + 1
        found = self._at.walk(cursors, k, False, columns)
        ends = np.flatnonzero(np.diff(np.r_[found.queries, -1])) if len(found.queries) else np.empty(0, np.int64)
        return Found(found.queries[ends], np.ones(len(ends), np.int64), found.rows.take(pa.array(ends)))

    def _range(self, low: Bounds | None, high: Bounds | None) -> tuple[Rows, Rows]:
        start = self._at.low if low is None else self._at.cut(low)
        end = self._at.high if high is None else self._at.cut(high)
        return start, np.maximum(start, end)

    def _weight(self, cuts: Rows) -> Numbers:
        return self._at.net(np.arange(self._at.size), cuts)
