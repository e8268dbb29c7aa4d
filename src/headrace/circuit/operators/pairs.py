"""Pairs of rows of which one or both changed, in pieces of bounded size: what each adds to a join, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.circuit.flow import INSTANT
from headrace.model.delivery import WEIGHT
from headrace.state.rows import consolidate, row_codes
from headrace.state.run import HASH, column
from headrace.state.sorting import among, distinct_numbers, lexical_order, stable_order

PIECE = 131_072  # pairs


@dataclass(frozen=True, slots=True)
class Events:
    """A delta by row: ``rows`` (``_h`` and columns) each once, and their changes in the order of row and instant.

    ``row``, ``instant``, ``by``: of each change; ``first``: of each row, its first change; ``before``: its weight
    before the step.
    """

    rows: pa.Table
    row: np.ndarray
    instant: np.ndarray
    by: np.ndarray
    first: np.ndarray
    before: np.ndarray

    @classmethod
    def of(cls, delta: pa.Table, names: Sequence[str]) -> Events:
        """``delta``: ``_h``, ``_w``, ``_i`` and the columns named. Nothing is known of ``before`` yet."""
        order = [HASH, *names]
        changes = consolidate(delta.select([*order, INSTANT, WEIGHT]), by=[*order, INSTANT])
        instants = column(changes, INSTANT)
        row = np.arange(changes.num_rows)
        if len(distinct_numbers(instants)) > 1:
            row = row_codes([changes[name] for name in order])
        first = np.searchsorted(row, np.arange(row.max(initial=-1) + 1))
        rows = changes.select(order).take(pa.array(first)).combine_chunks()
        return cls(rows, row, instants, column(changes, WEIGHT), first, np.zeros(len(first), np.int64))

    def __len__(self) -> int:
        return len(self.row)

    @property
    def count(self) -> np.ndarray:
        """How often each row changes."""
        result: np.ndarray = np.diff(np.r_[self.first, len(self.row)])
        return result

    def over(self, old: pa.Table) -> tuple[pa.Table, Events]:
        """(the rows of ``old`` that do not change, this with ``before``); ``old``: ``_h``, ``_w`` and the columns."""
        if len(self) == 0 or old.num_rows == 0:
            return old, self
        touched = np.flatnonzero(among(column(old, HASH), column(self.rows, HASH)))
        names, count = self.rows.column_names, self.rows.num_rows
        known = old.select(names).take(pa.array(touched)).cast(self.rows.schema)
        both = pa.concat_tables([self.rows, known])
        codes = row_codes([both[name] for name in names])
        order = stable_order(codes[:count])
        place = np.minimum(np.searchsorted(codes[:count][order], codes[count:]), count - 1)
        changes = codes[:count][order][place] == codes[count:]
        before = np.zeros(count, np.int64)
        np.add.at(before, order[place[changes]], column(old, WEIGHT)[touched[changes]])
        rest = np.ones(old.num_rows, bool)
        rest[touched[changes]] = False
        return old.take(pa.array(np.flatnonzero(rest))).combine_chunks(), replace(self, before=before)


def each_once(rows: pa.Table) -> pa.Table:
    """Weighted rows (``_h``, ``_w``, columns) with equal ones added up; only rows of one hash are compared."""
    hashes = column(rows, HASH)
    order = stable_order(hashes)
    equal = hashes[order][1:] == hashes[order][:-1]
    if not equal.any():
        return rows.combine_chunks()
    shared = np.r_[False, equal] | np.r_[equal, False]
    added = consolidate(rows.take(pa.array(order[shared])))
    return pa.concat_tables([rows.take(pa.array(order[~shared])), added]).combine_chunks()


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs as row numbers of both sides, with what each adds to the join (``weight`` at ``instant``) and to the
    number of rows that the left row meets (``matches`` from version ``at`` on, 0 being the one before the step).

    ``was``: the weight of a left row that does not change itself, else 0.
    """

    left: np.ndarray
    right: np.ndarray
    weight: np.ndarray
    instant: np.ndarray
    matches: np.ndarray
    at: np.ndarray
    was: np.ndarray


def left_changed(a: Events, rest: np.ndarray, kind: str) -> Iterator[Pairs]:
    """Changed rows of the left with the rows of the right that do not change; ``rest``: the weights of these."""
    joined = kind in ("inner", "left", "single")
    row, by = (a.row, a.by) if joined else (np.arange(len(a.first)), np.zeros(len(a.first), np.int64))
    instant = a.instant if joined else np.zeros(len(row), np.int32)
    is_first = np.ones(len(row), np.int64)
    is_first[1:] = row[1:] != row[:-1]
    for change, other in blocks(len(row), len(rest)):
        none = np.zeros(len(change), np.int64)
        weight, matches = by[change] * rest[other], is_first[change] * rest[other]
        yield Pairs(row[change], other, weight, instant[change], matches, none.astype(np.int32), none)


def right_changed(rest: np.ndarray, b: Events) -> Iterator[Pairs]:
    """Changed rows of the right with the rows of the left that do not change; ``rest``: the weights of these."""
    for change, other in blocks(len(b.row), len(rest)):
        by, instant, was = b.by[change], b.instant[change], rest[other]
        yield Pairs(other, b.row[change], by * was, instant, by, instant, was)


def both_changed(a: Events, b: Events, kind: str) -> Iterator[Pairs]:
    """Changed rows of both sides. A pair is there only if at some version both of its rows are."""
    longest = int(a.count.max(initial=0) + b.count.max(initial=0)) + 1
    for left, right in blocks(len(a.first), len(b.first), PIECE // longest):
        pair, at, by_left, by_right = _changes(a, b, left, right)
        order = lexical_order([pair, at])
        pair, at = pair[order], at[order]
        starts = np.flatnonzero(np.r_[True, (pair[1:] != pair[:-1]) | (at[1:] != at[:-1])])
        pair, at = pair[starts], at[starts]
        adds = np.add.reduceat(by_right[order], starts)
        lefts, rights = _running(np.add.reduceat(by_left[order], starts), at), _running(adds, at)
        product = lefts * rights
        weight = np.where(at > 0, product - np.r_[0, product[:-1]], 0)
        together = np.maximum.reduceat(product, np.flatnonzero(at == 0)) > 0
        matters = weight != 0 if kind == "inner" else (weight != 0) | (adds != 0)
        chosen = np.flatnonzero(together[pair] & matters)
        pair, at = pair[chosen], at[chosen]
        yield Pairs(left[pair], right[pair], weight[chosen], at, adds[chosen], at, np.zeros(len(chosen), np.int64))


def _changes(
    a: Events, b: Events, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(pair, version, change of its left row's weight, of its right row's), version 0 having what was before."""
    pairs = np.arange(len(left))
    parts = [(pairs, np.zeros(len(left), np.int32), a.before[left], b.before[right])]
    for events, rows, is_left in ((a, left, True), (b, right, False)):
        count = events.count[rows]
        first = np.cumsum(count) - count
        change = np.arange(int(count.sum())) - np.repeat(first - events.first[rows], count)
        by, none = events.by[change], np.zeros(len(change), np.int64)
        parts.append(
            (np.repeat(pairs, count), events.instant[change], by if is_left else none, none if is_left else by)
        )
    pair, at, by_left, by_right = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pair, at, by_left, by_right


def _running(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Running totals that start anew at every version 0."""
    total, starts = np.cumsum(values), np.flatnonzero(at == 0)
    before = np.r_[0, total][starts]
    result: np.ndarray = total - np.repeat(before, np.diff(np.r_[starts, len(at)]))
    return result


def blocks(lefts: int, rights: int, size: int = PIECE) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every pair of numbers below the two, in pieces of at most ``size`` pairs."""
    wide = max(1, min(rights, size))
    high = max(1, size // wide)
    for across in range(0, rights, wide):
        right = np.arange(across, min(across + wide, rights))
        for down in range(0, lefts, high):
            left = np.arange(down, min(down + high, lefts))
            yield np.repeat(left, len(right)), np.tile(right, len(left))
