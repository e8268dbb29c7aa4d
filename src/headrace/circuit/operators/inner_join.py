"""d(A x B) = dA x B + A x dB + dA x dB, the instant of a pair being the later of the two.

State: both inputs, arranged by join key, each shared with whoever arranges the same. Bounded by the inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.task import batches, current, gathered, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct
from headrace.state.rows import consolidate
from headrace.state.run import HASH, column, merge

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

INSTANT = "_i"
SIDE = "_s"


class Side:
    """One input of a join inside a stage: its delta of this step and its arrangement before it."""

    def __init__(self, letter: str, types: tuple[str, ...], arranged: Arranged) -> None:
        self.letter, self.types, self.arranged = letter, types, arranged
        self.names = [f"{letter}{i}" for i in range(len(types))]
        self.arrow_types = [to_arrow(t) for t in types]

    def delta(self, table: pa.Table, mine: np.ndarray) -> pa.Table:
        """This side's rows of the input, sorted by hash."""
        own = table.select([HASH, WEIGHT, INSTANT, *self.names]).take(pa.array(np.flatnonzero(mine)))
        return own.take(pa.array(np.argsort(column(own, HASH), kind="stable"))).combine_chunks()

    def kept(self, runs: dict[str, list[str]], hashes: np.ndarray) -> pa.Table:
        """Kept rows with these hashes (sorted, distinct): ``_h`` (sorted), ``_w``, this side's names; consolidated."""
        types = [pa.int64(), pa.int64(), *self.arrow_types]
        empty = pa.schema(list(zip([HASH, WEIGHT, *self.arranged.columns], types, strict=True)))
        hits = Arrangement(runs.get(self.arranged.name, [])).probe(hashes, empty.names, empty)
        return merge([hits.rows.rename_columns([HASH, WEIGHT, *self.names])])

    def write(self, delta: pa.Table) -> None:
        """Add the step's delta to the arrangement, its instants summed up."""
        if not self.arranged.owned or delta.num_rows == 0:
            return
        stored = delta.select([HASH, WEIGHT, *self.names]).rename_columns([HASH, WEIGHT, *self.arranged.columns])
        if (column(stored, WEIGHT) < 0).any():
            stored = consolidate(stored)
            stored = stored.take(pa.array(np.argsort(column(stored, HASH), kind="stable")))
        keep(current(), self.arranged.name, stored)


class ProbeJoin:
    """Emits every pair that may join: equal hashes. Spark evaluates the whole condition on them.

    A pair that two terms of the rule would emit with opposite weights is never emitted: batch would not see
    it either, and an expression over it might throw.
    """

    def __init__(self, left: Side, right: Side) -> None:
        self.left, self.right = left, right

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        step = current()
        keyed = table[HASH].is_valid().to_numpy()
        side = column(table, SIDE)
        a, b = self.left.delta(table, (side == 0) & keyed), self.right.delta(table, (side == 1) & keyed)
        old_a = self.left.kept(step.runs, distinct(column(b, HASH)))
        old_b = self.right.kept(step.runs, distinct(column(a, HASH)))
        both = np.intersect1d(distinct(column(a, HASH)), distinct(column(b, HASH)), assume_unique=True)
        a_both, a_only = split(a, both)
        b_both, b_only = split(b, both)
        yield from batches(self.joined(a_only, old_b))
        yield from batches(self.joined(old_a, b_only))
        if len(both):
            terms = [self.joined(a_both, old_b), self.joined(old_a, b_both), self.joined(a_both, b_both)]
            yield from batches(consolidate(pa.concat_tables(terms)))
        self.left.write(a)
        self.right.write(b)

    def joined(self, a: pa.Table, b: pa.Table) -> pa.Table:
        """Pairs of equal hash (both sorted by it), weights multiplied, the later instant (kept rows have none)."""
        rows, hits = matches(column(a, HASH), column(b, HASH))
        x, y = a.take(pa.array(rows)), b.take(pa.array(hits))
        weights = column(x, WEIGHT) * column(y, WEIGHT)
        instants = [column(t, INSTANT) for t in (x, y) if INSTANT in t.column_names]
        columns = [x[n] for n in self.left.names] + [y[n] for n in self.right.names]
        names = [*self.left.names, *self.right.names, WEIGHT, INSTANT]
        return pa.table([*columns, pa.array(weights), pa.array(np.maximum.reduce(instants))], names=names)


def split(table: pa.Table, hashes: np.ndarray) -> tuple[pa.Table, pa.Table]:
    """The rows whose hash is among ``hashes``, and the others."""
    if len(hashes) == 0:
        return table.slice(0, 0), table
    among = np.isin(column(table, HASH), hashes)
    return table.take(pa.array(np.flatnonzero(among))), table.take(pa.array(np.flatnonzero(~among)))


def matches(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (i, j) with ``left[i] == right[j]``; ``right`` is sorted."""
    low = np.searchsorted(right, left, "left")
    count = np.searchsorted(right, left, "right") - low
    first = np.cumsum(count) - count
    return np.repeat(np.arange(len(left)), count), np.arange(int(count.sum())) - np.repeat(first - low, count)


def tagged(builder: Builder, this: node.Join, left_hash: Column, right_hash: Column) -> DataFrame:
    """Both inputs' deltas as one: ``_s`` (0 left, 1 right), ``_h``, ``_w``, ``_i``, ``l0 ..``, ``r0 ..``."""

    def side(child: node.Node, number: int, key_hash: Column) -> DataFrame:
        letters = [(this.left, "l", 0), (this.right, "r", 1)]
        columns = [
            (F.col(f"c{i}") if owner == number else F.lit(None).cast(t)).alias(f"{letter}{i}")
            for of, letter, owner in letters
            for i, t in enumerate(of.types)
        ]
        return builder.delta(child).select(F.lit(number).alias(SIDE), key_hash.alias(HASH), WEIGHT, INSTANT, *columns)

    return builder.gather(side(this.left, 0, left_hash).unionAll(side(this.right, 1, right_hash)))


def delta(builder: Builder, this: node.Join) -> DataFrame:
    from headrace.circuit.build import CHANGE, ddl, fields, strict_hash

    left = Side("l", this.left.types, builder.arrange(this.left, this.left_keys))
    right = Side("r", this.right.types, builder.arrange(this.right, this.right_keys))
    both = tagged(builder, this, strict_hash(this.left_keys), strict_hash(this.right_keys))
    pairs = both.mapInArrow(ProbeJoin(left, right), ddl([*fields(this.left, "l"), *fields(this.right, "r"), *CHANGE]))
    names = left.names + right.names
    return pairs.filter(this.condition.column).select(
        *[F.col(n).alias(f"c{i}") for i, n in enumerate(names)], WEIGHT, INSTANT
    )
