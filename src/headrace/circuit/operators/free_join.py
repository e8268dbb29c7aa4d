"""d(A |x| B) without an equality: the change x the other side, each pair shown to the condition once.

A row of the left is touched where a changed row of the right matches it, not wherever the right changes: how many
rows match each row of the left is kept, so that one which loses a match of several is left alone. A pair that two
terms of the rule would emit with opposite weights is never looked at. Pairs are made in pieces, so that memory
follows the inputs and what matches.
State: both inputs, each row by its own hash (or a table by its key), and the matched rows of the left unless inner.

Each task of a wide circuit owns a part of the left, by hash, and is shown every change of the right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, Value, change, fields, kept
from headrace.circuit.hashing import group_hash, strict_hash
from headrace.circuit.local import Reference
from headrace.circuit.node import Expression
from headrace.circuit.one_row import TRUE
from headrace.circuit.operators.matches import AT, HEAD, HOLDS, MATCHES, PAIR, WAS, LeftAlone, Settle
from headrace.circuit.operators.pairs import Events, Pairs, both_changed, each_once, left_changed, right_changed
from headrace.circuit.operators.sides import Inputs, Side, matched
from headrace.circuit.task import batches, current, partition
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct
from headrace.state.run import HASH, column

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


class ProbeAll:
    """Emits the pairs that changes make, break or touch: ``l0 ..``, ``r0 ..``, ``_w``, ``_i`` for an inner join; for
    the others ``HEAD`` of ``matches``, ``l0 ..``, ``r0 ..``, and changed rows of the left alone at each version."""

    def __init__(self, kind: str, inputs: Inputs, partitions: int) -> None:
        self.kind, self.inputs, self.partitions = kind, inputs, partitions
        self.left, self.right = inputs.left, inputs.right

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runs, part = current().runs, partition() % self.partitions
        lefts, rights = self.inputs.deltas(pieces)
        a, b = Events.of(lefts, self.left.names), Events.of(rights, self.right.names)
        # What is kept of a side is read whole only where the other side changes.
        old_a = self.contents(self.left, runs, part) if len(b) else self.touched(self.left, runs, a)
        old_b = self.contents(self.right, runs, None) if len(a) else self.touched(self.right, runs, b)
        (rest_a, a), (rest_b, b) = a.over(old_a), b.over(old_b)
        if self.kind != "inner":
            yield from batches(self.alone(a))
        if len(a):
            for pairs in left_changed(a, column(rest_b, WEIGHT), self.kind):
                yield from self.shown(a.rows, rest_b, pairs)
        if len(b):
            for pairs in right_changed(column(rest_a, WEIGHT), b):
                yield from self.shown(rest_a, b.rows, pairs)
        if len(a) and len(b):
            for pairs in both_changed(a, b, self.kind):
                yield from self.shown(a.rows, b.rows, pairs)
        self.left.write(self.left.sorted(lefts))
        self.right.write(self.right.sorted(self.owned(rights, part)))

    def touched(self, side: Side, runs: dict[str, list[str]], events: Events) -> pa.Table:
        """What is kept under the hashes of changed rows."""
        return side.kept(runs, distinct(column(events.rows, HASH)))

    def contents(self, side: Side, runs: dict[str, list[str]], part: int | None) -> pa.Table:
        """All that is kept of a side, or this task's part of it: ``_h``, ``_w``, its names; each row once."""
        stored = [HASH, WEIGHT, *side.arranged.columns]
        kept = Arrangement(runs.get(side.arranged.name, []), side.arranged.reader)
        tables = [table.select(stored) for table in kept.all()]
        if not tables:
            return side.empty.drop_columns([INSTANT])
        rows = pa.concat_tables(tables).rename_columns([HASH, WEIGHT, *side.names])
        if part is not None:
            rows = self.owned(rows, part)
        return each_once(rows)

    def owned(self, rows: pa.Table, part: int) -> pa.Table:
        """The rows whose hash is in this task's part of the hash space."""
        if self.partitions == 1:
            return rows
        upper = (column(rows, HASH) >> 32) + (1 << 31)
        return rows.filter(pa.array((upper * self.partitions) >> 32 == part))

    def shown(self, lefts: pa.Table, rights: pa.Table, pairs: Pairs) -> Iterator[pa.RecordBatch]:
        rows, others = lefts.take(pa.array(pairs.left)), rights.take(pa.array(pairs.right))
        columns = [rows[n] for n in self.left.names] + [others[n] for n in self.right.names]
        names = [*self.left.names, *self.right.names]
        if self.kind == "inner":
            changes = [pa.array(pairs.weight), pa.array(pairs.instant)]
            yield from batches(pa.table([*columns, *changes], names=[*names, WEIGHT, INSTANT]))
            return
        numbers = (pairs.weight, pairs.instant, pairs.matches, pairs.at, pairs.was)
        head = [rows[HASH], pa.array(np.ones(len(pairs.left), bool)), *map(pa.array, numbers)]
        yield from batches(pa.table([*head, *columns], names=[*[n for n, _ in HEAD], *names]))

    def alone(self, a: Events) -> pa.Table:
        """Each changed row of the left with its weight before the step, and each of its changes."""
        count = len(a.first)
        index = np.r_[np.arange(count), a.row]
        at = np.r_[np.zeros(count, np.int32), a.instant]
        none = np.zeros(len(index), np.int64)
        columns = {
            HASH: a.rows[HASH].take(pa.array(index)), PAIR: pa.array(none.astype(bool)),
            WEIGHT: pa.array(np.r_[a.before, a.by]), INSTANT: pa.array(at), MATCHES: pa.array(none), AT: pa.array(at),
            WAS: pa.array(none),
        }  # fmt: skip
        rows = a.rows.take(pa.array(index))
        columns |= {n: rows[n] for n in self.left.names}
        columns |= {n: pa.nulls(len(index), t) for n, t in zip(self.right.names, self.right.arrow_types, strict=True)}
        return pa.table(columns)


def delta(builder: Builder, this: node.Join) -> Flow:

    # Matches are kept under the left's hash, which must be the same where no table is known: at a view's first step.
    left, left_hash = _side(builder, "l", this.left, of_table=this.kind in ("inner", "filter"))
    right, right_hash = _side(builder, "r", this.right, of_table=True)
    inputs = Inputs(left, right)
    kind = "inner" if this.kind == "filter" else this.kind
    sides = [*fields(this.left, "l"), *fields(this.right, "r")]
    columns = [*sides, *CHANGE] if kind == "inner" else [*HEAD, *sides]
    stage = ProbeAll(kind, inputs, builder.shape.partitions)
    pairs = matched(builder, this, inputs, left_hash, right_hash, stage, columns, everywhere={1})
    if kind != "inner":
        met = builder.claim(hashlib.blake2b(f"matches:{this.fingerprint}".encode(), digest_size=12).hexdigest())
        checked = pairs.select([*[kept(n, t) for n, t in columns], holds(this.condition)])
        return checked.then(Settle(kind, left, right, met), [*fields(this), *CHANGE])
    held = pairs if this.condition.local == TRUE else pairs.where(this.condition)
    if this.kind == "filter":
        return held.then(LeftAlone(left.names), [*fields(this), *CHANGE])
    return held.select([*[kept(f"c{i}", t, name) for i, (name, t) in enumerate(sides)], *change()])


def _side(builder: Builder, letter: str, child: node.Node, *, of_table: bool) -> tuple[Side, Value]:
    """A side with its arrangement, and the hash that its rows are found by.

    ``of_table``: what a table keeps of itself, by its key, will do.
    """
    columns = [
        Expression(F.col(n), f"'{n}:", t, nullable, Reference(n))
        for n, t, nullable in zip(child.names, child.types, child.nullables, strict=True)
    ]
    if of_table and isinstance(child, node.Feed) and child.relation in builder.table_keys:
        key = builder.table_keys[child.relation]
        if set(key) <= set(child.ordinals):
            keys = [columns[child.ordinals.index(o)] for o in key]
            return Side(letter, child.types, builder.arrange(child, keys, strict=True)), strict_hash(keys)
    hashed = [c for c in columns if not unhashable(c.type)]
    return Side(letter, child.types, builder.arrange(child, hashed)), group_hash(hashed)


def unhashable(type_text: str) -> bool:
    """Whether Spark has no hash of values of the type, or equal values may hash apart."""
    return "map<" in type_text or "variant" in type_text or " collate " in type_text


def holds(condition: Expression) -> Value:
    """The condition on pairs. On a row alone it must not run where it can throw, as batch would not run it."""
    column = F.when(F.col(PAIR), condition.column).otherwise(F.lit(False))
    local = condition.local
    return Value(HOLDS, "boolean", column, None if local is None or local.throws else local)
