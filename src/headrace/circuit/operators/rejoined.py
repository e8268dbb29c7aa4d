"""An input of a join that is a join by the same key: kept nowhere, and joined anew under the keys that are asked for.

Both relations of the join below are arranged by that key for it, so that a chain of joins by one key keeps these
alone, as a delta join does; what it would keep between is made from them. First is looked which of the keys the result
has, in their order alone: so no more rows are read than the result has (of those that meet in it, each once), and made.
Any other result of joins is kept: one by another key, as a delta join would keep a relation once more, by that key; one
of which more is asked than equal keys, as its rows are fewer than its pairs; one that computes, as it would again; and
one of more than ``MOST`` relations, as each join of the chain would read them all (decision 0039).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit import node
from headrace.circuit.flow import INSTANT
from headrace.circuit.local import Reference
from headrace.circuit.operators.sides import Side
from headrace.circuit.picked import Picked, Select, Where, copied
from headrace.circuit.task import gathered
from headrace.model.delivery import WEIGHT
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import matches

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

MOST = 4  # relations that an input is joined anew from
OWN = (HASH, WEIGHT)


@dataclass(frozen=True, slots=True)
class Below:
    """The join that a node is the result of, and of which of its columns, by their ordinals, in their order."""

    join: node.Join
    columns: tuple[int, ...]


def below(of: node.Node, keys: Sequence[node.Expression]) -> Below | None:
    """The join by the same keys that a node is the result of; None where that is not joined anew under them."""
    return _within(of, keys)[0]


def _within(of: node.Node, keys: Sequence[node.Expression]) -> tuple[Below | None, int]:
    """The same, and from how many arrangements the node's rows under the keys are made."""
    found = _below(of, keys)
    if found is None:
        return None, 1
    join = found.join
    count = _within(join.left, join.left_keys)[1] + _within(join.right, join.right_keys)[1]
    return (found, count) if count <= MOST else (None, 1)


def _below(of: node.Node, keys: Sequence[node.Expression]) -> Below | None:
    columns: Sequence[int] = range(len(of.types))
    while not isinstance(of, node.Join):
        if isinstance(of, node.Shared):
            of = of.of
        elif isinstance(of, node.Project) and (given := _places(of.expressions)) is not None:
            columns, of = [given[place] for place in columns], of.child
        else:
            return None
    lefts, places = _places(of.left_keys), _places(keys)
    if not lefts or places is None or of.residual or of.kind not in ("inner", "left") or of.condition.local is None:
        return None
    by = [columns[place] for place in places]
    same = len(by) == len(lefts) and all(place in _equal(of, left) for place, left in zip(by, lefts, strict=True))
    return Below(of, tuple(columns)) if same and _places(of.right_keys) is not None else None


def _equal(of: node.Node, place: int) -> set[int]:
    """The columns that have in every row of a node the value of one, by their ordinals, as its joins show."""
    if isinstance(of, node.Shared):
        return _equal(of.of, place)
    if isinstance(of, node.Filter):
        return _equal(of.child, place)
    if isinstance(of, node.Project):
        given = [next(iter(_places([e]) or [-1])) for e in of.expressions]
        found = _equal(of.child, given[place]) if given[place] >= 0 else set[int]()
        return {place} | {other for other, below_it in enumerate(given) if below_it in found}
    if not isinstance(of, node.Join):
        return {place}
    width = len(of.left.types)
    if of.kind != "inner" or of.condition.local is None:  # a column of the right may be NULL where its equal is not
        return _equal(of.left, place) if place < width else {place}
    pairs = zip(of.left_keys, of.right_keys, strict=True)
    links = [{a[0], width + b[0]} for left, right in pairs if (a := _places([left])) and (b := _places([right]))]
    found, more = set[int](), {place}
    while more:
        one = more.pop()
        found |= _equal(of.left, one) if one < width else {width + other for other in _equal(of.right, one - width)}
        more |= set[int]().union(*(link for link in links if link & found))
        more -= found
    return found


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
        given = [name for each in sides for name in each.names]
        self.chosen = Select((*OWN, *self.names), tuple(map(Reference, (*OWN, *(given[c] for c in of.columns)))))

    def present(self, runs: dict[str, list[str]], hashes: np.ndarray) -> np.ndarray:
        found = self.left.present(runs, hashes)
        return self.right.present(runs, found) if self.kind == "inner" else found

    def kept(self, runs: dict[str, list[str]], hashes: np.ndarray) -> pa.Table:
        return self.of_present(runs, self.present(runs, hashes))

    def of_present(self, runs: dict[str, list[str]], hashes: np.ndarray) -> pa.Table:
        a = self.left.of_present(runs, hashes)
        b = self.right.of_present(runs, hashes) if self.kind == "inner" else self.right.kept(runs, hashes)
        rows = gathered(copied(self.chosen(self.joined(a, b))))
        return self.empty.drop_columns([INSTANT]) if rows is None else merge([rows])

    def joined(self, a: pa.Table, b: pa.Table) -> Iterator[Picked]:
        """The rows of the join below, given what is kept of its inputs."""
        rows, hits = matches(column(a, HASH), column(b, HASH))
        weights = pa.table([pa.array(column(a, WEIGHT)[rows] * column(b, WEIGHT)[hits])], names=[WEIGHT])
        columns = {name: (0, name) for name in (HASH, *self.left.names)}
        columns |= {name: (1, name) for name in self.right.names}
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
    if len(kept) < 2:
        state = state.replace("both inputs", f"the {kept[0]} input" if kept else "neither input", 1)
    told = [state]
    for name, (child, _) in inputs.items():
        if name not in kept:
            told.append(
                f"The {name} one is joined anew from what the join below it keeps by the same key: a delta join, which "
                "keeps less."
            )
        elif _joins(child):
            told.append(
                f"The {name} one is kept though it is a result of joins: only of plain joins by this very key does a "
                "delta join keep less for as much work."
            )
    return " ".join(told)


def _joins(of: node.Node) -> bool:
    """Whether a node's rows are those of a join, apart from what follows each row by itself."""
    while isinstance(of, node.Project | node.Filter | node.Shared):
        of = of.of if isinstance(of, node.Shared) else of.child
    return isinstance(of, node.Join) and of.kind in ("inner", "left")
