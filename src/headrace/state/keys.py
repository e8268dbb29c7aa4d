"""Finding rows by key where hashes only route: equality of the key itself is always checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.delivery import WEIGHT
from headrace.state.arrangement import Hits
from headrace.state.rows import row_codes
from headrace.state.run import HASH, column, merge
from headrace.state.sorting import lexical_order


def distinct(sorted_hashes: np.ndarray) -> np.ndarray:
    """Each value of a sorted array once; ``np.unique`` would hash or sort again."""
    once: np.ndarray = sorted_hashes[_changes(sorted_hashes)]
    return once


def same(left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], rows: int) -> np.ndarray:
    """For each position whether the rows are equal, NULL being equal to NULL. Floats compare bit by bit."""
    equal = np.ones(rows, bool)
    for a, b in zip(left, right, strict=True):
        if rows == 0:
            break
        equal &= _same_column(a, b)
    return equal


def _same_column(a: pa.ChunkedArray, b: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_nested(a.type) or pa.types.is_floating(a.type):
        codes = row_codes([pa.chunked_array([*_chunks(a), *_chunks(b)])])
        result: np.ndarray = codes[: len(a)] == codes[len(a) :]
        return result
    if a.type == pa.null():
        return np.ones(len(a), bool)
    equal = pc.equal(a, b)
    if equal.null_count:
        equal = pc.fill_null(equal, False)
        both_null = pc.and_(pc.is_null(a), pc.is_null(b))
        equal = pc.or_(equal, both_null)
    values: np.ndarray = np.asarray(
        equal.to_numpy(zero_copy_only=False) if isinstance(equal, pa.Array) else equal.to_numpy()
    )
    return values


def _chunks(a: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return list(a.chunks) if isinstance(a, pa.ChunkedArray) else [a]


def key_order(table: pa.Table, keys: Sequence[str], then: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """An order of the rows by key (hash first), then by ``then``; and where, in that order, a new key starts.

    Returns (order, new): index array and boolean array of the table's length.
    """
    hashes = column(table, HASH)
    order = lexical_order([hashes, *then])
    starts = _changes(hashes[order])
    sorted_keys = [table[k].take(pa.array(order)) for k in keys]
    if _adjacent_differ(sorted_keys, starts):
        codes = row_codes([table[HASH], *[table[k] for k in keys]])
        order = lexical_order([hashes, codes, *then])
        starts = _changes(codes[order])
    return order, starts


def _changes(values: np.ndarray) -> np.ndarray:
    new = np.ones(len(values), bool)
    new[1:] = values[1:] != values[:-1]
    return new


def _adjacent_differ(columns: Sequence[pa.ChunkedArray], starts: np.ndarray) -> bool:
    """Whether two neighbours of equal hash have different keys: a collision."""
    inside = np.flatnonzero(~starts)
    if len(inside) == 0:
        return False
    here = [c.take(pa.array(inside)) for c in columns]
    before = [c.take(pa.array(inside - 1)) for c in columns]
    return not same(here, before, len(inside)).all()


def newest(hits: Hits, keys: Sequence[str]) -> pa.Table:
    """The live row of each key among the hits, sorted by hash.

    For arrangements that hold at most one row a key: a run that knows a key holds its newest row (or only its
    removal), so the newest run decides and rows need not be added up. Hashes that collide are added up.
    """
    order = lexical_order([hits.keys, hits.runs])
    rows = hits.rows.take(pa.array(order))
    found, runs = hits.keys[order], hits.runs[order]
    starts = _changes(found)
    if _adjacent_differ([rows[k] for k in keys], starts):
        return merge([rows])
    last = (
        np.r_[np.flatnonzero(starts)[1:] - 1, len(found) - 1].astype(np.int64) if len(found) else np.empty(0, np.int64)
    )
    newest_run = np.repeat(runs[last], np.diff(np.r_[np.flatnonzero(starts), len(found)]))
    live = (runs == newest_run) & (column(rows, WEIGHT) > 0)
    return rows.filter(pa.array(live))


def lookup(wanted: pa.Table, kept: pa.Table, keys: Sequence[str]) -> np.ndarray:
    """For each row of ``wanted`` the index of the row of ``kept`` with its key, or -1.

    Both have ``_h`` and the key columns; ``kept`` is sorted by hash and holds a key once.
    """
    hashes, have = column(wanted, HASH), column(kept, HASH)
    if len(have) == 0:
        return np.full(len(hashes), -1, np.int64)
    index = np.minimum(np.searchsorted(have, hashes), len(have) - 1)
    found = have[index] == hashes
    chosen = pa.array(index[found])
    rows = pa.array(np.flatnonzero(found))
    equal = same([wanted[k].take(rows) for k in keys], [kept[k].take(chosen) for k in keys], int(found.sum()))
    if equal.all() and not (have[1:] == have[:-1]).any():
        return np.where(found, index, -1)
    codes = row_codes([pa.chunked_array([*_chunks(wanted[k]), *_chunks(kept[k])]) for k in (HASH, *keys)])
    mine, theirs = codes[: len(hashes)], codes[len(hashes) :]
    order = np.argsort(theirs)
    index = np.minimum(np.searchsorted(theirs[order], mine), len(have) - 1)
    return np.where(theirs[order][index] == mine, order[index], -1)
