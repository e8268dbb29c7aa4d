"""d gamma(A) where gamma asks for the order of a group's values: -(a touched group's row before) +(its row after).

min and max are the first and the last of the values, so a retracted one is followed by the next; a percentile is
found by its position, a mode as the first of the values by frequency; DISTINCT counts a value when its number of
copies leaves zero and takes it back when that returns there. Work follows the change and, for each touched group,
the logarithm of its values.
State: the distinct values of each group with their copies, beside the accumulators; bounded by the input. They are kept
in order; by a hash where they are only counted once and equal ones have equal bits (``copies``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.appended import AppendAggregate, running
from headrace.circuit.copies import COPIES, GROUP, SEGMENT, Copies, Counted, hashed_alike
from headrace.circuit.flow import Flow
from headrace.circuit.operators.aggregate import (
    Accumulate,
    Columns,
    Segments,
    arguments_of,
    grouped,
    part_of,
    place_of,
)
from headrace.circuit.slots import Groups, Part, Slot
from headrace.circuit.task import current, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.order import Order, SortColumn
from headrace.state.ordered import QUERY, OrderedArrangement
from headrace.state.ordered import Groups as Contents
from headrace.state.ordered_run import PLACE, Layout, arrange
from headrace.state.rows import one_array, row_codes
from headrace.state.run import HASH, column
from headrace.state.sorting import lexical_order

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

PERCENTILES = ("percentile", "percentile_disc")
IN_ORDER = ("min", "max", "mode", *PERCENTILES)


@dataclass(frozen=True)
class Values:
    """The values of some arguments in order, by group; rows in which one is NULL have none.

    ``of``: not every value, but each distinct one of those values once, the most frequent first.
    """

    name: str
    arguments: tuple[str, ...]
    layout: Layout
    of: int | None = None

    @property
    def order(self) -> Order:
        return self.layout.order

    def placed(self, table: pa.Table) -> pa.Table:
        """Rows that have values, with their place in the order."""
        return table.append_column(PLACE, self.order.encode([table[name] for name in self.arguments]))

    def kept(self, reader: str, keys: pa.Table, more: pa.Table | None = None) -> Contents:
        """The values of groups (``_h`` and key), a query each."""
        arrangement = OrderedArrangement(current().runs.get(self.name, []), self.layout, reader)
        return arrangement.groups(column(keys, HASH), [keys[k] for k in self.layout.keys], more)


def present(table: pa.Table, arguments: Sequence[str]) -> np.ndarray:
    """The rows that have values in these columns."""
    there = column(table, WEIGHT) != 0
    for name in arguments:
        if table[name].null_count:
            there &= table[name].is_valid().to_numpy()
    return np.flatnonzero(there)


@dataclass(frozen=True, slots=True)
class Pick:
    """A function of the values in order: ``function`` is one of ``IN_ORDER``; see ``node.Accumulation.details``."""

    function: str
    values: int
    fractions: tuple[float, ...] = ()
    several: bool = False
    descending: bool = False

    def of(self, contents: Contents, name: str, queries: int) -> pa.Array:
        """The function's value over the contents of each of ``queries``; NULL over none."""
        if self.function in PERCENTILES:
            return self._percentiles(contents, name)
        found = contents.last(1, [name]) if self.function == "max" else contents.first(1, [name])
        return _aligned(found.rows[name], found.queries, queries)

    def _percentiles(self, contents: Contents, name: str) -> pa.Array:
        counts = contents.count()
        columns = [self._percentile(contents, name, counts, fraction) for fraction in self.fractions]
        if not self.several:
            return pa.array(columns[0], mask=counts == 0)
        lists = pa.array(np.stack(columns, axis=1).reshape(-1))
        offsets = np.arange(len(counts) + 1, dtype=np.int32) * len(columns)
        whole = pa.ListArray.from_arrays(pa.array(offsets), lists)
        return whole.take(pa.array(np.arange(len(counts)), mask=counts == 0))

    def _percentile(self, contents: Contents, name: str, counts: np.ndarray, fraction: float) -> np.ndarray:
        """As Spark computes it, operation by operation: the result must be the same double."""
        if self.function == "percentile_disc":
            at = np.maximum(np.ceil(counts * fraction).astype(np.int64) - 1, 0)
            return self._at(contents, name, counts, at)
        position = (counts - 1) * fraction
        lower, higher = np.floor(position), np.ceil(position)
        low = self._at(contents, name, counts, lower.astype(np.int64))
        high = self._at(contents, name, counts, higher.astype(np.int64))
        with np.errstate(invalid="ignore"):
            between = low + (position - lower) * (high - low)
        values: np.ndarray = np.where((higher == lower) | (low == high), low, between)
        return values

    def _at(self, contents: Contents, name: str, counts: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """The values at positions as doubles; anything where there are none."""
        found = contents.select(counts - 1 - positions if self.descending else positions, [name])
        values = np.zeros(len(counts))
        values[found.queries] = _as_doubles(found.rows[name])
        return values


def _as_doubles(values: pa.ChunkedArray) -> np.ndarray:
    scale = 0
    if pa.types.is_decimal(values.type):  # of at most 15 digits: the quotient of two exact doubles
        scale, digits = values.type.scale, values.combine_chunks().cast(pa.decimal128(38, values.type.scale))
        values = pa.Array.from_buffers(pa.decimal128(38, 0), len(digits), digits.buffers(), offset=digits.offset)
        values = values.cast(pa.int64())
    doubles: np.ndarray = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return doubles / 10.0**scale if scale else doubles


def _aligned(values: pa.ChunkedArray, queries: np.ndarray, size: int) -> pa.Array:
    """The value found by each query; NULL where none was."""
    at = np.full(size, -1, np.int64)
    at[queries] = np.arange(len(queries))
    taken = values.take(pa.array(at, mask=at < 0))
    return one_array(taken)


class AccumulateInOrder(Accumulate):
    """Input and output as of ``Accumulate``. ``picks``: for each result the function of ``values`` it is, or None
    where the next of ``parts`` makes it."""

    def __init__(self, base: Accumulate, values: Sequence[Values | Copies], picks: Sequence[Pick | None]) -> None:
        self.__dict__.update(base.__dict__)
        self.ordered, self.picks = tuple(values), tuple(picks)
        self.runs: dict[str, pa.Table] = {}  # of values kept by their hash: what the step changes
        self.changed: dict[str, Counted] = {}  # values whose numbers of copies the step changes, as far as it was asked

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.runs, self.changed = {}, {}
        yield from super().__call__(pieces)

    def weights(self, given: Segments, slot: Slot) -> np.ndarray:
        if slot.once is None:
            return super().weights(given, slot)
        return self.once(given, self.ordered[slot.once])

    def once(self, given: Segments, values: Values | Copies) -> np.ndarray:
        """For each row +1 where its value enters its group at its instant, -1 where it leaves; 0 otherwise."""
        weights = np.zeros(given.table.num_rows, np.int64)
        change = self.counted(given, values)
        weights[change.rows] = (change.after > 0).astype(np.int64) - (change.before > 0)
        return weights

    def counted(self, given: Segments, values: Values | Copies) -> Counted:
        """How often each value stood in its group before and after each instant at which that changed."""
        if values.name not in self.changed:
            rows = present(given.table, values.arguments)
            if len(rows) == 0:
                self.changed[values.name] = Counted.none()
            elif isinstance(values, Copies):
                self.changed[values.name] = self.by_hash(given, values, rows)
            else:
                self.changed[values.name] = self.in_order(given, values, rows)
        return self.changed[values.name]

    def by_hash(self, given: Segments, values: Copies, rows: np.ndarray) -> Counted:
        index, segment = pa.array(rows), given.segment(rows)
        table = given.table.select([HASH, WEIGHT, *values.keys, *values.arguments]).take(index)
        hashes = column(table, HASH)
        table = table.drop_columns([HASH]).append_column(GROUP, pa.array(given.of_group[segment]))
        table = table.append_column(SEGMENT, pa.array(segment))
        found, self.runs[values.name] = values.counted(self.arranged.reader, table, hashes)
        return Counted(rows[found.rows], found.segments, found.before, found.after)

    def in_order(self, given: Segments, values: Values, rows: np.ndarray) -> Counted:
        placed = values.placed(given.table.take(pa.array(rows)))
        segment = given.segment(rows)
        codes = row_codes([pa.array(given.of_group[segment]), placed[PLACE]])
        order = lexical_order([codes, segment])
        codes = codes[order]
        new = np.r_[True, codes[1:] != codes[:-1]]
        before = self.copies(values, placed.take(pa.array(order[np.flatnonzero(new)])))
        return Counted.running(rows[order], segment[order], column(placed, WEIGHT)[order], new, before)

    def copies(self, values: Values, wanted: pa.Table) -> np.ndarray:
        """How often each of some values (``_h``, key, place) is kept."""
        columns = [wanted[name] for name in values.arguments]
        bounds = values.order.bounds(columns, False), values.order.bounds(columns, True)
        return values.kept(self.arranged.reader, wanted).count(*bounds)

    def values(
        self, given: Segments, before: Groups, existed: np.ndarray, after: Groups, exists: np.ndarray
    ) -> tuple[Columns, Columns]:
        old, new = super().values(given, before, existed, after, exists)
        contents = {
            i: self.contents(given, values)
            for i, values in enumerate(self.ordered)
            if isinstance(values, Values) and any(p is not None and p.values == i for p in self.picks)
        }
        groups = len(given.firsts) - 1
        index = np.arange(len(given))
        earlier = pa.array(np.where(given.is_first, given.of_group, groups + index - 1))
        later = pa.array(groups + index)
        plain = iter(zip(old, new, strict=True))
        results = []
        for pick in self.picks:
            if pick is None:
                results.append(next(plain))
                continue
            found = pick.of(contents[pick.values], self.ordered[pick.values].arguments[-1], groups + len(given))
            results.append((found.take(earlier), found.take(later)))
        return [a for a, _ in results], [b for _, b in results]

    def changes(self, given: Segments, values: Values) -> tuple[pa.Table, np.ndarray]:
        """What the step changes of some values: rows with their place, and the segment of each."""
        if values.of is None:
            rows = present(given.table, values.arguments)
            return values.placed(given.table.take(pa.array(rows))), given.segment(rows)
        counted = self.counted(given, self.ordered[values.of])
        was, there = np.flatnonzero(counted.before), np.flatnonzero(counted.after)
        both = np.r_[was, there]
        table = given.table.take(pa.array(counted.rows[both]))
        weights = np.r_[np.full(len(was), -1, np.int64), np.ones(len(there), np.int64)]
        table = table.set_column(table.column_names.index(WEIGHT), WEIGHT, pa.array(weights))
        table = table.append_column(COPIES, pa.array(np.r_[counted.before[was], counted.after[there]]))
        return values.placed(table), counted.segments[both]

    def contents(self, given: Segments, values: Values) -> Contents:
        """A query for each group as it is kept, then one for each segment as it is after it."""
        placed, segment = self.changes(given, values)
        # Each row is seen by its own segment and the later ones of its group.
        seen = given.firsts[1:][given.of_group[segment]] - segment
        index = np.repeat(np.arange(len(segment)), seen)
        first = np.cumsum(seen) - seen
        query = np.repeat(segment, seen) + np.arange(len(index)) - np.repeat(first, seen)
        groups = len(given.firsts) - 1
        more = placed.take(pa.array(index)).append_column(QUERY, pa.array(groups + query))
        keys = given.groups.take(pa.array(np.r_[np.arange(groups), given.of_group]))
        more = more.select([QUERY, WEIGHT, PLACE, *values.layout.content.names])
        return values.kept(self.arranged.reader, keys, more)

    def write(self, given: Segments, kept: pa.Table, found: np.ndarray, after: Groups) -> None:
        super().write(given, kept, found, after)
        for values in self.ordered:
            if isinstance(values, Copies):
                run = self.runs.get(values.name)
            else:
                run = arrange(self.changes(given, values)[0], values.layout)
            if run is not None and run.num_rows:
                keep(current(), values.name, run)


def delta(builder: Builder, this: node.OrderedAggregate) -> Flow:

    slots: list[Slot] = []
    parts: list[Part] = []
    values: list[Values | Copies] = []
    picks: list[Pick | None] = []
    for accumulation in this.accumulations:
        names = place_of(this, accumulation)
        in_order = _asks_for_order(this, accumulation)
        once = _values(this, accumulation, names, values) if in_order or accumulation.distinct else None
        if in_order:
            assert once is not None
            if accumulation.function == "mode":
                once = _frequencies(this, accumulation, once, values)
            picks.append(Pick(accumulation.function, once, *accumulation.details))
        else:
            parts.append(part_of(accumulation, slots, names, once))
            picks.append(None)
    arranged = builder.claim(_name("aggregate", this.fingerprint))
    for kept in values:
        builder.claim(kept.name)
    keys, arguments = tuple(k.type for k in this.keys), tuple(e.type for e in arguments_of(this))
    base = Accumulate(arranged, keys, arguments, tuple(slots), tuple(parts), builder.shape.partitions)
    return grouped(builder, this, AccumulateInOrder(base, values, picks))


def _asks_for_order(this: node.OrderedAggregate, accumulation: node.Accumulation) -> bool:
    return accumulation.function in IN_ORDER and not (isinstance(this, AppendAggregate) and running(accumulation))


def _values(
    this: node.OrderedAggregate, accumulation: node.Accumulation, names: tuple[str, ...], values: list[Values | Copies]
) -> int:
    """The values of an accumulation's arguments, each taken once, among ``values``, shared or new."""
    types = {n: e.type for n, e in zip(names, accumulation.arguments, strict=True)}
    for number, known in enumerate(values):
        if known.arguments == tuple(types):
            return number
    text = repr(list(dict.fromkeys(e.text for e in accumulation.arguments)))
    asked = any(_asks_for_order(this, a) and place_of(this, a) == names for a in this.accumulations)
    if hashed_alike(types.values()) and not asked:
        keys, only_come = {f"g{i}": k.type for i, k in enumerate(this.keys)}, isinstance(this, AppendAggregate)
        values.append(Copies.of(_name("copies", this.fingerprint, text), keys, types, only_come=only_come))
    else:
        columns = [(n, to_arrow(t)) for n, t in types.items()]
        layout = _layout(this, columns, [SortColumn(arrow, nullable=False) for _, arrow in columns])
        values.append(Values(_name("values", this.fingerprint, text), tuple(types), layout))
    return len(values) - 1


def _frequencies(
    this: node.OrderedAggregate, accumulation: node.Accumulation, of: int, values: list[Values | Copies]
) -> int:
    """The values ``of`` by frequency, those equally frequent in their order; among ``values``, shared or new."""
    counted, (name,) = values[of], values[of].arguments
    assert isinstance(counted, Values)
    _, _, descending = accumulation.details or ((), False, False)
    columns = [(COPIES, pa.int64()), (name, counted.layout.content.field(name).type)]
    order = [
        SortColumn(pa.int64(), descending=True, nullable=False),
        SortColumn(columns[1][1], descending, nullable=False),
    ]
    text = _name("frequencies", counted.name, str(descending))
    known = Values(text, (COPIES, name), _layout(this, columns, order), of)
    if known not in values:
        values.append(known)
    return values.index(known)


def _layout(
    this: node.OrderedAggregate, columns: Sequence[tuple[str, pa.DataType]], order: Sequence[SortColumn]
) -> Layout:
    keys = [(f"g{i}", to_arrow(k.type)) for i, k in enumerate(this.keys)]
    return Layout(pa.schema([*keys, *columns]), Order(tuple(order)), tuple(n for n, _ in keys))


def _name(*what: str) -> str:
    return hashlib.blake2b(":".join(what).encode(), digest_size=12).hexdigest()
