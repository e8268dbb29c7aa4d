"""How often each distinct value stands in its group, kept by a hash of both: what DISTINCT needs where nobody asks for
the values in order.

State: a row for each distinct value of each group with its number of copies, of which the newest counts; where values
only ever come, one row when it comes first. Work follows the values of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.circuit.condensed import EQUAL_BITS
from headrace.circuit.extremes import refuse_gone
from headrace.circuit.task import current
from headrace.circuit.xxhash import xxhash64_onto
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct, key_order, lookup, newest
from headrace.state.run import HASH, column
from headrace.state.sorting import stable_order

COPIES = "copies"  # bigint: how often a value stands in its group
GROUP, SEGMENT = "_g", "_s"  # bigint: a row's group and segment in the step


@dataclass(frozen=True, slots=True)
class Counted:
    """Values whose number of copies changed: a row of each, its segment, and the number before and after that."""

    rows: np.ndarray
    segments: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @classmethod
    def none(cls) -> Counted:
        return cls(*(np.empty(0, np.int64) for _ in range(4)))

    @classmethod
    def running(
        cls, rows: np.ndarray, segments: np.ndarray, weights: np.ndarray, new: np.ndarray, before: np.ndarray
    ) -> Counted:
        """Of rows that are sorted by value, of which ``new`` marks the first, and segment; ``before``: what each value
        has before the step."""
        firsts = np.flatnonzero(new)
        total = np.cumsum(weights)
        after = before[np.cumsum(new) - 1] + total - (total[firsts] - weights[firsts])[np.cumsum(new) - 1]
        # What a value has before an instant is what it had after its last row of an earlier one.
        ends = np.flatnonzero(np.r_[new[1:] | (segments[1:] != segments[:-1]), True])
        previous = np.r_[0, after[ends][:-1]]
        previous[new[np.r_[0, ends[:-1] + 1]]] = before
        return cls(rows[ends], segments[ends], previous, after[ends])


def hashed_alike(types: Iterable[str]) -> bool:
    """Whether equal values of these types always have equal hashes, and unequal ones other bits."""
    return all(EQUAL_BITS.fullmatch(t) for t in types)


@dataclass(frozen=True, slots=True)
class Copies:
    """``keys`` and ``arguments``: the columns of a group and of a value; ``types``: Spark SQL types of the latter."""

    name: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    stored: pa.Schema
    only_come: bool

    @classmethod
    def of(cls, name: str, keys: Mapping[str, str], arguments: Mapping[str, str], *, only_come: bool) -> Copies:
        """Columns with their Spark SQL types; ``only_come``: no value ever goes."""
        columns = [(n, to_arrow(t)) for n, t in (*keys.items(), *arguments.items())]
        stored = pa.schema([(HASH, pa.int64()), (WEIGHT, pa.int64()), *columns, (COPIES, pa.int64())])
        return cls(name, tuple(keys), tuple(arguments), tuple(arguments.values()), stored, only_come)

    def counted(self, reader: str, given: pa.Table, hashes: np.ndarray) -> tuple[Counted, pa.Table]:
        """The values of rows in which none is NULL, and what the step keeps of them.

        ``given``: ``_g``, ``_s``, ``_w``, keys and arguments; ``hashes``: those of the groups. Rows of ``Counted``
        are those of ``given``.
        """
        both = xxhash64_onto(hashes, [given[n] for n in self.arguments], self.types)
        table = given.append_column(HASH, pa.array(both))
        segments = column(given, SEGMENT)
        order, new = key_order(table, [GROUP, *self.arguments], [segments])
        firsts = np.flatnonzero(new)
        wanted = table.select([HASH, *self.keys, *self.arguments]).take(pa.array(order[firsts]))
        names = (*self.keys, *self.arguments)
        arrangement = Arrangement(current().runs.get(self.name, []), reader)
        kept = newest(arrangement.probe(distinct(column(wanted, HASH)), self.stored.names, self.stored), names)
        found = lookup(wanted, kept, names)
        before = np.where(found >= 0, column(kept, COPIES)[found] if kept.num_rows else 0, 0)
        weights = column(given, WEIGHT)[order]
        if self.only_come:
            refuse_gone(weights)
        after = before + np.add.reduceat(weights, firsts)
        counted = Counted.running(order, segments[order], weights, new, before)
        return counted, self.changed(wanted, kept, found, before, after)

    def changed(
        self, wanted: pa.Table, kept: pa.Table, found: np.ndarray, before: np.ndarray, after: np.ndarray
    ) -> pa.Table:
        """The step's run: the kept row of each value whose number changed goes, its new one comes."""
        moved = before != after if not self.only_come else before == 0
        gone = kept.take(pa.array(found[moved & (before > 0)]))
        gone = gone.set_column(gone.column_names.index(WEIGHT), WEIGHT, pa.array(np.full(len(gone), -1, np.int64)))
        there = np.flatnonzero(moved & (after > 0))
        come = wanted.take(pa.array(there))
        come = come.append_column(WEIGHT, pa.array(np.ones(len(there), np.int64)))
        come = come.append_column(COPIES, pa.array(after[there])).select(self.stored.names).cast(self.stored)
        made = pa.concat_tables([gone.select(self.stored.names).cast(self.stored), come])
        return made.take(pa.array(stable_order(column(made, HASH))))
