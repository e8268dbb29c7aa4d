"""d gamma(A): for each touched group, -(its row before) +(its row after adding the group's part of dA).

count, sum and avg by exact accumulators that add and subtract: integers and decimals as limbs of the unscaled
value, floats as a sum that is rounded once. Overflow is checked on what is emitted only, since a change that
cancels may pass through it. State: one row of accumulators a group; bounded by the number of groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit import exact, node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, change, computed
from headrace.circuit.hashing import group_hash
from headrace.circuit.task import batches, current, gathered, keep, partition
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct, key_order, lookup, newest, same
from headrace.state.run import HASH, column

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

ROWS = "n"  # bigint: rows in the group
Sums = exact.Accumulators | exact.IntegerAccumulators


@dataclass(frozen=True, slots=True)
class Part:
    """One accumulation inside the stage: its function, its argument's type (None: counts rows), its result type."""

    function: str
    argument: str | None
    result: str

    @property
    def floating(self) -> bool:
        return self.argument in ("float", "double")

    def accumulators(self) -> type[Sums]:
        return exact.Accumulators if self.floating else exact.IntegerAccumulators

    @property
    def sums(self) -> bool:
        return self.function != "count"


@dataclass
class Groups:
    """Accumulators of n groups (or of groups at instants): row counts, and for each part a count and a sum."""

    rows: np.ndarray
    counts: list[np.ndarray]
    sums: list[Sums | None]

    def take(self, index: np.ndarray) -> Groups:
        return Groups(self.rows[index], [c[index] for c in self.counts], [s and s.take(index) for s in self.sums])

    def __add__(self, other: Groups) -> Groups:
        pairs = zip(self.sums, other.sums, strict=True)
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return Groups(self.rows + other.rows, counts, [a + b if a is not None else None for a, b in pairs])  # type: ignore[operator]

    def running(self, starts: np.ndarray) -> Groups:
        """Running totals within segments (``starts`` ends with the length)."""
        return Groups(
            _running(self.rows, starts),
            [_running(c, starts) for c in self.counts],
            [s and s.cumsum(starts) for s in self.sums],
        )


def _running(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    total = np.cumsum(values)
    before = np.r_[0, total][starts[:-1]]
    result: np.ndarray = total - np.repeat(before, np.diff(starts))
    return result


class Accumulate:
    """Input ``_h``, ``_w``, ``_i``, ``g0 ..``, ``a0 ..``; output ``g0 ..``, ``v0 ..``, ``_w``, ``_i``."""

    def __init__(self, name: str, keys: tuple[str, ...], parts: tuple[Part, ...], partitions: int) -> None:
        self.name, self.key_types, self.parts, self.partitions = name, keys, parts, partitions
        self.keys = [f"g{i}" for i in range(len(keys))]
        self.stored = [*self.keys, ROWS]
        self.types: list[pa.DataType] = [*[to_arrow(t) for t in keys], pa.int64()]
        for i, part in enumerate(parts):
            self.stored += [f"n{i}", f"x{i}"] if part.sums else [f"n{i}"]
            self.types += [pa.int64(), pa.binary()] if part.sums else [pa.int64()]

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            if self.keys or partition() % self.partitions != self.partitions // 2 % self.partitions:
                return
            table = self.nothing()
        order, new = key_order(table, self.keys, [column(table, INSTANT)])
        table = table.take(pa.array(order)).combine_chunks()
        instants = column(table, INSTANT)
        segment = new.copy()
        segment[1:] |= instants[1:] != instants[:-1]
        starts = np.flatnonzero(segment)
        of_group = np.cumsum(new)[starts] - 1
        firsts = np.r_[np.flatnonzero(np.r_[True, of_group[1:] != of_group[:-1]]), len(starts)]
        groups = table.select([HASH, *self.keys]).take(pa.array(starts[firsts[:-1]]))
        kept = self.kept(column(groups, HASH))
        found = lookup(groups, kept, self.keys)
        old = self.read(kept, found)
        change = self.totals(table, np.r_[starts, table.num_rows]).running(firsts)
        after = old.take(of_group) + change
        is_first = np.zeros(len(starts), bool)
        is_first[firsts[:-1]] = True
        before = _before(old.take(of_group), after, is_first)
        existed = np.where(is_first, (found >= 0)[of_group], True) if not self.keys else before.rows > 0
        yield from self.emit(groups.take(pa.array(of_group)), before, after, existed, instants[starts])
        self.write(groups, kept, found, after.take(firsts[1:] - 1))

    def nothing(self) -> pa.Table:
        """One row of weight 0: a global aggregate has its row over nothing."""
        columns = [pa.array([0], pa.int64()), pa.array([0], pa.int64()), pa.array([1], pa.int32())]
        names = [HASH, WEIGHT, INSTANT]
        for i, part in enumerate(self.parts):
            if part.argument is not None:
                columns.append(pa.nulls(1, to_arrow(part.argument)))
                names.append(f"a{i}")
        return pa.table(columns, names=names)

    def kept(self, hashes: np.ndarray) -> pa.Table:
        empty = pa.schema(list(zip([HASH, WEIGHT, *self.stored], [pa.int64(), pa.int64(), *self.types], strict=True)))
        hits = Arrangement(current().runs.get(self.name, [])).probe(distinct(hashes), empty.names, empty)
        return newest(hits, self.keys)

    def read(self, kept: pa.Table, found: np.ndarray) -> Groups:
        """Accumulators of the groups found, zero for those that are not."""
        rows = kept.take(pa.array(found, mask=found < 0))

        def number(name: str) -> np.ndarray:
            values: np.ndarray = rows[name].fill_null(0).to_numpy()
            return values

        sums = [p.accumulators().from_arrow(rows[f"x{i}"]) if p.sums else None for i, p in enumerate(self.parts)]
        return Groups(number(ROWS), [number(f"n{i}") for i in range(len(self.parts))], sums)

    def totals(self, table: pa.Table, starts: np.ndarray) -> Groups:
        """What each segment of rows adds."""
        weights = column(table, WEIGHT)
        counts, sums = [], []
        for i, part in enumerate(self.parts):
            present = weights if part.argument is None else np.where(table[f"a{i}"].is_valid().to_numpy(), weights, 0)
            counts.append(np.add.reduceat(present, starts[:-1]))
            sums.append(_sums(part, table, i, present, starts))
        return Groups(np.add.reduceat(weights, starts[:-1]), counts, sums)

    def emit(
        self, keys: pa.Table, before: Groups, after: Groups, existed: np.ndarray, instants: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        exists = after.rows > 0 if self.keys else np.ones(len(instants), bool)
        if (after.rows < 0).any():
            raise ArithmeticError("a group has fewer rows than none")
        old, new = self.results(before, existed), self.results(after, exists)
        changed = ~(existed & exists & same(old, new, len(instants)))
        names = [*self.keys, *[f"v{i}" for i in range(len(self.parts))], WEIGHT, INSTANT]
        for values, chosen, weight in ((old, existed & changed, -1), (new, exists & changed, 1)):
            index = pa.array(np.flatnonzero(chosen))
            columns = [keys[k].take(index) for k in self.keys] + [v.take(index) for v in values]
            weights = pa.array(np.full(len(index), weight, np.int64))
            yield from batches(pa.table([*columns, weights, pa.array(instants[chosen])], names=names))

    def results(self, groups: Groups, wanted: np.ndarray) -> list[pa.Array]:
        return [_result(p, groups.counts[i], groups.sums[i], wanted) for i, p in enumerate(self.parts)]

    def write(self, groups: pa.Table, kept: pa.Table, found: np.ndarray, after: Groups) -> None:
        """The step's run: the kept row of each touched group goes, its new one comes."""
        alive = np.flatnonzero(after.rows > 0) if self.keys else np.arange(len(after.rows))
        index = pa.array(alive)
        columns = [groups[HASH].take(index), pa.array(np.ones(len(alive), np.int64))]
        columns += [groups[k].take(index) for k in self.keys] + [pa.array(after.rows[alive])]
        for count, total in zip(after.counts, after.sums, strict=True):
            columns.append(pa.array(count[alive]))
            if total is not None:
                columns.append(total.take(alive).to_arrow())
        new = pa.table(columns, names=[HASH, WEIGHT, *self.stored])
        gone = kept.take(pa.array(found[found >= 0]))
        gone = gone.set_column(1, WEIGHT, pa.array(np.full(gone.num_rows, -1, np.int64)))
        run = pa.concat_tables([gone.select(new.column_names), new.cast(gone.select(new.column_names).schema)])
        keep(current(), self.name, run.take(pa.array(np.argsort(column(run, HASH), kind="stable"))))


def _before(old: Groups, after: Groups, is_first: np.ndarray) -> Groups:
    """Each segment's accumulators before it: the group's kept ones, or those after the group's previous instant."""
    if is_first.all():
        return old
    previous = np.maximum(np.arange(len(is_first)) - 1, 0)
    index = np.where(is_first, np.arange(len(is_first)), len(is_first) + previous)

    def mixed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        values: np.ndarray = np.r_[a, b][index]
        return values

    sums: list[Sums | None] = []
    for a, b in zip(old.sums, after.sums, strict=True):
        if a is None or b is None:
            sums.append(None)
            continue
        encoded = pa.chunked_array([a.to_arrow(), b.to_arrow()]).take(pa.array(index))
        sums.append(type(a).from_arrow(encoded))
    counts = [mixed(a, b) for a, b in zip(old.counts, after.counts, strict=True)]
    return Groups(mixed(old.rows, after.rows), counts, sums)


def _sums(part: Part, table: pa.Table, i: int, weights: np.ndarray, starts: np.ndarray) -> Sums | None:
    if not part.sums:
        return None
    values = table[f"a{i}"].combine_chunks()
    if part.floating:
        doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return exact.accumulate(doubles, weights, starts)
    return exact.IntegerAccumulators.accumulate(exact.integer_limbs(values), weights, starts)


def _result(part: Part, counts: np.ndarray, total: Sums | None, wanted: np.ndarray) -> pa.Array:
    """The aggregate's value of each group, NULL where nothing was counted; raises where a wanted one overflows."""
    if total is None:
        return pa.array(counts)
    some = counts > 0
    safe = np.where(some, counts, 1)
    arrow = to_arrow(part.result)
    if isinstance(total, exact.Accumulators):
        doubles = total.round() if part.function == "sum" else total.mean(safe)
        return pa.array(doubles, mask=~some)
    if pa.types.is_decimal(arrow):
        assert part.argument is not None
        scale = to_arrow(part.argument).scale if part.argument.startswith("decimal") else 0
        if part.function == "sum":
            values, overflow = total.to_decimal(arrow.precision, arrow.scale)
        else:
            values, overflow = total.mean_decimal(safe, arrow.precision, arrow.scale, scale)
        _check(part, overflow & some & wanted)
        return pc.if_else(pa.array(some), values, pa.nulls(len(some), arrow))
    if part.function == "avg":
        return pa.array(total.mean_double(safe), mask=~some)
    integers, overflow = total.to_int64()
    _check(part, overflow & some & wanted)
    return pa.array(integers, mask=~some)


def _check(part: Part, overflow: np.ndarray) -> None:
    if overflow.any():
        raise ArithmeticError(f"[ARITHMETIC_OVERFLOW] {part.function} of {part.argument} does not fit {part.result}")


def delta(builder: Builder, this: node.Aggregate) -> Flow:

    keys = [computed(f"g{i}", k) for i, k in enumerate(this.keys)]
    arguments = [computed(f"a{i}", a.argument) for i, a in enumerate(this.accumulations) if a.argument is not None]
    changed = builder.delta(this.child).select([group_hash(this.keys), *change(), *keys, *arguments])
    key_types = tuple(k.type for k in this.keys)
    parts = tuple(Part(a.function, a.argument.type if a.argument else None, a.type) for a in this.accumulations)
    name = hashlib.blake2b(f"aggregate:{this.fingerprint}".encode(), digest_size=12).hexdigest()
    builder.own(name)
    stage = Accumulate(name, key_types, parts, builder.shape.partitions)
    outputs = [(f"g{i}", t) for i, t in enumerate(key_types)] + [(f"v{i}", p.result) for i, p in enumerate(parts)]
    grouped = builder.gather(changed).then(stage, [*outputs, *CHANGE])
    return grouped.select([*[computed(f"c{i}", e) for i, e in enumerate(this.results)], *change()])
