"""d limit(A): the rows at positions [m, m + n) of the order after dA - those before it; OFFSET alone: dA - d(first m).

Rows before the first changed one keep their positions, and nothing at or beyond m + n counts: only what lies between
is read, before the step and after each of its instants. State: the input in order; bounded by the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, fields
from headrace.circuit.operators.placed import Placed, Touched, before, placed
from headrace.circuit.operators.recompute import NEXT, VERSION, differences
from headrace.circuit.task import batches, gathered
from headrace.model.delivery import WEIGHT
from headrace.state.rows import consolidate
from headrace.state.run import column

if TYPE_CHECKING:
    from headrace.circuit.build import Builder


class Take:
    """Input as of ``Placed``; output the columns, ``_w``, ``_i``."""

    def __init__(self, given: Placed, start: int, stop: int | None) -> None:
        self.given, self.start, self.stop = given, start, stop

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        touched = self.given.touched(table)
        if self.stop is None:
            left_out = self.window(touched, 0, self.start)
            left_out = left_out.set_column(
                left_out.column_names.index(WEIGHT), WEIGHT, pa.array(-column(left_out, WEIGHT))
            )
            own = touched.table.select(left_out.column_names).cast(left_out.schema)
            yield from batches(consolidate(pa.concat_tables([own, left_out])))
        else:
            yield from batches(self.window(touched, self.start, self.stop))
        self.given.write(touched)

    def window(self, touched: Touched, start: int, stop: int) -> pa.Table:
        """The change of the rows at positions [start, stop): the columns, ``_w``, ``_i``."""
        lowest = self.given.groups(touched.keys).rank(self.given.bounds(touched.lowest))
        chosen = np.flatnonzero(lowest < stop)
        versions = touched.versions(chosen)
        at = chosen[versions.key]
        bounds = self.given.bounds(touched.lowest.take(pa.array(at)))
        found = versions.contents.after(bounds, stop - lowest[at], self.given.names)
        first = lowest[at][found.queries] + before(found)
        weights = np.minimum(first + found.weights, stop) - np.maximum(first, start)
        inside = np.flatnonzero(weights > 0)
        rows = found.rows.take(pa.array(inside))
        queries = found.queries[inside]
        rows = rows.append_column(VERSION, pa.array(versions.begin[queries]))
        rows = rows.append_column(NEXT, pa.array(versions.end[queries]))
        return differences(rows, weights[inside]).select([*self.given.names, WEIGHT, INSTANT])


def delta(builder: Builder, this: node.Limit) -> Flow:

    given, flow = placed(builder, this.child, (), this.order)
    return flow.then(Take(given, this.start, this.stop), [*fields(this), *CHANGE])
