"""d(A where v < S) = dA x S as of its instant + the rows of A that S passes as it changes, S being one value.

So with <=, > and >=. NULL on either side shows nothing, so a row whose v is NULL is not kept. Where S only grows, as
the clock does, a row that it has passed can never come back, and is not kept from then on.
State: A in the order of v, and S; bounded by A, or by the rows that a growing S has yet to pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, fields
from headrace.circuit.hashing import group_hash
from headrace.circuit.operators.sides import Inputs, Side, matched
from headrace.circuit.task import batches, current, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.order import Bounds, Order, SortColumn
from headrace.state.ordered import OrderedArrangement
from headrace.state.ordered_run import PLACE, Layout, arrange
from headrace.state.ordered_search import Found
from headrace.state.rows import consolidate, row_codes
from headrace.state.run import HASH, column
from headrace.state.sorting import distinct_numbers

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
COUNTED = ((WEIGHT, pa.int64()), (INSTANT, pa.int32()))
COMPARISONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
ALL_ROWS = 0  # the key hash of the one group that the input makes


@dataclass(frozen=True)
class Ordered:
    """What is kept of the left side: the arrangement's name and layout; ``ordered`` is the column compared."""

    name: str
    layout: Layout
    ordered: str

    @classmethod
    def of(cls, this: node.Threshold) -> Ordered:
        """Equal inputs compared by one column share it; not where each drops what its own value has passed."""
        own = (this.comparison, this.right.fingerprint) if this.passes else ()
        text = repr(("threshold", this.left.fingerprint, this.value, own))
        content = pa.schema([(n, to_arrow(t)) for n, t in fields(this)])
        order = Order((SortColumn(to_arrow(this.left.types[this.value]), nullable=False),))
        name = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        return cls(name, Layout(content, order), this.left.names[this.value])

    def cuts(self, values: pa.Array, comparison: str) -> Bounds:
        """Where values, none of them NULL, part the rows that are shown from the others."""
        return self.layout.order.bounds([values], comparison in ("<=", ">"))

    def between(self, reader: str, low: Bounds | None, high: Bounds | None, queries: int) -> Found:
        """The kept rows between cuts: the columns and their place."""
        arrangement = OrderedArrangement(current().runs.get(self.name, []), self.layout, reader)
        groups = arrangement.groups(np.full(queries, ALL_ROWS))
        return groups.between(low, high, [*self.layout.content.names, PLACE])

    def parted(self, paths: list[str], values: pa.Array, comparison: str) -> bool:
        """Whether one of two values shows a kept row that the other does not."""
        if values.null_count:
            return bool(values.null_count == 1)
        low, high = (self.cuts(values.slice(i, 1), comparison) for i in range(2))
        groups = OrderedArrangement(paths, self.layout, "the clock").groups(np.full(1, ALL_ROWS))
        return bool(groups.count(low, high)[0] or groups.count(high, low)[0])


class Versions:
    """The value before the step (``begins`` 0) and after each instant that changes it; ``valid`` where not NULL."""

    def __init__(self, side: Side, deltas: pa.Table) -> None:
        names = [*side.names, WEIGHT]
        rows = side.kept(current().runs, np.full(1, ALL_ROWS)).select(names)
        instants = distinct_numbers(column(deltas, INSTANT)) if deltas.num_rows else np.empty(0, np.int32)
        values = [self.only(rows, side)]
        for instant in instants:
            changes = deltas.filter(pa.array(column(deltas, INSTANT) == instant)).select(names)
            rows = consolidate(pa.concat_tables([rows, changes.cast(rows.schema)]))
            values.append(self.only(rows, side))
        self.begins = np.r_[np.zeros(1, np.int32), instants]
        self.values: pa.Array = pa.concat_arrays(values)
        self.valid: Flags = self.values.is_valid().to_numpy(zero_copy_only=False)

    @staticmethod
    def only(rows: pa.Table, side: Side) -> pa.Array:
        assert rows.num_rows <= 1, "a value has one row"
        return rows[side.names[0]].combine_chunks() if rows.num_rows else pa.nulls(1, side.arrow_types[0])


class Compare:
    """Emits the columns of the left, ``_w``, ``_i``."""

    def __init__(self, this: node.Threshold, inputs: Inputs, kept: Ordered) -> None:
        self.comparison, self.passes, self.kept, self.inputs = this.comparison, this.passes, kept, inputs
        self.names, self.made = list(this.names), [*this.names, WEIGHT, INSTANT]

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lefts, rights = self.inputs.deltas(pieces)
        if lefts.num_rows == 0 and rights.num_rows == 0:
            return
        rows = lefts.rename_columns([HASH, WEIGHT, INSTANT, *self.names])
        rows = rows.filter(rows[self.kept.ordered].is_valid()).combine_chunks()
        values = Versions(self.inputs.right, rights)
        place = self.kept.layout.order.encode([rows[self.kept.ordered]])
        shown = self.shown(place, values)
        passed = self.passed(values)
        parts = [*self.changed(rows, shown, values), passed]
        made = pa.concat_tables([part.select(self.made) for part in parts])
        yield from batches(consolidate(made) if rights.num_rows else made)
        self.write(rows.append_column(PLACE, place), shown, values, passed)
        self.inputs.right.write(self.inputs.right.sorted(rights))

    def shown(self, place: pa.Array, values: Versions) -> list[Flags]:
        """For each version of the value, which changed rows it shows."""
        wanted = values.values.filter(pa.array(values.valid))
        cuts = self.kept.layout.order.encode([wanted])
        codes = row_codes([pa.concat_arrays([place, cuts])])
        cut, compare = iter(codes[len(place) :]), COMPARISONS[self.comparison]
        nothing = np.zeros(len(place), np.bool_)
        return [compare(codes[: len(place)], next(cut)) if valid else nothing for valid in values.valid]

    def changed(self, rows: pa.Table, shown: list[Flags], values: Versions) -> Iterator[pa.Table]:
        """Changed rows by the value as of their own instant, and wherever it passes them later in the step."""
        version = np.searchsorted(values.begins, column(rows, INSTANT), "right") - 1
        yield rows.filter(pa.array(np.stack(shown)[version, np.arange(rows.num_rows)]))
        for later in range(1, len(shown)):
            sign = shown[later].astype(np.int64) - shown[later - 1]
            at = np.flatnonzero((sign != 0) & (version < later))
            weights = column(rows, WEIGHT)[at] * sign[at]
            yield changes(rows.take(pa.array(at)), weights, np.full(len(at), values.begins[later]))

    def passed(self, values: Versions) -> pa.Table:
        """Kept rows that the value passes: the columns, their place, ``_w`` and ``_i``."""
        wanted = values.values.filter(pa.array(values.valid))
        ranks = row_codes([self.kept.layout.order.encode([wanted])])
        first = np.unique(ranks, return_index=True)[1]
        cuts = self.kept.cuts(wanted.take(pa.array(first)), self.comparison)
        below = self.comparison in ("<", "<=")  # the rows before the cut are shown; NULL cuts so that none is
        at = np.full(len(values.valid), -1 if below else len(first))
        at[values.valid] = ranks
        low, high = np.minimum(at[:-1], at[1:]), np.maximum(at[:-1], at[1:])
        sign = np.sign(at[1:] - at[:-1]) * (1 if below else -1)
        schema = pa.schema([*self.kept.layout.content, (PLACE, cuts.values.type), *COUNTED])
        parts = [schema.empty_table()]
        for from_start, to_end in ((False, False), (True, False), (False, True)):
            moves = np.flatnonzero((sign != 0) & ((low < 0) == from_start) & ((high == len(first)) == to_end))
            if len(moves):
                start, end = None if from_start else some(cuts, low[moves]), None if to_end else some(cuts, high[moves])
                found = self.kept.between(self.inputs.left.arranged.reader, start, end, len(moves))
                move = moves[found.queries]
                rows = changes(found.rows, found.weights * sign[move], values.begins[1:][move])
                parts.append(rows.select(schema.names).cast(schema))
        return pa.concat_tables(parts)

    def write(self, rows: pa.Table, shown: list[Flags], values: Versions, passed: pa.Table) -> None:
        """The step's rows, its instants summed up; of a growing value those that are still ahead of it."""
        if not self.inputs.left.arranged.owned:
            return
        wanted = self.kept.layout.schema.names
        rows = rows.select(wanted)
        if self.passes and values.valid[-1]:
            ahead = shown[-1] if self.comparison in (">", ">=") else ~shown[-1]
            gone = changes(passed, -np.abs(column(passed, WEIGHT)), column(passed, INSTANT))
            gone = gone.append_column(HASH, pa.array(np.full(gone.num_rows, ALL_ROWS)))
            rows = pa.concat_tables([rows.filter(pa.array(ahead)), gone.select(wanted)])
        run = arrange(rows.combine_chunks(), self.kept.layout)
        if run.num_rows:
            keep(current(), self.kept.name, run)


def some(cuts: Bounds, at: Numbers) -> Bounds:
    return Bounds(cuts.values.take(pa.array(at)), cuts.after[at])


def changes(rows: pa.Table, weights: Numbers, instants: npt.NDArray[np.int32]) -> pa.Table:
    """The rows with these weights and instants."""
    rest = [name for name in rows.column_names if name not in (WEIGHT, INSTANT)]
    columns = [*(rows[name] for name in rest), pa.array(weights), pa.array(instants.astype(np.int32))]
    return pa.table(columns, names=[*rest, WEIGHT, INSTANT])


def delta(builder: Builder, this: node.Threshold) -> Flow:

    kept = Ordered.of(this)
    left = Side("l", this.left.types, builder.claim(kept.name, this.names))
    inputs = Inputs(left, Side("r", this.right.types, builder.arrange(this.right, [])))
    stage = Compare(this, inputs, kept)
    return matched(builder, this, inputs, group_hash([]), group_hash([]), stage, [*fields(this), *CHANGE])
