"""d sigma(A) where rows of A only come: -(the sessions that new rows reach) +(the one that they become together).

New rows are joined among themselves first; of what is kept, only sessions that begin within one of these, or reach
into it, are looked at. Work follows the change and the sessions it meets, not the rows or the age of a key.
State: a row of accumulators a session, by key and beginning; bounded by the number of sessions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.circuit.appended import AppendSessions
from headrace.circuit.extremes import Greatest, refuse_gone
from headrace.circuit.flow import CHANGE, INSTANT, Flow, Value, change, computed, kept
from headrace.circuit.hashing import group_hash
from headrace.circuit.local import StructField
from headrace.circuit.operators.aggregate import Accumulate, Segments, arguments_of, part_of, place_of
from headrace.circuit.slots import Groups, Slot
from headrace.circuit.task import batches, current, gathered, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.keys import key_order
from headrace.state.order import Order, SortColumn
from headrace.state.ordered import OrderedArrangement
from headrace.state.ordered_run import PLACE, Layout, arrange
from headrace.state.run import HASH, column
from headrace.state.sorting import lexical_order

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

Numbers = npt.NDArray[np.int64]
START, END = "start", "end"


@dataclass(frozen=True, slots=True)
class Sessions:
    """n sessions of a step's keys: the number of the key of each, its beginning and end in microseconds, what its rows
    add up to, and its place among those that were kept before the step (-1: it was not)."""

    key: Numbers
    start: Numbers
    end: Numbers
    groups: Groups
    kept: Numbers

    def __len__(self) -> int:
        return len(self.key)

    def take(self, index: Numbers) -> Sessions:
        return Sessions(self.key[index], self.start[index], self.end[index], self.groups.take(index), self.kept[index])

    def __add__(self, other: Sessions) -> Sessions:
        """These, then the others."""
        every = np.arange(len(self) + len(other))
        return Sessions(
            np.r_[self.key, other.key], np.r_[self.start, other.start], np.r_[self.end, other.end],
            self.groups.mixed(other.groups, every), np.r_[self.kept, other.kept],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Changes:
    """Sessions that come or go: their weights and instants."""

    sessions: Sessions
    weight: int
    instants: npt.NDArray[np.int32]


class AccumulateSessions(Accumulate):
    """Input ``_h``, ``_w``, ``_i``, ``g0 ..``, ``start``, ``end``, ``a0 ..``; output ``g0 ..``, the session as the next
    key, ``v0 ..``, ``_w``, ``_i``. ``time``: the Arrow type of beginnings and ends."""

    def __init__(self, base: Accumulate, time: pa.DataType) -> None:
        self.__dict__.update(base.__dict__)
        self.time = time
        names = [*self.keys, START, END, *self.stored[len(self.keys) :]]
        types = [*self.types[: len(self.keys)], time, time, *self.types[len(self.keys) :]]
        content = pa.schema(list(zip(names, types, strict=True)))
        self.layout = Layout(content, Order((SortColumn(time, False, True, False),)), tuple(self.keys))

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        refuse_gone(column(table, WEIGHT))
        given, keys, instants = self.joined(table)
        before = self.met(given, keys)
        after, changes = before, []
        for this in self.turns(given, instants):
            after, gone, come = self.turn(after, given.take(this), instants[this])
            changes += [gone, come]
        for one in changes:
            yield from batches(self.shown(one, keys))
        if self.arranged.owned:
            self.keep(before, after, keys)

    def joined(self, table: pa.Table) -> tuple[Sessions, pa.Table, npt.NDArray[np.int32]]:
        """The sessions that new rows of one instant make among themselves, by key, then instant, then beginning; the
        keys with their hash, a row each; and the instant of each session."""
        order, new = key_order(table, self.keys, [column(table, INSTANT), self.micros(table[START])])
        table = table.take(pa.array(order)).combine_chunks()
        instants, key = column(table, INSTANT), np.cumsum(new) - 1
        segment = new.copy()
        segment[1:] |= instants[1:] != instants[:-1]
        begins, ends = _islands(self.micros(table[START]), self.micros(table[END]), segment)
        starts = np.flatnonzero(begins)
        keys = table.select([HASH, *self.keys]).take(pa.array(np.flatnonzero(new)))
        groups = self.totals(Segments(table, np.r_[starts, len(order)], key[starts], np.empty(0, np.int64), keys))
        last = np.r_[starts[1:], len(order)] - 1
        nowhere = np.full(len(starts), -1, np.int64)
        found = Sessions(key[starts], self.micros(table[START])[starts], ends[last], groups, nowhere)
        return found, keys, instants[starts]

    def met(self, given: Sessions, keys: pa.Table) -> Sessions:
        """The kept sessions that new ones meet, each once."""
        arrangement = OrderedArrangement(current().runs.get(self.arranged.name, []), self.layout, self.arranged.reader)
        wanted = keys.take(pa.array(given.key))
        contents = arrangement.groups(column(wanted, HASH), [wanted[k] for k in self.keys])
        low, high = (pa.chunked_array([self.times(of)]) for of in (given.start, given.end))
        order = self.layout.order
        inside = contents.between(order.bounds([low]), order.bounds([high], True))
        earlier = contents.before(order.bounds([low]), 1)
        rows = pa.concat_tables([inside.rows, earlier.rows]).combine_chunks()
        queries = np.r_[inside.queries, earlier.queries]
        reaches = self.micros(rows[END]) >= given.start[queries]
        rows, key = rows.filter(pa.array(reaches)), given.key[queries[reaches]]
        _, once = np.unique(np.c_[key, self.micros(rows[START])], axis=0, return_index=True)
        rows, key = rows.take(pa.array(once)).combine_chunks(), key[once]
        groups = self.read(rows, np.arange(len(once)))
        return Sessions(key, self.micros(rows[START]), self.micros(rows[END]), groups, np.arange(len(once)))

    def turns(self, given: Sessions, instants: npt.NDArray[np.int32]) -> Iterator[Numbers]:
        """The new sessions of each key's first instant, of its second, and so on."""
        new = np.r_[True, given.key[1:] != given.key[:-1]]
        changes = new | np.r_[True, instants[1:] != instants[:-1]]
        number = np.cumsum(changes)
        turn = number - number[np.flatnonzero(new)][given.key]
        for this in range(int(turn.max()) + 1):
            yield np.flatnonzero(turn == this)

    def turn(
        self, now: Sessions, given: Sessions, instants: npt.NDArray[np.int32]
    ) -> tuple[Sessions, Changes, Changes]:
        """The sessions after an instant of some keys; those that went, and those that came."""
        at = np.zeros(1 + max(now.key.max(initial=0), given.key.max()), np.int32)  # 0: not in this turn
        at[given.key] = instants
        in_turn = at[now.key] > 0
        others, old = now.take(np.flatnonzero(~in_turn)), now.take(np.flatnonzero(in_turn))
        both = old + given
        order = lexical_order([both.key, both.start])
        both, is_new = both.take(order), order >= len(old)
        begins, ends = _islands(both.start, both.end, np.r_[True, both.key[1:] != both.key[:-1]])
        starts = np.r_[np.flatnonzero(begins), len(both)]
        last = starts[1:] - 1
        touched = np.logical_or.reduceat(is_new, starts[:-1])
        groups = both.groups.running(starts).take(last[touched])
        first = starts[:-1][touched]
        nowhere = np.full(len(first), -1, np.int64)
        come = Sessions(both.key[first], both.start[first], ends[last[touched]], groups, nowhere)
        is_touched = np.repeat(touched, np.diff(starts))
        gone = both.take(np.flatnonzero(is_touched & ~is_new))
        left = both.take(np.flatnonzero(~is_touched))
        return others + left + come, Changes(gone, -1, at[gone.key]), Changes(come, 1, at[come.key])

    def shown(self, of: Changes, keys: pa.Table) -> pa.Table:
        sessions = of.sessions
        window = pa.StructArray.from_arrays([self.times(sessions.start), self.times(sessions.end)], [START, END])
        columns = [keys[k].take(pa.array(sessions.key)) for k in self.keys] + [window]
        columns += self.results(sessions.groups, np.ones(len(sessions), bool))
        names = [*self.keys, f"g{len(self.keys)}", *[f"v{i}" for i in range(len(self.parts))], WEIGHT, INSTANT]
        weights = np.full(len(sessions), of.weight, np.int64)
        return pa.table([*columns, pa.array(weights), pa.array(of.instants)], names=names)

    def keep(self, before: Sessions, after: Sessions, keys: pa.Table) -> None:
        """The step's run: what was kept and is no more goes, what is new comes."""
        stays = np.zeros(len(before), bool)
        stays[after.kept[after.kept >= 0]] = True
        gone, come = before.take(np.flatnonzero(~stays)), after.take(np.flatnonzero(after.kept < 0))
        both, weights = gone + come, np.r_[np.full(len(gone), -1, np.int64), np.ones(len(come), np.int64)]
        chosen, groups = keys.take(pa.array(both.key)), both.groups
        start = self.times(both.start)
        columns = [chosen[HASH], pa.array(weights), self.layout.order.encode([pa.chunked_array([start])])]
        columns += [*(chosen[k] for k in self.keys), start, self.times(both.end), pa.array(groups.rows)]
        columns += [*map(pa.array, groups.counts), *(total.to_arrow() for total in groups.sums)]
        names = [HASH, WEIGHT, PLACE, *self.layout.content.names]
        run = arrange(pa.table(columns, names=names).cast(self.layout.schema), self.layout)
        if run.num_rows:
            keep(current(), self.arranged.name, run)

    def micros(self, times: pa.ChunkedArray | pa.Array) -> Numbers:
        micros: Numbers = times.cast(pa.int64()).to_numpy()
        return micros

    def times(self, micros: Numbers) -> pa.Array:
        return pa.array(micros).cast(self.time)


def _islands(start: Numbers, end: Numbers, segment: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], Numbers]:
    """Where a session begins among intervals by segment and beginning, and how far each reaches with those before it.

    One that begins where another ends belongs to it.
    """
    reach = Greatest(end).cumsum(np.r_[np.flatnonzero(segment), len(end)]).values
    begins = segment.copy()
    begins[1:] |= start[1:] > reach[:-1]
    return begins, reach


def delta(builder: Builder, this: AppendSessions) -> Flow:

    *others, window = this.keys
    time = "timestamp_ntz" if "timestamp_ntz" in window.type else "timestamp"
    slots: list[Slot] = []
    parts = tuple(part_of(a, slots, place_of(this, a), None) for a in this.accumulations)
    arranged = builder.claim(hashlib.blake2b(f"sessions:{this.fingerprint}".encode(), digest_size=12).hexdigest())
    arguments = arguments_of(this)
    base = Accumulate(
        arranged, tuple(k.type for k in others), tuple(e.type for e in arguments), tuple(slots), parts,
        builder.shape.partitions,
    )  # fmt: skip
    values = [computed(f"g{i}", k) for i, k in enumerate(others)]
    for place, name in enumerate((START, END)):
        local = StructField(window.local, place) if window.local is not None else None
        values.append(Value(name, time, window.column.getField(name), local))
    values += [computed(f"a{i}", e) for i, e in enumerate(arguments)]
    given = builder.delta(this.child).select([*change(), *values])
    taken = [kept(v.name, v.type) for v in values]
    given = given.select([group_hash(taken[: len(others)]), *change(), *taken])
    outputs = [(f"g{i}", k.type) for i, k in enumerate(this.keys)]
    outputs += [(f"v{i}", a.type) for i, a in enumerate(this.accumulations)]
    stage = AccumulateSessions(base, to_arrow(time))
    made = builder.gather(given).then(stage, [*outputs, *CHANGE])
    return made.select([*[computed(f"c{i}", e) for i, e in enumerate(this.results)], *change()])
