"""d(A |x| B) for left, single, full, semi, anti and existence joins, by the touched-key rule on pairs.

For the touched keys: candidates are the pairs of equal hash at each version, beside every row alone; Spark
evaluates the whole condition on the pairs; then a row alone stays where no pair of its own matched (outer,
anti), or stays once where one did (semi). Rows with a null key meet nothing and pass by without state.
State: both inputs, arranged by join key. Bounded by the inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.circuit import node
from headrace.circuit.flow import CHANGE, INSTANT, Flow, Value, fields, kept
from headrace.circuit.hashing import strict_hash
from headrace.circuit.operators.matches import several_rows
from headrace.circuit.operators.recompute import NEXT, VERSION, differences, one_instant, versions
from headrace.circuit.operators.rejoined import input_of
from headrace.circuit.operators.sides import Inputs, keyed, matched
from headrace.circuit.task import batches, current, gathered
from headrace.model.delivery import WEIGHT
from headrace.state.rows import row_codes
from headrace.state.run import HASH, column
from headrace.state.sorting import distinct_numbers, matches, stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Builder

LEFT_ROW, RIGHT_ROW = "_l", "_r"  # bigint: a row's number in the task, null where the candidate has no such side
HOLDS = "_c"  # boolean: the condition on a pair


class ProbeCandidates:
    """Emits ``_l``, ``_r``, ``_w``, ``_v``, ``_n``, ``l0 ..``, ``r0 ..``: every row alone that the join may show so,
    then every pair."""

    def __init__(self, inputs: Inputs, kind: str) -> None:
        self.inputs, self.left, self.right, self.kind = inputs, inputs.left, inputs.right, kind

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = current()
        (lefts, left_strays), (rights, right_strays) = (keyed(t) for t in self.inputs.deltas(pieces))
        a, b = self.left.sorted(lefts), self.right.sorted(rights)
        touched = distinct_numbers(np.r_[column(a, HASH), column(b, HASH)])
        marks = _marks(a, b)
        lefts = _versions(a, self.left.kept(step.runs, touched), marks)
        rights = _versions(b, self.right.kept(step.runs, touched), marks)
        lefts = _with_strays(lefts, left_strays)
        rights = _with_strays(rights, right_strays)
        yield from batches(self.candidates(lefts, None))
        if self.kind == "full":
            yield from batches(self.candidates(None, rights))
        yield from batches(self.candidates(lefts, rights))
        self.left.write(a)
        self.right.write(b)

    def candidates(self, lefts: pa.Table | None, rights: pa.Table | None) -> pa.Table:
        if lefts is not None and rights is not None:
            rows, hits = _same_version(lefts, rights)
            x, y = lefts.take(pa.array(rows)), rights.take(pa.array(hits))
            weights, count, of = column(x, WEIGHT) * column(y, WEIGHT), len(rows), x
            numbers = (pa.array(rows), pa.array(hits))
        else:
            of = lefts if lefts is not None else rights
            assert of is not None
            x, y, weights, count = lefts, rights, column(of, WEIGHT), of.num_rows
            own, none = pa.array(np.arange(count)), pa.nulls(count, pa.int64())
            numbers = (own, none) if lefts is not None else (none, own)
        columns = [*numbers, pa.array(weights), of[VERSION], of[NEXT]]
        for side, rows_of in ((self.left, x), (self.right, y)):
            columns += [
                rows_of[n] if rows_of is not None else pa.nulls(count, t)
                for n, t in zip(side.names, side.arrow_types, strict=True)
            ]
        names = [LEFT_ROW, RIGHT_ROW, WEIGHT, VERSION, NEXT, *self.left.names, *self.right.names]
        return pa.table(columns, names=names)


def _marks(a: pa.Table, b: pa.Table) -> pa.Table:
    """Which (hash, instant) the two deltas touch together: one side's versions follow the other's changes."""
    return pa.concat_tables([t.select([HASH, INSTANT]) for t in (a, b)])


def _versions(delta: pa.Table, old: pa.Table, marks: pa.Table) -> pa.Table:
    """Contents at every version of either side; marks of the other side enter as rows of weight 0."""
    if old.num_rows == 0 and one_instant(marks):
        return versions(delta, old)  # there is no version but that of the delta itself
    nothing = pa.table(
        [marks[HASH], pa.array(np.zeros(marks.num_rows, np.int64)), marks[INSTANT]], names=[HASH, WEIGHT, INSTANT]
    )
    for name in old.column_names[2:]:
        nothing = nothing.append_column(name, pa.nulls(marks.num_rows, old.schema.field(name).type))
    order = [HASH, WEIGHT, INSTANT, *old.column_names[2:]]
    changes = pa.concat_tables([delta.select(order), nothing.select(order)])
    changes = changes.take(pa.array(stable_order(column(changes, HASH))))
    contents = versions(changes, old)
    return contents.filter(pa.array(column(contents, WEIGHT) != 0))


def _with_strays(contents: pa.Table, strays: pa.Table) -> pa.Table:
    """Rows with a null key belong to no version: each is its own change, at its instant, with its weight."""
    if strays.num_rows == 0:
        return contents
    unhashed = strays.set_column(strays.column_names.index(HASH), HASH, pa.array(np.zeros(strays.num_rows, np.int64)))
    rows = unhashed.drop_columns([INSTANT]).append_column(VERSION, strays[INSTANT])
    rows = rows.append_column(NEXT, pa.array(np.zeros(strays.num_rows, np.int32)))
    return pa.concat_tables(
        [
            contents.append_column("_k", pa.array(np.ones(contents.num_rows, bool))),
            rows.select(contents.column_names).append_column("_k", pa.array(np.zeros(rows.num_rows, bool))),
        ]
    )


def _same_version(lefts: pa.Table, rights: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Index pairs of rows with equal hash and version, both with a key."""
    l_rows, r_rows = _keyed(lefts), _keyed(rights)
    lh, lv = column(lefts, HASH)[l_rows], column(lefts, VERSION)[l_rows]
    rh, rv = column(rights, HASH)[r_rows], column(rights, VERSION)[r_rows]
    left, right = lh, rh
    if len(lv) and len(rv) and not (lv[0] == lv).all() & (lv[0] == rv).all():
        keys = row_codes([pa.array(np.r_[lh, rh]), pa.array(np.r_[lv, rv])])
        left, right = keys[: len(lh)], keys[len(lh) :]
    order = stable_order(right)
    rows, hits = matches(left, right[order])
    return l_rows[rows], r_rows[order[hits]]


def _keyed(table: pa.Table) -> np.ndarray:
    return np.flatnonzero(column(table, "_k")) if "_k" in table.column_names else np.arange(table.num_rows)


class Resolve:
    """Keeps the candidates that are in the join's result, and turns versions into a delta."""

    def __init__(self, kind: str, left: list[str], right: list[str]) -> None:
        self.kind, self.left, self.right = kind, left, right

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        l_row, r_row = _numbers(table, LEFT_ROW), _numbers(table, RIGHT_ROW)
        pair = (
            (l_row >= 0) & (r_row >= 0) & table[HOLDS].fill_null(False).combine_chunks().to_numpy(zero_copy_only=False)
        )
        left_alone, right_alone = (r_row < 0) & (l_row >= 0), (l_row < 0) & (r_row >= 0)
        left_met, right_met = _among(l_row, l_row[pair]), _among(r_row, r_row[pair])
        if self.kind == "single":
            _check_single(l_row, column(table, WEIGHT), pair, left_alone)
        chosen = {
            "left": pair | (left_alone & ~left_met),
            "single": pair | (left_alone & ~left_met),
            "full": pair | (left_alone & ~left_met) | (right_alone & ~right_met),
            "semi": left_alone & left_met,
            "anti": left_alone & ~left_met,
            "existence": left_alone,
        }[self.kind]
        names = self.left + (self.right if self.kind in ("left", "single", "full") else [])
        rows = table.select([VERSION, NEXT, *names]).filter(pa.array(chosen))
        if self.kind == "existence":
            rows = rows.append_column("_e", pa.array(left_met[chosen]))
        rows = rows.rename_columns([VERSION, NEXT, *[f"c{i}" for i in range(rows.num_columns - 2)]])
        yield from batches(differences(rows, column(table, WEIGHT)[chosen]))


def _check_single(rows: np.ndarray, weights: np.ndarray, pair: np.ndarray, alone: np.ndarray) -> None:
    """Raises where a left row, by its number, meets more rows than one."""
    own = np.zeros(int(rows.max(initial=-1)) + 1, np.int64)
    own[rows[alone]] = weights[alone]
    met = np.zeros(len(own), np.int64)
    np.add.at(met, rows[pair], weights[pair])
    if (met[rows[pair]] > own[rows[pair]]).any():
        raise several_rows()


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    numbers: np.ndarray = table[name].fill_null(-1).combine_chunks().to_numpy(zero_copy_only=False)
    return numbers


def _among(rows: np.ndarray, met: np.ndarray) -> np.ndarray:
    """For each row number (-1: none) whether it is in ``met``."""
    flags = np.zeros(int(rows.max(initial=-1)) + 2, bool)
    flags[met] = True
    flags[-1] = False
    among: np.ndarray = flags[rows]
    return among


def delta(builder: Builder, this: node.Join) -> Flow:

    left = input_of(builder, "l", this.left, this.left_keys)
    right = input_of(builder, "r", this.right, this.right_keys)
    inputs = Inputs(left, right)
    head = [(LEFT_ROW, "bigint"), (RIGHT_ROW, "bigint"), (WEIGHT, "bigint"), (VERSION, "int"), (NEXT, "int")]
    columns = [*head, *fields(this.left, "l"), *fields(this.right, "r")]
    hashes = strict_hash(this.left_keys), strict_hash(this.right_keys)
    candidates = matched(builder, this, inputs, *hashes, ProbeCandidates(inputs, this.kind), columns)
    checked = candidates.select([*[kept(n, t) for n, t in columns], holds(this.condition)])
    return checked.then(Resolve(this.kind, left.names, right.names), [*fields(this), *CHANGE])


def holds(condition: node.Expression) -> Value:
    """The condition on pairs. On a row alone it must not run where it can throw, as batch would not run it."""

    is_pair = F.col(LEFT_ROW).isNotNull() & F.col(RIGHT_ROW).isNotNull()
    column = F.when(is_pair, condition.column).otherwise(F.lit(False))
    local = condition.local
    return Value(HOLDS, "boolean", column, None if local is None or local.throws else local)
