"""Rows of a relation in memory, found by key: never changed; those after a step are made of these and its delta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.delivery import WEIGHT
from headrace.serve.index import Hashes, Index
from headrace.serve.weights import Numbers, Weights
from headrace.state.row_hash import row_hashes
from headrace.state.rows import canonical, consolidate, row_codes
from headrace.state.sorting import distinct_numbers, stable_order

_DEAD = 2  # a part is made anew once one row of so many is gone


class Diverged(Exception):
    """A delta takes rows away that are not there: what is kept is not what was published."""


@dataclass(frozen=True)
class Part:
    """Some rows in the order they came, how often each is there now, and what they are found by."""

    rows: pa.Table
    weights: Weights
    index: Index

    def probe(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """(index of the hash, place) of the rows that are there and have one of these hashes, and perhaps of others."""
        index, places = self.index.probe(hashes)
        there = self.weights.at(places) > 0
        return index[there], places[there]


@dataclass(frozen=True)
class Contents:
    """``key``: the columns that a row is found by; without any it is found by all.

    Work of ``after``: the delta, and as ``Weights.less``; parts merge geometrically.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, rows: pa.Table, key: Sequence[str] = ()) -> Contents:
        """``rows``: the columns and ``_w``."""
        if rows.num_rows and pc.min(rows[WEIGHT]).as_py() < 1:
            rows = consolidate(rows)
        schema = pa.schema([field for field in rows.schema if field.name != WEIGHT])
        return cls(schema, tuple(key))._added(rows)

    def after(self, delta: pa.Table) -> Contents:
        """With a delta (the columns and ``_w``) added. Raises ``Diverged``."""
        if not delta.num_rows:
            return self
        if not self.parts and self.key and pc.min(delta[WEIGHT]).as_py() > 0:
            return self._added(delta)  # each of them once: there is nothing to add up
        delta = consolidate(delta)
        going = pc.less(delta[WEIGHT], 0)
        return self._without(delta.filter(going))._added(delta.filter(pc.invert(going)))

    def table(self) -> pa.Table:
        """All rows with ``_w``, which is 0 for those that are gone. Nothing is copied."""
        tables = [part.rows.append_column(WEIGHT, part.weights.column()) for part in self.parts]
        return pa.concat_tables([self._empty(), *tables])

    def under(self, rows: pa.Table) -> pa.Table:
        """The rows with ``_w`` found by the same as one of ``rows``, and perhaps others whose hashes are the same."""
        hashes = row_hashes([rows[name] for name in self.key or self.schema.names], rows.num_rows)
        return self._at(distinct_numbers(hashes))

    def find(self, key: Mapping[str, pa.Scalar]) -> pa.Table:
        """The rows with ``_w`` whose key columns have these values."""
        wanted = {name: pa.array([key[name]], self.schema.field(name).type) for name in self.key}
        rows = self._at(row_hashes(list(wanted.values()), 1))
        codes = row_codes([_joined(value, rows[name]) for name, value in wanted.items()])
        same = codes[1:] == codes[0]
        return rows if same.all() else rows.filter(pa.array(same))

    @property
    def repeated(self) -> bool:
        """Whether a row may be there more than once."""
        return any(part.weights.most > 1 for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes, those of mapped files counted too."""
        return sum(p.rows.nbytes + 8 * len(p.weights) + p.index.entries.nbytes for p in self.parts)

    def _at(self, hashes: Hashes) -> pa.Table:
        """The rows with ``_w`` that have one of these hashes, and perhaps others; each of them once."""
        found = []
        for part in self.parts:
            _, places = part.probe(hashes)
            if len(places):
                places = distinct_numbers(places) if len(hashes) > 1 else places
                taken = part.rows.take(pa.array(places)).append_column(WEIGHT, pa.array(part.weights.at(places)))
                found.append(taken)
        return pa.concat_tables(found) if found else self._empty()

    def _empty(self) -> pa.Table:
        return self.schema.append(pa.field(WEIGHT, pa.int64())).empty_table()

    def _part(self, rows: pa.Table, weights: Numbers) -> Part:
        rows = rows.combine_chunks()
        named = self.key or rows.column_names
        index = Index.of(row_hashes([rows[name] for name in named], rows.num_rows))
        return Part(rows, Weights.of(weights), index)

    def _added(self, rows: pa.Table) -> Contents:
        if not rows.num_rows:
            return self
        parts = [*self.parts, self._part(rows.select(self.schema.names), rows[WEIGHT].to_numpy())]
        while len(parts) > 1 and len(parts[-2].weights) < 2 * len(parts[-1].weights):
            last, before = parts.pop(), parts.pop()
            parts.append(self._merged([before, last]))
        return Contents(self.schema, self.key, tuple(parts))

    def _merged(self, parts: Sequence[Part]) -> Part:
        weights = [part.weights.all() for part in parts]
        kept = [np.flatnonzero(each) for each in weights]
        rows = [part.rows.take(pa.array(places)) for part, places in zip(parts, kept, strict=True)]
        left = [each[places] for each, places in zip(weights, kept, strict=True)]
        return self._part(pa.concat_tables(rows), np.concatenate(left))

    def _without(self, gone: pa.Table) -> Contents:
        if not gone.num_rows:
            return self
        if not self.parts:
            raise Diverged
        hashes = row_hashes([gone[name] for name in self.key or self.schema.names], gone.num_rows)
        order = stable_order(hashes)
        gone, hashes = gone.take(pa.array(order)), hashes[order]
        probed = [part.probe(hashes) for part in self.parts]
        index = np.concatenate([index for index, _ in probed] or [np.empty(0, np.int64)])
        owner = np.repeat(np.arange(len(probed)), [len(index) for index, _ in probed])
        places = np.concatenate([places for _, places in probed] or [np.empty(0, np.int64)])
        owed = -gone[WEIGHT].to_numpy()
        # One row alone has this hash, and the row to go is there: it is this one. Else rows are compared.
        alone = (np.bincount(index, minlength=gone.num_rows) == 1) & np.r_[True, hashes[1:] != hashes[:-1]]
        alone &= np.r_[hashes[1:] != hashes[:-1], True]
        sure = alone[index]
        taken = [(owner[sure], places[sure], owed[index[sure]])]
        if not alone.all():
            left = ~sure
            taken.append(self._compared(gone, owed, ~alone, owner[left], places[left]))
        owners, at, amounts = (np.concatenate(each) for each in zip(*taken, strict=True))
        parts = list(self.parts)
        for number in distinct_numbers(owners).tolist():
            mine = owners == number
            parts[number] = self._lighter(parts[number], at[mine], amounts[mine])
        return Contents(self.schema, self.key, tuple(part for part in parts if len(part.weights)))

    def _lighter(self, part: Part, places: Numbers, amounts: Numbers) -> Part:
        weights = part.weights.less(places, amounts)
        if weights.at(places).min() < 0:
            raise Diverged
        part = replace(part, weights=weights)
        return part if weights.alive * _DEAD > len(weights) else self._merged([part])

    def _compared(
        self, gone: pa.Table, owed: Numbers, asked: npt.NDArray[np.bool_], owner: npt.NDArray[Any],
        places: Numbers,
    ) -> tuple[npt.NDArray[Any], Numbers, Numbers]:  # fmt: skip
        """(part, place, copies) that go, of rows to go some of whose hashes are those of several rows or of none."""
        spots = np.unique(np.stack([owner, places]), axis=1)
        owner, places = spots[0], spots[1]
        tables = [self.parts[n].rows.take(pa.array(places[owner == n])) for n in range(len(self.parts))]
        there = pa.concat_tables([self.schema.empty_table(), *tables])
        wanted = gone.filter(pa.array(asked)).select(self.schema.names)
        codes = row_codes([_joined(wanted[name], there[name]) for name in self.schema.names])
        owed, has = owed[asked], np.concatenate([p.weights.at(places[owner == n]) for n, p in enumerate(self.parts)])
        due = np.zeros(int(codes.max()) + 1, np.int64)
        np.add.at(due, codes[: len(owed)], owed)
        mine = codes[len(owed) :]
        order = stable_order(mine)  # of equal rows the first give what they have
        held = has[order]
        total = np.cumsum(held) - held
        first = np.r_[True, mine[order][1:] != mine[order][:-1]] if len(order) else np.empty(0, bool)
        before = total - np.repeat(total[first], np.diff(np.r_[np.flatnonzero(first), len(order)]))
        amount = np.clip(due[mine[order]] - before, 0, held)
        if amount.sum() != owed.sum():
            raise Diverged
        return owner[order], places[order], amount


def _joined(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([canonical(a), canonical(b)])
