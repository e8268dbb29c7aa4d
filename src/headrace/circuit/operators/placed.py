"""An operator's input by key and, within a key, in an order: its delta, what is kept, the contents at each instant.

State: the input in an ordered arrangement; bounded by the input. Operators over the same input, key and order share
it: the first to ask writes it, the others read it as of the step before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.circuit import added
from headrace.circuit.flow import CHANGE, INSTANT, Columns, Flow, change, computed, fields, kept
from headrace.circuit.hashing import group_hash
from headrace.circuit.operators.aggregate import part_of
from headrace.circuit.slots import Part, Slot
from headrace.circuit.task import current, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.keys import key_order
from headrace.state.order import Bounds, Order, SortColumn
from headrace.state.ordered import QUERY, Groups, OrderedArrangement
from headrace.state.ordered_run import PLACE, Layout, arrange, summed
from headrace.state.ordered_search import Found
from headrace.state.rows import row_codes
from headrace.state.run import HASH, column
from headrace.state.sorting import distinct_numbers, lexical_order

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder
    from headrace.circuit.node import Accumulation, Expression, Node, SortKey

Numbers = npt.NDArray[np.int64]
_REFERENCE = re.compile(r"'(c\d+):")


@dataclass(frozen=True)
class Placed:
    """``names``: the input's columns. ``ordered``: the stored columns that make the order, in its sequence.
    ``slots`` are added up along it; ``parts`` are made of them. ``values``: columns stored beside the input's.

    Stage input: ``_h``, ``_w``, ``_i`` and the layout's contents.
    """

    arranged: Arranged
    names: tuple[str, ...]
    ordered: tuple[str, ...]
    layout: Layout
    slots: tuple[Slot, ...] = ()
    parts: tuple[Part, ...] = ()
    values: tuple[str, ...] = ()

    def groups(self, keys: pa.Table, more: pa.Table | None = None) -> Groups:
        """What is kept of some keys (``_h`` and key columns), a query each, and ``more`` beside it."""
        paths = current().runs.get(self.arranged.name, [])
        arrangement = OrderedArrangement(paths, self.layout, self.arranged.reader)
        return arrangement.groups(column(keys, HASH), [keys[k] for k in self.layout.keys], more)

    def bounds(self, rows: pa.Table, *, after: bool = False) -> Bounds:
        """Cuts just before the peers of some rows, or just after them."""
        return self.layout.order.bounds([rows[name] for name in self.ordered], after)

    def touched(self, table: pa.Table) -> Touched:
        """A step's delta, sorted and placed."""
        return Touched(self, table)

    def write(self, touched: Touched) -> None:
        """Add the step's delta to the arrangement, its instants summed up."""
        if not self.arranged.owned:
            return
        run = arrange(touched.table, self.layout)
        if run.num_rows:
            keep(current(), self.arranged.name, run)


class Touched:
    """A delta by key, then instant: ``keys`` has a row for each touched key, ``of_key`` and ``instants`` an entry for
    each segment: the rows of one key at one instant. ``lowest``: each key's first changed row in the order."""

    def __init__(self, placed: Placed, table: pa.Table) -> None:
        self.placed = placed
        order, new = key_order(table, placed.layout.keys, [column(table, INSTANT)])
        table = table.take(pa.array(order)).combine_chunks()
        place = placed.layout.order.encode([table[name] for name in placed.ordered])
        self.table = added.columns(placed.slots, table.append_column(PLACE, place))
        instants = column(table, INSTANT)
        segment = new.copy()
        segment[1:] |= instants[1:] != instants[:-1]
        starts = np.flatnonzero(segment)
        self.segment = np.cumsum(segment) - 1
        key = np.cumsum(new) - 1
        self.of_key: Numbers = key[starts]
        self.instants = instants[starts]
        self.keys = table.select([HASH, *placed.layout.keys]).take(pa.array(np.flatnonzero(new)))
        by_place = lexical_order([key, row_codes([place])])
        self.lowest = self.table.take(pa.array(by_place[np.flatnonzero(new)]))

    def versions(self, chosen: Numbers) -> Versions:
        """The contents of some keys before the step and after each of its instants that touches them."""
        return Versions(self, chosen)


class Versions:
    """A query for each chosen key as it is kept, then one for each of its segments as it is after it.

    ``key[q]``: the key of query q as an index into ``chosen``; ``begin[q]``: the instant that makes this version, 0
    for what is kept; ``end[q]``: the instant that ends it, 0 when it is the newest.
    """

    def __init__(self, touched: Touched, chosen: Numbers) -> None:
        number = np.full(touched.keys.num_rows, -1, np.int64)
        number[chosen] = np.arange(len(chosen))
        segments = np.flatnonzero(number[touched.of_key] >= 0)
        of = number[touched.of_key[segments]]
        self.key: Numbers = np.r_[np.arange(len(chosen)), of]
        self.begin = np.r_[np.zeros(len(chosen), np.int32), touched.instants[segments]]
        self.end = self._ends(of, len(chosen))
        rows = np.flatnonzero(number[touched.of_key[touched.segment]] >= 0)
        place = np.full(len(touched.of_key), -1, np.int64)
        place[segments] = np.arange(len(segments))
        first = place[touched.segment[rows]]
        # Each row of the delta is seen by its own segment and the later ones of its key.
        last = np.r_[np.flatnonzero(of[1:] != of[:-1]), len(of) - 1][np.searchsorted(distinct_numbers(of), of)]
        seen = last[first] - first + 1
        index = np.repeat(np.arange(len(rows)), seen)
        query = np.repeat(first, seen) + np.arange(len(index)) - np.repeat(np.cumsum(seen) - seen, seen)
        names = [WEIGHT, PLACE, *touched.placed.layout.content.names, *summed(touched.table)]
        more = touched.table.select(names).take(pa.array(rows[index]))
        more = more.append_column(QUERY, pa.array(len(chosen) + query))
        keys = touched.keys.take(pa.array(chosen[self.key]))
        self.contents = touched.placed.groups(keys, more)

    def _ends(self, of: Numbers, keys: int) -> npt.NDArray[np.int32]:
        ends = np.zeros(len(self.key), np.int32)
        begins = self.begin[keys:]
        same = of[1:] == of[:-1]
        ends[keys : len(ends) - 1][same] = begins[1:][same]
        firsts = np.flatnonzero(np.r_[True, ~same]) if len(of) else np.empty(0, np.int64)
        ends[of[firsts]] = begins[firsts]
        return ends


def before(found: Found) -> Numbers:
    """For each row found, how many rows of its query come before it among those found."""
    total = np.cumsum(found.weights) - found.weights
    starts = np.flatnonzero(np.diff(found.queries, prepend=-1))
    return total - np.repeat(total[starts], np.diff(np.r_[starts, len(total)]))


def placed(
    builder: Builder, child: Node, keys: Sequence[Expression], order: Sequence[SortKey],
    accumulations: Sequence[Accumulation] = (), carried: Sequence[Accumulation] = (),
) -> tuple[Placed, Flow]:  # fmt: skip
    """An operator's ordered input and the flow of its delta, each key's rows in one task.

    What ``accumulations`` need is added up along the order; the one argument of each of ``carried`` is stored.
    """
    stored = Stored(child, keys)
    key_names = tuple(stored.name(k, "g") for k in keys)
    ordered = tuple(stored.name(s.expression, "o") for s in order)
    slots: list[Slot] = []
    parts = tuple(part_of(a, slots, tuple(stored.name(e, "a") for e in a.arguments), None) for a in accumulations)
    carried_names = tuple(stored.name(a.arguments[0], "a") for a in carried)
    layout = Layout(stored.schema, order_of(order), key_names)
    by = [[e.text for e in given] for given in (keys, order)]
    text = repr(("placed", child.fingerprint, by, slots, stored.known))
    arranged = builder.claim(hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    return (
        Placed(arranged, child.names, ordered, layout, tuple(slots), parts, carried_names),
        stored.flow(builder, child),
    )


class Stored:
    """What an operator stores of its input: the columns ``c0 ..``, and what keys, orders and functions compute of a
    row, each once."""

    def __init__(self, child: Node, keys: Sequence[Expression]) -> None:
        self.content = list(fields(child))
        self.known: dict[str, str] = {}
        self._values = [group_hash(keys), *change(), *[kept(name, type_text) for name, type_text in self.content]]

    def name(self, expression: Expression, letter: str) -> str:
        """The stored column that holds an expression's value; a new one begins with ``letter``."""
        reference = _REFERENCE.fullmatch(expression.text)
        if reference is not None:
            return reference[1]
        if expression.text not in self.known:
            name = self.known[expression.text] = f"{letter}{len(self.known)}"
            self.content.append((name, expression.type))
            self._values.append(computed(name, expression))
        return self.known[expression.text]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, to_arrow(type_text)) for name, type_text in self.content])

    def flow(self, builder: Builder, child: Node) -> Flow:
        """The child's delta with ``_h``, ``_w``, ``_i`` and what is stored, each key's rows in one task."""
        columns: Columns = ((HASH, "bigint"), *CHANGE, *self.content)
        return replace(builder.gather(builder.delta(child).select(self._values)), columns=columns)


def order_of(order: Sequence[SortKey]) -> Order:
    return Order(
        tuple(SortColumn(to_arrow(s.expression.type), s.descending, s.nulls_last, s.expression.nullable) for s in order)
    )
