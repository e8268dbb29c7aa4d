"""The two inputs of a join inside a stage: their deltas, however they come, and what is kept of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.exchange import Dealt
from headrace.circuit.flow import CHANGE, INSTANT, Chain, Flow, Stage, Value, change, fields, kept
from headrace.circuit.task import current, gathered, keep
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.rows import consolidate
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged, Builder

SIDE = "_s"  # int: 0 left, 1 right


class Side:
    """One input of an operator inside a stage: its delta of this step and its arrangement before it."""

    def __init__(self, letter: str, types: tuple[str, ...], arranged: Arranged) -> None:
        self.letter, self.types, self.arranged = letter, types, arranged
        self.names = [f"{letter}{i}" for i in range(len(types))]
        self.arrow_types = [to_arrow(t) for t in types]

    @property
    def empty(self) -> pa.Table:
        types = [pa.int64(), pa.int64(), pa.int32(), *self.arrow_types]
        return pa.schema(list(zip([HASH, WEIGHT, INSTANT, *self.names], types, strict=True))).empty_table()

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Rows of this side's delta (``_h``, ``_w``, ``_i``, its names, maybe others), sorted by hash."""
        own = rows.select([HASH, WEIGHT, INSTANT, *self.names])
        return own.take(pa.array(stable_order(column(own, HASH)))).combine_chunks()

    def kept(self, runs: dict[str, list[str]], hashes: np.ndarray) -> pa.Table:
        """Rows before the step with these hashes (sorted, distinct): ``_h`` (sorted), ``_w``, this side's names;
        consolidated."""
        types = [pa.int64(), pa.int64(), *self.arrow_types]
        empty = pa.schema(list(zip([HASH, WEIGHT, *self.arranged.columns], types, strict=True)))
        hits = Arrangement(runs.get(self.arranged.name, []), self.arranged.reader).probe(hashes, empty.names, empty)
        return merge([hits.rows.rename_columns([HASH, WEIGHT, *self.names])])

    def present(self, runs: dict[str, list[str]], hashes: np.ndarray) -> np.ndarray:
        """Those of the hashes that some row before the step has."""
        return Arrangement(runs.get(self.arranged.name, []), self.arranged.reader).present(hashes)

    def of_present(self, runs: dict[str, list[str]], hashes: np.ndarray) -> pa.Table:
        """As ``kept``, all hashes being ``present``."""
        return self.kept(runs, hashes)

    def write(self, delta: pa.Table) -> None:
        """Add the step's delta to the arrangement, its instants summed up."""
        if not self.arranged.owned or delta.num_rows == 0:
            return
        stored = delta.select([HASH, WEIGHT, *self.names]).rename_columns([HASH, WEIGHT, *self.arranged.columns])
        if (column(stored, WEIGHT) < 0).any():
            stored = consolidate(stored)
            stored = stored.take(pa.array(stable_order(column(stored, HASH))))
        keep(current(), self.arranged.name, stored)


class Inputs:
    """Both deltas of a join. A side that has a chain makes its rows here; the stage's input holds the other's, or, of
    both sides, tagged, the rows or, when they are ``dealt`` out, where they lie."""

    def __init__(self, left: Side, right: Side) -> None:
        self.left, self.right = left, right
        self.chains: tuple[Chain | None, Chain | None] = (None, None)
        self.dealt = False

    def deltas(self, pieces: Iterable[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
        """(left, right): ``_h`` (may be null), ``_w``, ``_i`` and the side's names."""
        found = self._found(pieces)
        tables = [
            side.empty if rows is None else rows.select([HASH, WEIGHT, INSTANT, *side.names])
            for side, rows in zip((self.left, self.right), found, strict=True)
        ]
        return tables[0], tables[1]

    def _found(self, pieces: Iterable[pa.RecordBatch]) -> list[pa.Table | None]:
        """The rows of each side, with others maybe beside its columns."""
        if self.dealt:
            lie = list(pieces)
            return [gathered(Dealt(number)(lie)) for number in (0, 1)]
        given = gathered(pieces)
        if given is not None and self.chains == (None, None):
            tags = column(given, SIDE)
            return [given.take(pa.array(np.flatnonzero(tags == number))) for number in (0, 1)]
        return [given if chain is None else gathered(chain(())) for chain in self.chains]


def keyed(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(rows that have a key, rows that meet nothing)."""
    hashes = rows[HASH]
    if hashes.null_count == 0:
        return rows, rows.slice(0, 0)
    valid = hashes.is_valid().to_numpy()
    return rows.take(pa.array(np.flatnonzero(valid))), rows.take(pa.array(np.flatnonzero(~valid)))


def matched(
    builder: Builder, this: node.Join | node.Threshold, inputs: Inputs, left_hash: Value, right_hash: Value,
    stage: Stage, columns: list[tuple[str, str]], everywhere: Collection[int] = (),
) -> Flow:  # fmt: skip
    """The flow of a join's ``stage``, which asks ``inputs`` for its rows.

    In a wide circuit each row goes to the task where its key belongs; those of inputs with a number in ``everywhere``
    go to every task.
    """

    flows = [_side(builder, child, hashed, letter) for child, hashed, letter in (
        (this.left, left_hash, "l"), (this.right, right_hash, "r"))]  # fmt: skip
    if builder.shape.wide:
        inputs.dealt = True
        return builder.lie(flows, everywhere=everywhere).then(stage, columns)
    if not any(f.made for f in flows):
        return builder.alone(_tagged(this, flows)).then(stage, columns)
    if all(f.made for f in flows):
        inputs.chains = (flows[0].chain, flows[1].chain)
        return builder.made(stage, tuple(columns))
    # One side comes from Spark: it is the stage's input, and the other is made beside it.
    inputs.chains = (flows[0].chain if flows[0].made else None, flows[1].chain if flows[1].made else None)
    given = flows[1] if flows[0].made else flows[0]
    return Flow(given.frame.coalesce(1), given.columns).then(stage, columns)


def _side(builder: Builder, child: node.Node, hashed: Value, letter: str) -> Flow:

    columns = [kept(f"{letter}{i}", t, f"c{i}") for i, t in enumerate(child.types)]
    return builder.delta(child).select([hashed, *change(), *columns])


def _tagged(this: node.Join | node.Threshold, flows: list[Flow]) -> Flow:
    """Both inputs' deltas as one: ``_s``, ``_h``, ``_w``, ``_i``, ``l0 ..``, ``r0 ..``."""

    sides = [fields(this.left, "l"), fields(this.right, "r")]
    frames = []
    for number, flow in enumerate(flows):
        columns = [
            F.col(name) if owner == number else F.lit(None).cast(t).alias(name)
            for owner, names in enumerate(sides)
            for name, t in names
        ]
        frames.append(flow.frame.select(F.lit(number).alias(SIDE), HASH, WEIGHT, INSTANT, *columns))
    head = [(SIDE, "int"), (HASH, "bigint"), *CHANGE]
    return Flow(DataFrame.unionAll(frames[0], frames[1]), (*head, *sides[0], *sides[1]))
