"""d sigma(A, x < t): dA by the value t of its instant; where t moves, the rows of A between its least and its greatest.

t is the one row of a subquery. A row outside that range compares with every t of the step as with any other, so it is
neither read nor shown to the condition; only while t is NULL is all of A looked at.
State: A in the order of x, and t's row; bounded by A. One task of a wide circuit has it all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, fields
from headrace.circuit.hashing import group_hash
from headrace.circuit.operators.matches import LeftAlone
from headrace.circuit.operators.placed import Placed
from headrace.circuit.operators.sides import Inputs, Side, matched
from headrace.circuit.task import batches, current
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.order import Order, SortColumn
from headrace.state.ordered_run import Layout
from headrace.state.rows import row_codes
from headrace.state.run import HASH, column

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

PIECE = 131_072  # pairs


class Crossed:
    """Emits ``l0 ..``, ``r0 ..``, ``_w``, ``_i``: changed rows of the left with every value of the step, and kept ones
    that it may pass with its changes. ``bound``: the value among the right's columns."""

    def __init__(self, inputs: Inputs, given: Placed, bound: str) -> None:
        self.inputs, self.left, self.right = inputs, inputs.left, inputs.right
        self.given, self.bound = given, bound

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lefts, rights = self.inputs.deltas(pieces)
        old = self.right.kept(current().runs, np.zeros(1, np.int64))
        yield from self.pairs(lefts, old)
        yield from self.pairs(lefts, rights)
        if rights.num_rows:
            values = pa.chunked_array([*old[self.bound].chunks, *rights[self.bound].chunks], rights[self.bound].type)
            yield from self.pairs(self.between(values), rights)
        if lefts.num_rows:
            self.given.write(self.given.touched(lefts.rename_columns([HASH, WEIGHT, INSTANT, *self.given.names])))
        self.right.write(self.right.sorted(rights))

    def between(self, values: pa.ChunkedArray) -> pa.Table:
        """The kept rows of the left from the least to the greatest of some values: ``_w`` and its names."""
        low = high = None
        if values.null_count == 0:
            codes = row_codes([self.given.layout.order.encode([values])])
            ends = pa.table([values.take(pa.array([codes.argmin(), codes.argmax()]))], names=list(self.given.ordered))
            low, high = self.given.bounds(ends.slice(0, 1)), self.given.bounds(ends.slice(1, 1), after=True)
        found = self.given.groups(pa.table({HASH: [0]})).between(low, high, self.given.names)
        return found.rows.rename_columns(self.left.names).append_column(WEIGHT, pa.array(found.weights))

    def pairs(self, lefts: pa.Table, rights: pa.Table) -> Iterator[pa.RecordBatch]:
        """Each row with each value, weights multiplied, the later instant (kept rows have none)."""
        names = [*self.left.names, *self.right.names, WEIGHT, INSTANT]
        rows = max(1, PIECE // max(1, rights.num_rows))
        for start in range(0, lefts.num_rows if rights.num_rows else 0, rows):
            some = lefts.slice(start, rows)
            x = some.take(pa.array(np.repeat(np.arange(some.num_rows), rights.num_rows)))
            y = rights.take(pa.array(np.tile(np.arange(rights.num_rows), some.num_rows)))
            instants = np.maximum.reduce([column(t, INSTANT) for t in (x, y) if INSTANT in t.column_names])
            weights = column(x, WEIGHT) * column(y, WEIGHT)
            columns = [x[n] for n in self.left.names] + [y[n] for n in self.right.names]
            yield from batches(pa.table([*columns, pa.array(weights), pa.array(instants)], names=names))


def delta(builder: Builder, this: node.Threshold) -> Flow:

    given = in_order(builder, this)
    left = Side("l", this.left.types, given.arranged)
    right = Side("r", this.right.types, builder.arrange(this.right, ()))
    inputs = Inputs(left, right)
    stage = Crossed(inputs, given, right.names[this.bound])
    columns = [*fields(this.left, "l"), *fields(this.right, "r"), *CHANGE]
    pairs = matched(builder, this, inputs, group_hash(()), group_hash(()), stage, columns)
    return pairs.where(this.condition).then(LeftAlone(left.names[: len(this.types)]), [*fields(this), *CHANGE])


def in_order(builder: Builder, this: node.Threshold) -> Placed:
    """The left by the value that is compared."""
    child = this.left
    sort = SortColumn(to_arrow(child.types[this.value]), nullable=child.nullables[this.value])
    layout = Layout(pa.schema([(name, to_arrow(type_text)) for name, type_text in fields(child)]), Order((sort,)))
    text = repr(("threshold", child.fingerprint, this.value))
    arranged = builder.claim(hashlib.blake2b(text.encode(), digest_size=12).hexdigest(), child.names)
    return Placed(arranged, child.names, (child.names[this.value],), layout)
