"""A run: one immutable Arrow IPC file of weighted rows, sorted by key hash, memory-mapped."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from io import FileIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from zlib_ng import zlib_ng

from headrace.model.delivery import WEIGHT
from headrace.state import reference
from headrace.state.mapped import mapped
from headrace.state.narrow import alike, formed, narrowed, text_of_lists, widened
from headrace.state.phases import MERGE, WRITE, passed, timed
from headrace.state.reference import is_reference
from headrace.state.rows import consolidate
from headrace.state.sorting import distinct_numbers, stable_order

HASH = "_h"  # int64: Spark's hash of the key; it routes and finds, it never decides equality
OPEN_RUNS = 512
NARROW_BYTES = 1 << 20  # a smaller run is soon merged into another
BLOCK = 256 << 10  # bytes with a sum of their own: 32 bytes of sums a megabyte
SUM_DIGITS = 8
STRETCH = 32 << 20  # bytes that are merged at a time
_COPIES = b"copies"  # in a file's footer: the sum of its weights

_open: OrderedDict[str, pa.Table] = OrderedDict()
_large: set[str] = set()  # of those that are open, or were


@timed(WRITE)
def write_run(path: Path, table: pa.Table) -> None:
    """Write ``table`` (sorted by ``_h``) as one record batch, under a temporary name first: all of it or nothing.

    A large one of which no column but ``_h`` is searched has narrow columns, see ``stored_run``. An ``OSError`` names
    the file, which Arrow's own does not: from a task only its text arrives.
    """
    passed(table.num_rows)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    table = table.combine_chunks()
    known = {_COPIES: str(int(column(table, WEIGHT).sum())).encode()} if WEIGHT in table.column_names else None
    if table.nbytes >= NARROW_BYTES and {n for n in table.column_names if n.startswith("_")} == {HASH, WEIGHT}:
        table = narrowed(table, without=HASH)
    try:
        with pa.OSFile(str(temporary), "wb") as out, pa.ipc.new_file(out, table.schema, metadata=known) as writer:
            writer.write_table(table)
        temporary.rename(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # the space that it takes is what others wait for
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def checksums(path: Path, *, sync: bool) -> str:
    """CRC-32 of each block of a file, 8 hex digits each; with ``sync`` its bytes are on disk when this returns."""
    sums, block = [], memoryview(bytearray(BLOCK))
    with path.open("rb", buffering=0) as file:
        while length := _filled(file, block):
            sums.append(f"{zlib_ng.crc32(block[:length]):08x}")
        if sync:
            os.fdatasync(file.fileno())
    return "".join(sums)


def _filled(file: FileIO, block: memoryview) -> int:
    """How many of the next bytes there were for ``block``, which a read may give in several parts."""
    length = 0
    while length < len(block) and (read := file.readinto(block[length:])):
        length += read
    return length


def damage(path: Path, sums: str) -> str:
    """In words, which bytes of a file are not those that its ``checksums`` were taken of; '' for none.

    One sum may also be that of a whole file of several blocks, as layouts of the catalogue before 11 kept it.
    Work: one reading of the file.
    """
    found = checksums(path, sync=False)
    if found == sums:
        return ""
    size = path.stat().st_size
    if len(sums) == SUM_DIGITS < len(found):
        whole = 0
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                whole = zlib_ng.crc32(block, whole)
        return "" if f"{whole:08x}" == sums else _said(0, size, f"{whole:08x}", sums)
    digits = range(0, max(len(found), len(sums)), SUM_DIGITS)
    first, *others = (at for at in digits if found[at : at + SUM_DIGITS] != sums[at : at + SUM_DIGITS])
    begin = first // SUM_DIGITS * BLOCK
    if begin >= size:
        return f"it ends after {size} bytes, and there were more"
    now, then = (of[first : first + SUM_DIGITS] for of in (found, sums))
    more = f"; so do {len(others)} of the blocks of {BLOCK} bytes behind it" if others else ""
    return _said(begin, min(begin + BLOCK, size), now, then) + more


def _said(begin: int, end: int, now: str, then: str) -> str:
    return f"bytes {begin} to {end - 1} differ: their CRC-32 is {now}, written was {then or 'nothing there'}"


def size_of(path: str) -> int:
    """Bytes that the rows of a run take, wherever they lie."""
    return reference.read(path).size if is_reference(path) else Path(path).stat().st_size


@lru_cache(maxsize=1 << 12)
def size_merged(path: str) -> int:
    """Bytes that the rows of a run take in a merge, which writes text out that is kept as places in a list."""
    return size_of(path) + (0 if is_reference(path) else text_of_lists(stored_run(path)))


def rows_of(path: str) -> int:
    """How many rows a run has; none is read."""
    return reference.read(path).rows if is_reference(path) else stored_run(path).num_rows


def copies(path: str) -> int:
    """How many rows the weights of a file stand for: its footer says so, no row is read.

    Raises ``HeadraceError`` (state.missing).
    """
    if is_reference(path):
        return reference.read(path).rows
    with mapped(path) as file:
        reader = pa.ipc.open_file(file)
        if reader.metadata is not None and _COPIES in reader.metadata:
            return int(reader.metadata[_COPIES])
        return int(column(reader.read_all(), WEIGHT).sum())


def is_sorted(path: str) -> bool:
    """Whether the rows of a run have hashes and are sorted by them: they are as they came else."""
    return not is_reference(path) and HASH in stored_run(path).column_names


def open_run(path: str) -> pa.Table:
    """The rows of a run; in memory where its columns are narrow, else mapped. Raises as ``stored_run`` does."""
    return widened(stored_run(path))


def stored_run(path: str) -> pa.Table:
    """The rows of a run, mapped, as they are written: for ``widened``, after what is needed of them has been taken.

    Open runs are kept by path, as a run never changes. Raises ``HeadraceError`` (state.missing): a file that is gone
    is a fault, never empty state.
    """
    known = _open.get(path)
    if known is not None:
        with suppress(KeyError):  # another thread has just closed it
            _open.move_to_end(path)
        return known
    table = reference.rows(path) if is_reference(path) else pa.ipc.open_file(mapped(path)).read_all()
    _open[path] = table
    if table.nbytes >= STRETCH:
        _large.add(path)
    while len(_open) > OPEN_RUNS:
        _open.popitem(last=False)
    return table


def let_go(path: str) -> None:
    """Have a run no longer open: what lies behind it is to be removed, or the space of its file to be free again."""
    _open.pop(path, None)
    _large.discard(path)


def let_gone_go() -> None:
    """Large runs that another process has removed: as long as they are open the disk keeps their space."""
    for path in list(_large):
        if path not in _open or not Path(path).exists():
            let_go(path)


def column(table: pa.Table, name: str) -> np.ndarray:
    """A column without nulls as a numpy array; without a copy when it is one chunk."""
    chunked = table[name]
    if chunked.num_chunks == 1:
        array: np.ndarray = chunked.chunk(0).to_numpy(zero_copy_only=False)
        return array
    combined: np.ndarray = chunked.to_numpy()
    return combined


@timed(MERGE)
def merge(tables: list[pa.Table]) -> pa.Table:
    """One run of tables, sorted or not: sorted by hash, weights of equal rows added, zeros dropped. Stored if some are.

    Only rows that share their hash with a negative weight can cancel, so only those are compared in full.
    Rows of which some have no hash stay as they came, and have none. Memory: twice that of the result.
    """
    if any(HASH not in table.column_names for table in tables):
        return _unsorted(tables)
    return pa.concat_tables(map(_merged, _stretches(*alike(tables, wide=WEIGHT)))).combine_chunks()


def _stretches(tables: list[pa.Table], form: pa.Schema) -> Iterator[list[pa.Table]]:
    """The rows of tables, all that share a hash together, about ``STRETCH`` bytes at a time."""
    number = 1 + sum(table.nbytes for table in tables) // STRETCH
    if number > 1:
        tables = [_by_hash(table) for table in tables]
    largest = max(tables, key=lambda table: table.num_rows)
    places = np.arange(1, number) * largest.num_rows // number
    cuts = distinct_numbers(column(largest, HASH)[places])
    ends = [np.r_[0, np.searchsorted(column(table, HASH), cuts), table.num_rows] for table in tables]
    for at in range(len(cuts) + 1):
        yield [formed(t.slice(e[at], e[at + 1] - e[at]), form) for t, e in zip(tables, ends, strict=True)]


def _by_hash(table: pa.Table) -> pa.Table:
    hashes = column(table, HASH)
    return table if (hashes[1:] >= hashes[:-1]).all() else table.take(pa.array(stable_order(hashes)))


def _merged(tables: list[pa.Table]) -> pa.Table:
    """See ``merge``, of a stretch."""
    table = pa.concat_tables(tables).combine_chunks()
    hashes = column(table, HASH)
    order = stable_order(hashes)
    hashes = hashes[order]
    negative = column(table, WEIGHT)[order] < 0
    if not negative.any():
        return table.take(pa.array(order))
    starts = np.flatnonzero(np.r_[True, hashes[1:] != hashes[:-1]]) if len(hashes) else np.empty(0, np.int64)
    touched = np.repeat(np.logical_or.reduceat(negative, starts), np.diff(np.r_[starts, len(hashes)]))
    kept = table.take(pa.array(order[~touched]))
    compared = consolidate(table.take(pa.array(order[touched])))
    result = pa.concat_tables([kept, compared.select(kept.column_names)]).combine_chunks()
    return result.take(pa.array(stable_order(column(result, HASH))))


def _unsorted(tables: list[pa.Table]) -> pa.Table:
    names = [name for name in tables[0].column_names if name == WEIGHT or not name.startswith("_")]
    table = pa.concat_tables([widened(table.select(names)) for table in tables]).combine_chunks()
    return consolidate(table) if table.num_rows and (column(table, WEIGHT) < 0).any() else table
