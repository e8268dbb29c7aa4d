"""Rows that a store cannot hold: told apart before anything is written, so that they never stop the others.

A store keeps them beside its views, in the transaction that would have held them. Whether a row can be held follows
from its values alone, so that its retraction takes the same way and a row that is put right leaves the quarantine.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import spelled
from headrace.model.delivery import WEIGHT, Delivery
from headrace.sinks.target import Target

QUARANTINE = "headrace_quarantine"  # the table's name in every store

# Values of one type that is not nested -> which of them the store cannot hold, and why in a few words; as often as
# there are reasons.
Judge = Callable[[pa.Array], Iterable[tuple[np.ndarray, str]]]


@dataclass(frozen=True, slots=True)
class Unheld:
    """A row that a store cannot hold: its JSON in ASCII, why, and how many copies come (+) or go (-)."""

    contents: str
    reason: str
    weight: int

    @property
    def id(self) -> str:
        """What tells rows apart where their texts are too long for an index."""
        return hashlib.sha256(self.contents.encode()).hexdigest()[:32]


class Quarantine(ABC):
    """``headrace_quarantine`` of a store: one row a distinct row that cannot be held, with its copies and why."""

    def take(
        self, due: Delivery, unheld: Mapping[str, Sequence[Unheld]], known: Mapping[str, int]
    ) -> Mapping[str, int]:
        """Keeps what ``due``, a delivery that is being written, brings for it; view -> rows that it then holds.

        ``known``: what it held before.
        """
        anew = due.replacements.keys() | due.dropped
        if not unheld and not anew & known.keys():
            return known
        self.clear(anew)
        for view, rows in unheld.items():
            self.change(view, rows, due.commit)
        return self.counts()

    def settle(self, view: str, rows: Sequence[Unheld], commit: int, *, repair: bool) -> bool:
        """Whether it holds just these rows of ``view``; if not, and with ``repair``, it does afterwards."""
        wanted: dict[str, int] = {}
        for row in rows:
            wanted[row.id] = wanted.get(row.id, 0) + row.weight
        if self.copies(view) == wanted:
            return True
        if repair:
            self.clear([view])
            self.change(view, rows, commit)
        return False

    @abstractmethod
    def copies(self, view: str) -> dict[str, int]:
        """Id of a row of the view -> how many copies of it are here."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """View -> rows of it that are here, copies counted."""

    @abstractmethod
    def change(self, view: str, rows: Sequence[Unheld], commit: int) -> None:
        """Adds the weights to the copies; a row without copies goes."""

    @abstractmethod
    def clear(self, views: Iterable[str]) -> None:
        """The views come anew, or go."""


def sifted(delivery: Delivery, targets: Mapping[str, Target], judge: Judge) -> tuple[Delivery, dict[str, list[Unheld]]]:
    """The delivery without the rows that ``judge`` speaks against, and these, view by view."""
    unheld: dict[str, list[Unheld]] = {}

    def held(rows: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        kept = {}
        for view, table in rows.items():
            kept[view], bad = split(targets[view], table, judge)
            if bad:
                unheld[view] = bad
        return kept

    sent = replace(delivery, deltas=held(delivery.deltas), replacements=held(delivery.replacements))
    return sent, unheld


def split(target: Target, table: pa.Table, judge: Judge) -> tuple[pa.Table, list[Unheld]]:
    """The rows of one view that a store can hold, and the others."""
    reasons: dict[int, str] = {}
    for name in target.names:
        start = 0
        for array in table.column(name).chunks:
            for mask, why in _found(array, judge):
                for row in np.flatnonzero(mask):
                    reasons.setdefault(start + int(row), f"{name}: {why}")
            start += len(array)
    if not reasons:
        return table, []
    keep = np.ones(table.num_rows, bool)
    keep[list(reasons)] = False
    unheld = [
        Unheld(_json(table, row, target.names), why, table.column(WEIGHT)[row].as_py())
        for row, why in sorted(reasons.items())
    ]
    return table.filter(pa.array(keep)), unheld


def not_text(strings: pa.Array) -> np.ndarray:
    """Which strings are not valid UTF-8: Spark makes such of binary, and looks at none."""
    mask = np.zeros(len(strings), bool)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        for i, scalar in enumerate(strings):
            try:
                scalar.as_py()
            except UnicodeDecodeError:
                mask[i] = True
    return mask


def _found(array: pa.Array, judge: Judge) -> Iterator[tuple[np.ndarray, str]]:
    """What ``judge`` finds at any depth, as masks over the elements of ``array``."""
    kind = array.type
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("item", kind.item_type)])))
    if pa.types.is_struct(kind):
        for field in array.flatten():
            yield from _found(field, judge)
    elif pa.types.is_list(array.type):
        for inner, why in _found(array.flatten(), judge):
            mask = np.zeros(len(array), bool)
            mask[pc.list_parent_indices(array).to_numpy()[inner]] = True
            yield mask, why
    else:
        for mask, why in judge(array):
            if mask.any():
                yield mask, why


def _json(table: pa.Table, row: int, names: Iterable[str]) -> str:
    """JSON in ASCII: what is not text too has an escape there."""
    return json.dumps({name: _spelled(table.column(name)[row]) for name in names})


def _spelled(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StringScalar):
        return scalar.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
    if isinstance(scalar, pa.StructScalar):
        return {name: _spelled(inner) for name, inner in scalar.items()}
    if isinstance(scalar, pa.ListScalar):  # a map is one of structs
        return [_spelled(inner) for inner in scalar.values]
    try:
        return spelled.value(scalar.as_py())
    except (OverflowError, ValueError):  # a date that Python does not have
        return str(scalar.value)
