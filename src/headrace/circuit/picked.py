"""Rows that a stage picks from others, and the stages that pick, rename and compute: they copy a column once, and only
for the rows that are left.

To copy rows is what large steps spend most of their time on. A join's pairs are places in both of its sides until its
condition, and those above it, have said which of them stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.circuit.local import Conjunction, Local, Reference, Rows, materialized
from headrace.circuit.task import batches

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows that lie side by side in several tables, as ``pa.RecordBatch`` gives them as far as expressions ask.

    ``sides``: tables, and the place in it of each row; None: they are all its rows. ``columns``: by their names, each
    the side that has it and its name there.
    """

    num_rows: int
    sides: tuple[tuple[Rows, Places | None], ...]
    columns: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, rows: Rows) -> Picked:
        return cls(rows.num_rows, ((rows, None),), {name: (0, name) for name in rows.schema.names})

    def column(self, name: str) -> pa.Array | pa.ChunkedArray:
        side, own = self.columns[name]
        rows, places = self.sides[side]
        found = rows.column(own)
        return found if places is None else found.take(pa.array(places))

    def filter(self, mask: pa.Array) -> Picked:
        """Those for which it is true."""
        if mask.true_count == self.num_rows:
            return self
        left = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
        sides = ((rows, left if places is None else places[left]) for rows, places in self.sides)
        return Picked(len(left), tuple(sides), self.columns)

    def renamed(self, names: Sequence[str], references: Sequence[Reference]) -> Picked:
        """These of its columns, by other names."""
        return replace(self, columns={n: self.columns[r.name] for n, r in zip(names, references, strict=True)})

    def copied(self) -> pa.Table:
        copies = []
        for side, (rows, places) in enumerate(self.sides):
            own = list(dict.fromkeys(own for of, own in self.columns.values() if of == side))
            whole = rows.select(own)
            copies.append(whole if places is None else whole.take(pa.array(places)))
        return pa.table({name: copies[side].column(own) for name, (side, own) in self.columns.items()})


def copied(pieces: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Pieces some of which may be ``Picked``, for a stage that takes none of these."""
    for piece in pieces:
        if isinstance(piece, Picked):
            yield from batches(piece.copied())
        else:
            yield piece


class Select:
    """A stage: each named expression of the rows."""

    takes_picked = True

    def __init__(self, names: tuple[str, ...], values: tuple[Local, ...]) -> None:
        self.names, self.values = names, values
        self.references = [value for value in values if isinstance(value, Reference)]

    def __call__(self, pieces: Iterable[Any]) -> Iterator[Any]:
        for piece in pieces:
            if isinstance(piece, Picked) and len(self.references) == len(self.values):
                yield piece.renamed(self.names, self.references)
            else:
                columns = [materialized(v.evaluate(piece), piece.num_rows) for v in self.values]
                yield pa.RecordBatch.from_arrays(columns, names=list(self.names))


class Where:
    """A stage: the rows for which a condition is true; those that fail a part of it do not see the next."""

    takes_picked = True

    def __init__(self, condition: Local) -> None:
        self.parts = condition.parts if isinstance(condition, Conjunction) else (condition,)

    def __call__(self, pieces: Iterable[Any]) -> Iterator[Picked]:
        for piece in pieces:
            kept = piece if isinstance(piece, Picked) else Picked.of(piece)
            for part in self.parts:
                kept = kept.filter(materialized(part.evaluate(kept), kept.num_rows))
            if kept.num_rows:
                yield kept
