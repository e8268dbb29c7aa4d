"""d(A x B) = dA x B + A x dB + dA x dB, the instant of a pair being the later of the two.

State: both inputs, arranged by join key, each shared with whoever arranges the same. Bounded by the inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, change, fields, kept
from headrace.circuit.hashing import strict_hash
from headrace.circuit.operators.rejoined import input_of
from headrace.circuit.operators.sides import Inputs, keyed, matched
from headrace.circuit.picked import Picked
from headrace.circuit.task import batches, current
from headrace.model.delivery import WEIGHT
from headrace.state.keys import distinct
from headrace.state.rows import consolidate
from headrace.state.run import HASH, column
from headrace.state.sorting import among, matches

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


class ProbeJoin:
    """Emits every pair that may join: equal hashes. Spark evaluates the whole condition on them.

    A pair that two terms of the rule would emit with opposite weights is never emitted: batch would not see
    it either, and an expression over it might throw.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.left, self.right = inputs, inputs.left, inputs.right

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch | Picked]:
        step = current()
        lefts, rights = self.inputs.deltas(pieces)
        a, b = self.left.sorted(keyed(lefts)[0]), self.right.sorted(keyed(rights)[0])
        old_a = self.left.kept(step.runs, distinct(column(b, HASH)))
        old_b = self.right.kept(step.runs, distinct(column(a, HASH)))
        if old_a.num_rows == old_b.num_rows == 0:
            yield from cancelled([self.joined(Chosen(a), Chosen(b))])
        else:
            yield from self.changed(a, b, old_a, old_b)
        self.left.write(a)
        self.right.write(b)

    def changed(self, a: pa.Table, b: pa.Table, old_a: pa.Table, old_b: pa.Table) -> Iterator[pa.RecordBatch | Picked]:
        """The pairs that two deltas and what was kept of their keys add to the join, and take from it."""
        both = np.intersect1d(distinct(column(a, HASH)), distinct(column(b, HASH)), assume_unique=True)
        a_both, a_only = split(a, both)
        b_both, b_only = split(b, both)
        kept_a, kept_b = Chosen(old_a), Chosen(old_b)
        yield from (pairs for pairs in (self.joined(a_only, kept_b), self.joined(kept_a, b_only)) if pairs.num_rows)
        if len(both):
            terms = [self.joined(a_both, kept_b), self.joined(kept_a, b_both), self.joined(a_both, b_both)]
            yield from cancelled(terms)

    def joined(self, a: Chosen, b: Chosen) -> Picked:
        """Pairs of equal hash (both sorted by it), weights multiplied, the later instant (kept rows have none)."""
        rows, hits = matches(a.column(HASH), b.column(HASH))
        weights = a.column(WEIGHT)[rows] * b.column(WEIGHT)[hits]
        instants = [c.column(INSTANT)[at] for c, at in ((a, rows), (b, hits)) if INSTANT in c.rows.column_names]
        own = pa.table([pa.array(weights), pa.array(np.maximum.reduce(instants))], names=[WEIGHT, INSTANT])
        sides = (self.left.names, self.right.names, own.column_names)
        columns = {name: (side, name) for side, names in enumerate(sides) for name in names}
        return Picked(len(rows), ((a.rows, a.at(rows)), (b.rows, b.at(hits)), (own, None)), columns)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of a table: those at ``places``, in order; None: all."""

    rows: pa.Table
    places: np.ndarray | None = None

    def column(self, name: str) -> np.ndarray:
        values = column(self.rows, name)
        return values if self.places is None else values[self.places]

    def at(self, numbers: np.ndarray) -> np.ndarray:
        """Where in the table the rows of these numbers lie."""
        return numbers if self.places is None else self.places[numbers]


def cancelled(terms: list[Picked]) -> Iterator[pa.RecordBatch | Picked]:
    """The terms without pairs that cancel; in a lone term of insertions, as at a view's first step, none do."""
    terms = [term for term in terms if term.num_rows]
    if len(terms) == 1 and pc.all(pc.greater(terms[0].column(WEIGHT), 0)).as_py():
        yield terms[0]
    elif terms:
        yield from batches(consolidate(pa.concat_tables([term.copied() for term in terms])))


def split(table: pa.Table, hashes: np.ndarray) -> tuple[Chosen, Chosen]:
    """The rows whose hash is among ``hashes``, and the others."""
    chosen = among(column(table, HASH), hashes)
    return Chosen(table, np.flatnonzero(chosen)), Chosen(table, np.flatnonzero(~chosen))


def delta(builder: Builder, this: node.Join) -> Flow:

    left = input_of(builder, "l", this.left, this.left_keys)
    right = input_of(builder, "r", this.right, this.right_keys)
    inputs = Inputs(left, right)
    sides = [*fields(this.left, "l"), *fields(this.right, "r")]
    hashes = strict_hash(this.left_keys), strict_hash(this.right_keys)
    pairs = matched(builder, this, inputs, *hashes, ProbeJoin(inputs), [*sides, *CHANGE])
    named = [kept(f"c{i}", t, name) for i, (name, t) in enumerate(sides)]
    return pairs.where(this.condition).select([*named, *change()])
