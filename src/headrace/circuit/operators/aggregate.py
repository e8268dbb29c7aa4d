"""d gamma(A): for each touched group, -(its row before) +(its row after adding the group's part of dA).

Exact accumulators that add and subtract: counts; sums and means; variances, correlations and regressions by exact
sums of powers and products, rounded once; bitwise functions by how often each bit is set; of values that only come,
the least and the greatest.
State: one row of accumulators a group; bounded by the number of groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.condensed import condensed
from headrace.circuit.flow import CHANGE, INSTANT, Flow, change, computed, kept
from headrace.circuit.hashing import group_hash
from headrace.circuit.moments import OF_ONE, OF_TWO
from headrace.circuit.slots import BITWISE, EXTREMES, Groups, Part, Slot
from headrace.circuit.task import batches, current, gathered, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct, key_order, lookup, newest, same
from headrace.state.run import HASH, column
from headrace.state.sorting import stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

ROWS = "n"  # bigint: rows in the group
Columns = list[pa.Array]


@dataclass(frozen=True, slots=True)
class Segments:
    """A step's rows by group and instant.

    ``table``: sorted so; rows ``starts[s]:starts[s + 1]`` make segment s, of group ``of_group[s]``; segments
    ``firsts[g]:firsts[g + 1]`` are those of group g, whose ``_h`` and key is row g of ``groups``.
    """

    table: pa.Table
    starts: np.ndarray
    of_group: np.ndarray
    firsts: np.ndarray
    groups: pa.Table

    @classmethod
    def of(cls, table: pa.Table, keys: list[str]) -> Segments:
        order, new = key_order(table, keys, [column(table, INSTANT)])
        table = table.take(pa.array(order)).combine_chunks()
        instants = column(table, INSTANT)
        segment = new.copy()
        segment[1:] |= instants[1:] != instants[:-1]
        starts = np.flatnonzero(segment)
        of_group = np.cumsum(new)[starts] - 1
        firsts = np.r_[np.flatnonzero(np.r_[True, of_group[1:] != of_group[:-1]]), len(starts)]
        groups = table.select([HASH, *keys]).take(pa.array(starts[firsts[:-1]]))
        return cls(table, np.r_[starts, table.num_rows], of_group, firsts, groups)

    def __len__(self) -> int:
        return len(self.of_group)

    @property
    def instants(self) -> np.ndarray:
        """The instant of each segment."""
        instants: np.ndarray = column(self.table, INSTANT)[self.starts[:-1]]
        return instants

    def segment(self, rows: np.ndarray) -> np.ndarray:
        """The segment of each of some rows."""
        found: np.ndarray = np.searchsorted(self.starts, rows, "right") - 1
        return found

    @property
    def is_first(self) -> np.ndarray:
        """Which segments are the first of their group."""
        first = np.zeros(len(self), bool)
        first[self.firsts[:-1]] = True
        return first


class Accumulate:
    """Input ``_h``, ``_w``, ``_i``, ``g0 ..``, ``a0 ..``; output ``g0 ..``, ``v0 ..``, ``_w``, ``_i``."""

    def __init__(
        self, arranged: Arranged, keys: tuple[str, ...], arguments: tuple[str, ...], slots: tuple[Slot, ...],
        parts: tuple[Part, ...], partitions: int,
    ) -> None:  # fmt: skip
        self.arranged, self.key_types, self.argument_types, self.slots = arranged, keys, arguments, slots
        self.parts, self.partitions = parts, partitions
        self.keys = [f"g{i}" for i in range(len(keys))]
        self.kinds = [kind for slot in slots for kind in slot.sums]
        counts, sums = [f"n{i}" for i in range(len(slots))], [f"x{i}" for i in range(len(self.kinds))]
        self.stored = [*self.keys, ROWS, *counts, *sums]
        self.types: list[pa.DataType] = [*[to_arrow(t) for t in keys], pa.int64()]
        self.types += [pa.int64()] * len(counts) + [kind.STORED for kind in self.kinds]

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            if self.keys or self.partitions > 1:  # then another task has the one group
                return
            table = self.nothing()
        given = Segments.of(table, self.keys)
        of_group, firsts, is_first = given.of_group, given.firsts, given.is_first
        kept = self.kept(column(given.groups, HASH))
        found = lookup(given.groups, kept, self.keys)
        old = self.read(kept, found)
        after = old.take(of_group) + self.totals(given).running(firsts)
        before = _before(old.take(of_group), after, is_first)
        existed = np.where(is_first, (found >= 0)[of_group], True) if not self.keys else before.rows > 0
        exists = after.rows > 0 if self.keys else np.ones(len(given), bool)
        if (after.rows < 0).any():
            raise ArithmeticError("a group has fewer rows than none")
        values = self.values(given, before, existed, after, exists)
        yield from self.emit(given, values, existed, exists)
        if self.arranged.owned:
            self.write(given, kept, found, after.take(firsts[1:] - 1))

    def nothing(self) -> pa.Table:
        """One row of weight 0: a global aggregate has its row over nothing."""
        columns = [pa.array([0], pa.int64()), pa.array([0], pa.int64()), pa.array([1], pa.int32())]
        columns += [pa.nulls(1, to_arrow(t)) for t in self.argument_types]
        return pa.table(columns, names=[HASH, WEIGHT, INSTANT, *[f"a{i}" for i in range(len(self.argument_types))]])

    def kept(self, hashes: np.ndarray) -> pa.Table:
        empty = pa.schema(list(zip([HASH, WEIGHT, *self.stored], [pa.int64(), pa.int64(), *self.types], strict=True)))
        paths = current().runs.get(self.arranged.name, [])
        hits = Arrangement(paths, self.arranged.reader).probe(distinct(hashes), empty.names, empty)
        return newest(hits, self.keys)

    def read(self, kept: pa.Table, found: np.ndarray) -> Groups:
        """Accumulators of the groups found, zero for those that are not."""
        rows = kept.take(pa.array(found, mask=found < 0))

        def number(name: str) -> np.ndarray:
            values: np.ndarray = rows[name].fill_null(0).to_numpy()
            return values

        sums = [kind.from_arrow(rows[f"x{i}"]) for i, kind in enumerate(self.kinds)]
        return Groups(number(ROWS), [number(f"n{i}") for i in range(len(self.slots))], sums)

    def totals(self, given: Segments) -> Groups:
        """What each segment of rows adds."""
        rows = column(given.table, WEIGHT)
        found = [slot.totals(given.table, self.weights(given, slot), given.starts) for slot in self.slots]
        sums = [s for _, sums in found for s in sums]
        return Groups(np.add.reduceat(rows, given.starts[:-1]), [count for count, _ in found], sums)

    def weights(self, given: Segments, slot: Slot) -> np.ndarray:
        """How often each row counts for a slot."""
        return column(given.table, WEIGHT)

    def values(
        self, given: Segments, before: Groups, existed: np.ndarray, after: Groups, exists: np.ndarray
    ) -> tuple[Columns, Columns]:
        """``v0 ..`` of each segment before and after it."""
        return self.results(before, existed), self.results(after, exists)

    def results(self, groups: Groups, wanted: np.ndarray) -> Columns:
        return [part.of(self.slots, groups, wanted) for part in self.parts]

    def emit(
        self, given: Segments, values: tuple[Columns, Columns], existed: np.ndarray, exists: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        old, new = values
        changed = ~(existed & exists & same(old, new, len(given)))
        keys, instants = given.groups.take(pa.array(given.of_group)), given.instants
        names = [*self.keys, *[f"v{i}" for i in range(len(new))], WEIGHT, INSTANT]
        for side, chosen, weight in ((old, existed & changed, -1), (new, exists & changed, 1)):
            index = pa.array(np.flatnonzero(chosen))
            columns = [keys[k].take(index) for k in self.keys] + [v.take(index) for v in side]
            weights = pa.array(np.full(len(index), weight, np.int64))
            yield from batches(pa.table([*columns, weights, pa.array(instants[chosen])], names=names))

    def write(self, given: Segments, kept: pa.Table, found: np.ndarray, after: Groups) -> None:
        """The step's run: the kept row of each touched group goes, its new one comes."""
        alive = np.flatnonzero(after.rows > 0) if self.keys else np.arange(len(after.rows))
        index = pa.array(alive)
        columns = [given.groups[HASH].take(index), pa.array(np.ones(len(alive), np.int64))]
        columns += [given.groups[k].take(index) for k in self.keys] + [pa.array(after.rows[alive])]
        columns += [pa.array(count[alive]) for count in after.counts]
        columns += [total.take(alive).to_arrow() for total in after.sums]
        new = pa.table(columns, names=[HASH, WEIGHT, *self.stored])
        gone = kept.take(pa.array(found[found >= 0]))
        gone = gone.set_column(1, WEIGHT, pa.array(np.full(gone.num_rows, -1, np.int64)))
        run = pa.concat_tables([gone.select(new.column_names), new.cast(gone.select(new.column_names).schema)])
        keep(current(), self.arranged.name, run.take(pa.array(stable_order(column(run, HASH)))))


def _before(old: Groups, after: Groups, is_first: np.ndarray) -> Groups:
    """Each segment's accumulators before it: the group's kept ones, or those after the group's previous instant."""
    if is_first.all():
        return old
    previous = np.maximum(np.arange(len(is_first)) - 1, 0)
    return old.mixed(after, np.where(is_first, np.arange(len(is_first)), len(is_first) + previous))


def slot_kind(accumulation: node.Accumulation) -> str:
    """The kind of state that an accumulation needs."""
    name = accumulation.function
    if name == "count":
        return "count"
    if name in BITWISE:
        return "bits"
    if name in EXTREMES:
        return EXTREMES[name]
    if name in OF_TWO:
        return "pairs"
    if name in OF_ONE:
        return "moments4" if name in ("skewness", "kurtosis") else "moments2"
    return "sum"


def arguments_of(this: node.Aggregate) -> list[node.Expression]:
    """What the stage sees of a row as ``a0 ..``, each once."""
    return list({e.text: e for a in this.accumulations for e in a.arguments}.values())


def delta(builder: Builder, this: node.Aggregate) -> Flow:

    slots: list[Slot] = []
    parts = tuple(_part(this, a, slots) for a in this.accumulations)
    arranged = builder.claim(hashlib.blake2b(f"aggregate:{this.fingerprint}".encode(), digest_size=12).hexdigest())
    keys, arguments = tuple(k.type for k in this.keys), tuple(e.type for e in arguments_of(this))
    return grouped(builder, this, Accumulate(arranged, keys, arguments, tuple(slots), parts, builder.shape.partitions))


def _part(this: node.Aggregate, accumulation: node.Accumulation, slots: list[Slot]) -> Part:
    return part_of(accumulation, slots, place_of(this, accumulation), None)


def place_of(this: node.Aggregate, accumulation: node.Accumulation) -> tuple[str, ...]:
    """The names of an accumulation's arguments in the stage."""
    places = {e.text: f"a{i}" for i, e in enumerate(arguments_of(this))}
    return tuple(places[e.text] for e in accumulation.arguments)


def part_of(accumulation: node.Accumulation, slots: list[Slot], names: tuple[str, ...], once: int | None) -> Part:
    """The part of an accumulation, its slot among ``slots``, shared or new."""
    slot = Slot(slot_kind(accumulation), names, tuple(e.type for e in accumulation.arguments), once)
    if slot not in slots:
        slots.append(slot)
    function, forgiving = accumulation.function.removeprefix("try_"), accumulation.function.startswith("try_")
    return Part(function, slots.index(slot), accumulation.type, forgiving)


def grouped(builder: Builder, this: node.Aggregate, stage: Accumulate) -> Flow:
    """The flow of an aggregate's ``stage``, its results computed."""

    keys = [computed(f"g{i}", k) for i, k in enumerate(this.keys)]
    arguments = [computed(f"a{i}", e) for i, e in enumerate(arguments_of(this))]
    taken = [kept(v.name, v.type) for v in (*keys, *arguments)]
    changed = condensed(builder.delta(this.child), [*keys, *arguments])
    changed = changed.select([group_hash(taken[: len(keys)]), *change(), *taken])
    outputs = [(f"g{i}", k.type) for i, k in enumerate(this.keys)]
    outputs += [(f"v{i}", a.type) for i, a in enumerate(this.accumulations)]
    made = (builder.gather if this.keys else builder.gather_all)(changed).then(stage, [*outputs, *CHANGE])
    return made.select([*[computed(f"c{i}", e) for i, e in enumerate(this.results)], *change()])
