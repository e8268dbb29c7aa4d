"""The touched-key rule: for the keys K in dA, f(new contents of K) - f(old contents of K), f run by Spark itself.

State: the input, arranged by key. Bounded by the input; work follows the contents of the touched keys.
Correct for every keyed operator, so it is also the oracle of the cheaper rules.

Several instants: version 0 of a key's contents is what was kept, and each instant that touches the key makes
another. f runs once on (key, version); the result of a version counts + at its own instant and - at the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.circuit.flow import INSTANT
from headrace.circuit.task import batches, current, gathered
from headrace.model.delivery import WEIGHT
from headrace.state.keys import distinct
from headrace.state.rows import consolidate
from headrace.state.run import HASH, column
from headrace.state.sorting import lexical_order, stable_order

if TYPE_CHECKING:
    from headrace.circuit.operators.sides import Side

VERSION = "_v"  # int: the instant that made this version of the key's contents, 0 for what was kept
NEXT = "_n"  # int: the instant that ends it, 0 when it is the newest


def versions(delta: pa.Table, old: pa.Table) -> pa.Table:
    """The contents of every touched hash at every version: columns of ``old`` (``_h``, ``_w``, ...) + ``_v``, ``_n``.

    ``delta`` (``_h``, ``_w``, ``_i``, ...) and ``old`` are sorted by hash; ``old`` holds touched hashes only.
    Rows of weight 0 are dropped; a version without rows has none.
    """
    names = old.column_names
    if old.num_rows == 0 and one_instant(delta) and (column(delta, WEIGHT) > 0).all():
        alone = np.zeros(delta.num_rows, np.int32)
        return delta.select(names).append_column(VERSION, delta[INSTANT]).append_column(NEXT, pa.array(alone))
    both = pa.concat_tables(
        [old.append_column(INSTANT, pa.array(np.zeros(old.num_rows, np.int32))), delta.select([*names, INSTANT])]
    )
    pairs = _distinct_pairs(column(delta, HASH), column(delta, INSTANT))
    marks = [(distinct(column(delta, HASH)), 0)] if len(pairs[0]) else []
    hashes = np.concatenate([h for h, _ in marks] + [pairs[0]])
    instants = np.concatenate([np.zeros(len(h), np.int32) for h, _ in marks] + [pairs[1]])
    order = lexical_order([hashes, instants])
    hashes, instants = hashes[order], instants[order]
    following = np.zeros(len(hashes), np.int32)
    same = hashes[1:] == hashes[:-1]
    following[:-1][same] = instants[1:][same]
    # Every row stands in each version of its key that is at or after the row's own instant.
    kept = both.take(pa.array(stable_order(column(both, HASH))))
    low = np.searchsorted(column(kept, HASH), hashes, "left")
    count = np.searchsorted(column(kept, HASH), hashes, "right") - low
    first = np.cumsum(count) - count
    version = np.repeat(np.arange(len(hashes)), count)
    row = np.arange(int(count.sum())) - np.repeat(first - low, count)
    seen = (column(kept, INSTANT)[row] <= instants[version]) & (column(kept, WEIGHT)[row] != 0)
    version, row = version[seen], row[seen]
    contents = kept.select(names).take(pa.array(row))
    contents = contents.append_column(VERSION, pa.array(instants[version]))
    contents = contents.append_column(NEXT, pa.array(following[version]))
    return consolidate(contents) if (column(contents, WEIGHT) != 1).any() else contents


def one_instant(delta: pa.Table) -> bool:
    """Whether all rows of a delta change at the same instant."""
    instants = column(delta, INSTANT)
    return bool((instants[:1] == instants).all())


def _distinct_pairs(hashes: np.ndarray, instants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = lexical_order([hashes, instants])
    h, i = hashes[order], instants[order]
    new = np.r_[True, (h[1:] != h[:-1]) | (i[1:] != i[:-1])] if len(h) else np.empty(0, bool)
    return h[new], i[new]


class ProbeContents:
    """Emits the contents of the touched keys at each version, each row as often as it stands there."""

    def __init__(self, side: Side) -> None:
        self.side = side

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is None:
            return
        delta = self.side.sorted(table)
        old = self.side.kept(current().runs, distinct(column(delta, HASH)))
        contents = versions(delta, old)
        copies = np.repeat(np.arange(contents.num_rows), np.maximum(column(contents, WEIGHT), 0))
        yield from batches(contents.drop_columns([HASH, WEIGHT]).take(pa.array(copies)))
        self.side.write(delta)


def differences(table: pa.Table, weights: np.ndarray) -> pa.Table:
    """Rows of f per version (``_v``, ``_n`` and columns), each with its weight, as a consolidated delta."""
    starts, ends = column(table, VERSION), column(table, NEXT)
    rows = table.drop_columns([VERSION, NEXT])
    parts = []
    for at, sign in ((starts, 1), (ends, -1)):
        chosen = np.flatnonzero(at > 0)
        part = rows.take(pa.array(chosen)).append_column(WEIGHT, pa.array(weights[chosen] * sign))
        parts.append(part.append_column(INSTANT, pa.array(at[chosen])))
    return consolidate(pa.concat_tables(parts))


class Difference:
    """Turns f's results per version into a delta."""

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(pieces)
        if table is not None:
            yield from batches(differences(table, np.ones(table.num_rows, np.int64)))
