"""The transactions of the log in order, whole, with bounded memory: no lock, no JVM, beside a running product too."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.catalog.store import Catalog
from headrace.formats.json_tables import rows
from headrace.formats.types.json import nearest
from headrace.formats.types.spelled import value
from headrace.log.layout import FrameMeta
from headrace.log.read import FrameRef, LogReader
from headrace.model.errors import HeadraceError
from headrace.model.transaction import DELETE, INSERT, STRICT, TRUNCATE, UNCHANGED, UPDATE, UPSERT, TransactionOrigin
from headrace.serve.quarantine import left_out
from headrace.serve.snapshot import POLL_S, STATE, catalog_path

LOG = "log"
OPERATIONS = {INSERT: "insert", UPDATE: "update", DELETE: "delete", TRUNCATE: "truncate"}
SLICE_ROWS = 4_096  # rows that are Python objects at a time
_WINDOW_ROWS = 65_536  # frames are read together up to so many rows
_WINDOW_COMMITS = 16_384
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction. ``changes``: (table, at most ``SLICE_ROWS`` rows ``_c``, ``_op``, [``_unchanged``], columns).

    Tables come one after another, each one's changes in the order they happened. They are read as they are asked
    for, before the next transaction is.
    """

    commit: int
    origin: TransactionOrigin
    changes: Iterator[tuple[str, pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Between:
    """Commit times in microseconds since the epoch, both ends included; None: open."""

    begin_us: int | None = None
    end_us: int | None = None

    def holds(self, committed_us: int) -> bool:
        early = self.begin_us is not None and committed_us < self.begin_us
        return not early and (self.end_us is None or committed_us <= self.end_us)


EVER = Between()


def reader_of(project_path: Path) -> LogReader:
    """The log of a project, which may be empty yet."""
    return LogReader(project_path / STATE / LOG)


def named(project_path: Path, tables: Sequence[str]) -> list[str]:
    """The tables as the log spells them (SQL does not tell case apart); ``source.no_table`` for one it never held."""
    known: set[str] = set()
    if catalog_path(project_path).exists():
        catalog = Catalog(catalog_path(project_path), read_only=True)
        try:
            known |= catalog.relations().keys()
        finally:
            catalog.close()
    if {table.lower() for table in tables} <= {name.lower() for name in known}:
        return [_spelled(table, known) for table in tables]
    known |= logged(project_path)  # it may have been dropped since: the log still has it
    return [_spelled(table, known) for table in tables]


def logged(project_path: Path) -> set[str]:
    """The tables of the log, with those that were dropped since. Work: a look at every frame."""
    reader = reader_of(project_path)
    known = set(reader.base.parts)
    for ref, _ in reader.frames(reader.base.commit, reader.end):
        known |= ref.rows.keys()
    return known


def unknown(kind: str, name: str, known: Collection[str]) -> HeadraceError:
    """``source.no_table`` for what is none of ``known``, with the nearest of them, else all."""
    if not known:
        return HeadraceError(
            "source.no_table", f"there is no {kind} '{name}'",
            why="nothing has come in yet: `headrace up` has not run, or its sources have given nothing",
            next="headrace up, and ask again: it makes the views, and follows the tables that they read",
        )  # fmt: skip
    return HeadraceError("source.no_table", f"there is no {kind} '{name}'", next=nearest(name, sorted(known)))


def transactions(
    reader: LogReader, after: int, upto: int, tables: Collection[str] = (), when: Between = EVER
) -> Iterator[Transaction]:
    """Every transaction of commits (after, upto] that was committed in ``when``, in order.

    ``tables``: only those that change one of them, and only these changes. Memory does not grow with a transaction
    or the log; work is that of the range, without the rows of tables and times that are not asked for.
    """
    for frames in _windows(reader, after, upto):
        refs = [ref for ref, _ in frames]
        names = {name: None for ref in refs for name in ref.rows if not tables or name in tables}
        if tables and not names:
            continue
        feeds = {name: _Feed(reader, refs, name, after, upto) for name in names}
        for ref, meta in frames:
            for commit, origin in enumerate(meta.origins(), start=ref.first):
                if not after < commit <= upto or not when.holds(origin.committed_us):
                    continue
                if not tables or any(feed.changes_in(commit) for feed in feeds.values()):
                    yield Transaction(commit, origin, _changes(feeds, commit))


def last(reader: LogReader, count: int, tables: Collection[str] = ()) -> int:
    """The commit after which the last ``count`` transactions (that change ``tables``) come; there may be fewer."""
    end, begin = reader.end, reader.base.commit
    if not tables:
        return max(begin, end - count)
    width = _WINDOW_COMMITS
    while True:
        after = max(begin, end - width)
        found = [transaction.commit for transaction in transactions(reader, after, end, tables)]
        if len(found) >= count:
            return found[-count] - 1 if count else end
        if after == begin:
            return begin
        width *= 4


def follow(reader: LogReader, after: int, tables: Collection[str], stop: threading.Event) -> Iterator[Transaction]:
    """As ``transactions``, from ``after`` on, waiting for more until ``stop`` is set."""
    while not stop.is_set():
        end = reader.end
        if end > after:
            yield from transactions(reader, after, end, tables)
            after = end
        else:
            stop.wait(POLL_S)


def spelled(table: str, changes: pa.RecordBatch) -> list[dict[str, Any]]:
    """``{"table", "op", "row"}`` of each change, as an HTTP source takes it.

    Left out are columns that an update leaves as they are, and NULLs of a delete, which may carry its key alone.
    """
    names = changes.schema.names
    marked = len(names) > 2 and names[2] == UNCHANGED
    first = 3 if marked else 2
    marks = changes.column(2).to_pylist() if marked else [None] * changes.num_rows
    codes = changes.column(1).to_numpy()
    operations, upserts = (codes & (STRICT - 1)).tolist(), (codes & UPSERT).tolist()
    cells = rows(pa.Table.from_batches([changes.select(range(first, len(names)))]))
    columns = names[first:]
    return [
        {
            "table": table,
            "op": "upsert" if upsert else OPERATIONS[operation],
            "row": _row(operation, columns, cell, mark),
        }
        for operation, upsert, cell, mark in zip(operations, upserts, cells, marks, strict=True)
    ]


def first_since(reader: LogReader, time_us: int) -> int:
    """The first commit that its source committed at ``time_us`` (microseconds since the epoch) or later; the one after
    the end when there is none."""
    end = reader.end
    for ref, meta in reader.frames(reader.base.commit, end):
        if max(meta.committed_us) >= time_us:
            return ref.first + min(i for i, at in enumerate(meta.committed_us) if at >= time_us)
    return end + 1


def time_text(microseconds: int | None) -> str | None:
    """A commit time as JSON spells it."""
    return None if microseconds is None else value(_EPOCH + datetime.timedelta(microseconds=microseconds))


def _row(operation: int, columns: Sequence[str], cells: Sequence[Any], mark: bytes | None) -> dict[str, Any]:
    if operation == TRUNCATE:
        return {}
    if operation == DELETE:
        return {name: cell for name, cell in zip(columns, cells, strict=True) if cell is not None}
    if mark is None:
        return dict(zip(columns, cells, strict=True))
    return {n: cell for i, (n, cell) in enumerate(zip(columns, cells, strict=True)) if not left_out(mark, i)}


def _changes(feeds: dict[str, _Feed], commit: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name, feed in feeds.items():
        for part in feed.take(commit):
            yield name, part


def _windows(reader: LogReader, after: int, upto: int) -> Iterator[list[tuple[FrameRef, FrameMeta]]]:
    """Neighbouring frames, few enough to be read together: what is small is read in large pieces."""
    held: list[tuple[FrameRef, FrameMeta]] = []
    held_rows = 0
    for ref, meta in reader.frames(after, upto):
        count = sum(ref.rows.values())
        if held and (held_rows + count > _WINDOW_ROWS or ref.last - held[0][0].first >= _WINDOW_COMMITS):
            yield held
            held, held_rows = [], 0
        held.append((ref, meta))
        held_rows += count
    if held:
        yield held


class _Feed:
    """One table's changes in some frames, taken commit by commit; nothing is read before it is asked for."""

    def __init__(self, reader: LogReader, refs: list[FrameRef], table: str, after: int, upto: int) -> None:
        self._batches = reader.read(refs, table, after, upto)
        self._batch: pa.RecordBatch | None = None
        self._commits = np.empty(0, np.int64)

    def changes_in(self, commit: int) -> bool:
        """Whether it has changes of ``commit``; earlier ones are passed by."""
        begin = self._seek(commit)
        return begin < len(self._commits) and self._commits[begin] == commit

    def take(self, commit: int) -> Iterator[pa.RecordBatch]:
        """The changes of ``commit``, in slices."""
        while self.changes_in(commit):
            begin, stop = (int(np.searchsorted(self._commits, commit, side=side)) for side in ("left", "right"))
            assert self._batch is not None
            for at in range(begin, stop, SLICE_ROWS):
                yield self._batch.slice(at, min(SLICE_ROWS, stop - at))
            if stop < len(self._commits):
                return
            self._next()

    def _seek(self, commit: int) -> int:
        """Where in the present batch the changes of ``commit`` or a later one begin."""
        while not len(self._commits) or self._commits[-1] < commit:
            self._next()
            if self._batch is None:
                break
        return int(np.searchsorted(self._commits, commit))

    def _next(self) -> None:
        self._batch = next(self._batches, None)
        self._commits = np.empty(0, np.int64) if self._batch is None else self._batch.column(0).to_numpy()


def _spelled(table: str, known: Collection[str]) -> str:
    for name in known:
        if name.lower() == table.lower():
            return name
    raise unknown("table", table, known)
