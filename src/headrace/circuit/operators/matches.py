"""How many rows each touched row of a join's left side meets, version by version: what is shown of it follows.

A row is shown by an anti join while it meets nothing, by a semi join while it meets something. The numbers are kept
as weights of an arrangement, so a step adds to them without reading those of other rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit.flow import INSTANT
from headrace.circuit.operators.sides import Side
from headrace.circuit.task import batches, current, gathered, keep, plain
from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Arrangement
from headrace.state.keys import distinct, lookup
from headrace.state.rows import consolidate, row_codes
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import lexical_order, stable_order

if TYPE_CHECKING:
    from headrace.circuit.build import Arranged

PAIR = "_p"  # boolean: a pair, not a row of the left alone
MATCHES = "_m"  # bigint: rows that the left row meets more from version `_v` on
AT = "_v"  # int: the instant of a version, 0 for what was before the step
WAS = "_b"  # bigint: the weight of a left row that does not change itself, else 0
HOLDS = "_c"  # boolean: the condition on a pair
HEAD = ((HASH, "bigint"), (PAIR, "boolean"), (WEIGHT, "bigint"), (INSTANT, "int"), (MATCHES, "bigint"), (AT, "int"),
        (WAS, "bigint"))  # fmt: skip
GATHERED_ROWS = 1_000_000  # matches that wait until those of one row and version are added up


class Settle:
    """Input: ``HEAD``, ``l0 ..``, ``r0 ..``, ``_c``; output the delta of a left, semi, anti or existence join.

    ``arranged``: the matched left rows, their numbers of matches as weights.
    """

    def __init__(self, kind: str, left: Side, right: Side, arranged: Arranged) -> None:
        self.kind, self.left, self.right, self.arranged = kind, left, right, arranged
        self.stored = [f"c{i}" for i in range(len(left.names))]
        self.row = [HASH, *left.names]

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: list[pa.Table] = []
        rows = 0
        for batch in pieces:
            table = pa.Table.from_batches([batch]).cast(plain(batch.schema))
            pair = column(table, PAIR)
            met = pair & table[HOLDS].fill_null(False).combine_chunks().to_numpy(zero_copy_only=False)
            if self.kind in ("left", "single"):
                yield from batches(self.joined(table.filter(pa.array(met & (column(table, WEIGHT) != 0)))))
            seen.append(self.noted(table.filter(pa.array(met | ~pair)), pair[met | ~pair]))
            rows += seen[-1].num_rows
            if rows > GATHERED_ROWS:
                seen = [self.added(pa.concat_tables(seen))]
                rows = 0
        if seen:
            yield from self.settled(self.added(pa.concat_tables(seen)))

    def joined(self, table: pa.Table) -> pa.Table:
        columns = [*self.left.names, *self.right.names]
        return table.select([*columns, WEIGHT, INSTANT]).rename_columns(
            [*[f"c{i}" for i in range(len(columns))], WEIGHT, INSTANT]
        )

    def noted(self, table: pa.Table, pair: np.ndarray) -> pa.Table:
        """Left rows with a version and, as ``_w``, what it adds: to the row's weight, or (a pair) to its matches."""
        adds = np.where(pair, column(table, MATCHES), column(table, WEIGHT))
        return table.select([*self.row, PAIR, AT, WAS]).append_column(WEIGHT, pa.array(adds))

    def added(self, table: pa.Table) -> pa.Table:
        """Equal entries added up; those of a changed row's version 0 stay, whatever its weight."""
        by = [*self.row, PAIR, AT, WAS]
        start = ~column(table, PAIR) & (column(table, AT) == 0)
        return pa.concat_tables([table.filter(pa.array(start)), consolidate(table.filter(pa.array(~start)), by=by)])

    def settled(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if table.num_rows == 0:
            return
        row = row_codes([table[name] for name in self.row])
        pair, was = column(table, PAIR), column(table, WAS)
        # A left row that does not change has its version 0 from what is kept.
        still = np.flatnonzero(was > 0)
        still = still[np.unique(row[still], return_index=True)[1]]
        entries = np.r_[np.arange(len(row)), still]
        of, at = row[entries], np.r_[column(table, AT), np.zeros(len(still), np.int32)]
        adds = column(table, WEIGHT)
        weights = np.r_[np.where(pair, 0, adds), was[still]]
        matches = np.r_[np.where(pair, adds, 0), self.kept(table.select(self.row).take(pa.array(still)))]
        order = lexical_order([of, at])
        entries, of, at = entries[order], of[order], at[order]
        starts = np.flatnonzero(np.r_[True, (of[1:] != of[:-1]) | (at[1:] != at[:-1])])
        entries, of, at = entries[starts], of[starts], at[starts]
        weights = _running(np.add.reduceat(weights[order], starts), of)
        matches = _running(np.add.reduceat(matches[order], starts), of)
        if ((matches < 0) & (weights > 0)).any():
            raise ArithmeticError("a row of a join has fewer matches than none")
        if self.kind == "single" and ((matches > 1) & (weights > 0) & (at > 0)).any():
            raise several_rows()
        rows = table.select(self.row).take(pa.array(entries)).combine_chunks()
        yield from self.shown(rows, of, at, weights, matches)
        if self.arranged.owned:
            self.write(rows, of, weights, matches)

    def kept(self, rows: pa.Table) -> np.ndarray:
        """How many matches each of these left rows had before the step."""
        order = stable_order(column(rows, HASH))
        wanted = rows.take(pa.array(order)).rename_columns([HASH, *self.stored])
        types = [pa.int64(), pa.int64(), *self.left.arrow_types]
        empty = pa.schema(list(zip([HASH, WEIGHT, *self.stored], types, strict=True)))
        paths = current().runs.get(self.arranged.name, [])
        hits = Arrangement(paths, self.arranged.reader).probe(distinct(column(wanted, HASH)), empty.names, empty)
        known = consolidate(hits.rows)
        found = lookup(wanted, known, self.stored)
        matches = np.zeros(rows.num_rows, np.int64)
        matches[order[found >= 0]] = column(known, WEIGHT)[found[found >= 0]]
        return matches

    def shown(
        self, rows: pa.Table, of: np.ndarray, at: np.ndarray, weights: np.ndarray, matches: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        """Each version's difference to the one before it. Every row begins with its version 0, which is not shown."""
        meets = matches > 0
        states = {"semi": [(meets, True)], "existence": [(meets, True), (~meets, False)]}
        for chosen, flag in states.get(self.kind, [(~meets, False)]):
            now = np.where(chosen, weights, 0)
            before = np.r_[0, now[:-1]]
            differs = np.flatnonzero((now != before) & (at > 0))
            columns = [rows[n].take(pa.array(differs)) for n in self.left.names]
            if self.kind in ("left", "single"):
                columns += [pa.nulls(len(differs), t) for t in self.right.arrow_types]
            if self.kind == "existence":
                columns.append(pa.array(np.full(len(differs), flag)))
            names = [*[f"c{i}" for i in range(len(columns))], WEIGHT, INSTANT]
            changes = [pa.array((now - before)[differs]), pa.array(at[differs])]
            yield from batches(pa.table([*columns, *changes], names=names))

    def write(self, rows: pa.Table, of: np.ndarray, weights: np.ndarray, matches: np.ndarray) -> None:
        """The step's run: what each touched row's number of matches has changed by."""
        firsts = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
        lasts = np.r_[firsts[1:] - 1, len(of) - 1]
        counted = np.where(weights > 0, matches, 0)
        by = counted[lasts] - counted[firsts]
        changed = np.flatnonzero(by)
        if len(changed) == 0:
            return
        run = rows.take(pa.array(firsts[changed])).rename_columns([HASH, *self.stored])
        run = run.append_column(WEIGHT, pa.array(by[changed])).select([HASH, WEIGHT, *self.stored])
        keep(current(), self.arranged.name, merge([run]))


def _running(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Running totals within each run of equal ``of``."""
    total, starts = np.cumsum(values), np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
    before = np.r_[0, total][starts]
    result: np.ndarray = total - np.repeat(before, np.diff(np.r_[starts, len(of)]))
    return result


def several_rows() -> ArithmeticError:
    """What Spark says of a subquery that is used as a value and has more rows than one."""
    text = "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery used as an expression."
    return ArithmeticError(text)


class LeftAlone:
    """Keeps the left rows of pairs with the one row that the other side has: what did not change cancels."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is not None:
            rows = table.select([*self.names, WEIGHT, INSTANT])
            rows = rows.rename_columns([*[f"c{i}" for i in range(len(self.names))], WEIGHT, INSTANT])
            yield from batches(consolidate(rows))
