"""An input of a join that is a join by the same key: kept nowhere, and joined anew under the keys that are asked for.

Both relations of the join below are arranged by that key for it, so that a chain of joins by one key keeps these
alone, as a delta join does; what it would keep between is read from them: as many rows as the result has under the key.
By another key, or where the join below drops pairs that the key brings together, its result is kept: then a delta join
would keep one of the relations once more, by that key, or look at pairs that are in no result (decision 0039).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import INSTANT, Chain, Stage
from headrace.circuit.local import Local, Reference
from headrace.circuit.operators.sides import Side
from headrace.circuit.picked import Picked, Select, Where
from headrace.circuit.task import gathered
from headrace.model.delivery import WEIGHT
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import matches

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

OWN = (HASH, WEIGHT)


@dataclass(frozen=True, slots=True)
class Below:
    """The join that a node is the result of, and what computes the node's columns from its own, the first first."""

    join: node.Join
    computing: tuple[tuple[Local, ...], ...]


def below(of: node.Node, keys: Sequence[node.Expression]) -> Below | None:
    """The join by the same keys that a node is the result of; None where that cannot be joined anew under them."""
    computing: list[tuple[Local, ...]] = []
    places = _places(keys)
    while places is not None and not isinstance(of, node.Join):
        if isinstance(of, node.Shared):
            of = of.of
        elif isinstance(of, node.Project):
            values = tuple(e.local for e in of.expressions if e.local is not None)
            if len(values) < len(of.expressions):
                return None
            computing.insert(0, values)
            places, of = _places([of.expressions[place] for place in places]), of.child
        else:
            return None
    if places is None or not isinstance(of, node.Join) or of.residual or of.condition.local is None:
        return None
    lefts, rights = _places(of.left_keys), _places(of.right_keys)
    if not lefts or rights is None or of.kind not in ("inner", "left"):
        return None
    same = [{left, len(of.left.types) + right} for left, right in zip(lefts, rights, strict=True)]
    if of.kind == "left":  # where a left row meets nothing, the column of the right is NULL and the key is not
        same = [{left} for left in lefts]
    by_these = len(places) == len(same) and all(place in at for place, at in zip(places, same, strict=True))
    return Below(of, tuple(computing)) if by_these else None


def _places(expressions: Sequence[node.Expression]) -> list[int] | None:
    """The ordinals of the columns that expressions are; None where one is no column."""
    places = [int(e.local.name[1:]) for e in expressions if isinstance(e.local, Reference)]
    return places if len(places) == len(expressions) else None


class Rejoined(Side):
    """A side that is not kept; see the module."""

    def __init__(self, letter: str, types: tuple[str, ...], nothing: Arranged, of: Below, sides: list[Side]) -> None:
        super().__init__(letter, types, nothing)
        (self.left, self.right), self.kind = sides, of.join.kind
        condition = of.join.condition.local
        assert condition is not None
        self.holds = Where(condition)
        computing = [[Reference(name) for each in sides for name in each.names], *of.computing]
        self.stages: list[Stage] = [_select(values) for values in computing]

    def kept(self, runs: dict[str, list[str]], hashes: np.ndarray) -> pa.Table:
        rows = gathered(Chain(*self.stages)(self.joined(self.left.kept(runs, hashes), self.right.kept(runs, hashes))))
        if rows is None:
            return self.empty.drop_columns([INSTANT])
        return merge([rows.rename_columns([*self.names, *OWN]).select([*OWN, *self.names])])

    def joined(self, a: pa.Table, b: pa.Table) -> Iterator[Picked]:
        """The rows of the join below, given what is kept of its inputs."""
        rows, hits = matches(column(a, HASH), column(b, HASH))
        weights = pa.table([pa.array(column(a, WEIGHT)[rows] * column(b, WEIGHT)[hits])], names=[WEIGHT])
        columns = {name: (0, name) for name in (HASH, *self.left.names)} | {
            name: (1, name) for name in self.right.names
        }
        pairs = Picked(len(rows), ((a, rows), (b, hits), (weights, None)), {**columns, WEIGHT: (2, WEIGHT)})
        alone = np.ones(a.num_rows, bool)
        for met in self.holds((pairs,)):
            alone[met.sides[0][1]] = False
            yield met
        if self.kind == "left" and alone.any():
            left = a.filter(pa.array(alone))
            for name, type_ in zip(self.right.names, self.right.arrow_types, strict=True):
                left = left.append_column(name, pa.nulls(left.num_rows, type_))
            yield Picked.of(left)


def _select(values: Sequence[Local]) -> Select:
    names = (*(f"c{i}" for i in range(len(values))), *OWN)
    return Select(names, (*values, *(Reference(name) for name in OWN)))


def input_of(builder: Builder, letter: str, child: node.Node, keys: Sequence[node.Expression]) -> Side:
    """One input of a join by keys: kept by them, or joined anew."""
    return _rejoined(builder, letter, child, keys) or Side(
        letter, child.types, builder.arrange(child, keys, strict=True)
    )


def _rejoined(builder: Builder, letter: str, child: node.Node, keys: Sequence[node.Expression]) -> Rejoined | None:
    found = below(child, keys)
    if found is None:
        return None
    sides = [
        _rejoined(builder, name, of, by) or Side(name, of.types, builder.arranged(of, by))
        for name, of, by in (
            ("l", found.join.left, found.join.left_keys), ("r", found.join.right, found.join.right_keys)
        )
    ]  # fmt: skip
    return Rejoined(letter, child.types, builder.nothing(), found, sides)


def chosen(join: node.Join, state: str) -> str:
    """What a join by keys keeps, and why of those of its inputs that are joins; ``state``: of one that keeps both."""
    inputs = {"left": (join.left, join.left_keys), "right": (join.right, join.right_keys)}
    kept = [name for name, each in inputs.items() if below(*each) is None]
    told = [
        state if len(kept) == 2 else state.replace("both inputs", f"the {kept[0]} input", 1) if kept else "nothing."
    ]
    for name, (child, _) in inputs.items():
        if name not in kept:
            told.append(
                f"The {name} one is joined anew from what the join below it keeps by the same key: a delta join, which "
                "keeps less."
            )
        elif _joins(child):
            told.append(
                f"The {name} one is a result of joins: to join it anew (a delta join) would take a relation by one "
                "more key, or more work than it has rows."
            )
    return " ".join(told)


def _joins(of: node.Node) -> bool:
    """Whether a node's rows are those of a join, apart from what follows each row by itself."""
    while isinstance(of, node.Project | node.Filter | node.Shared):
        of = of.of if isinstance(of, node.Shared) else of.child
    return isinstance(of, node.Join) and of.kind in ("inner", "left")
