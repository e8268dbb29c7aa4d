"""The index of a relation: made when it is first searched, brought to the last published step at each later search.

In ``.headrace/search/VIEW@VERSION`` or ``TABLE@table``: tantivy's files, and the rows beside them (``kept_rows``). The
frontier is a document of the index: one commit moves both. A row's document holds its number among the kept rows and
the hash of what it is found by (``indexed``); what changes is found by the hashes and compared by contents, so that
equal hashes do no harm. All of it can be made anew from what is published, and is when anything is wrong with it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from headrace.catalog.project import STATE
from headrace.catalog.store import Catalog
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.model import bounds
from headrace.model.bounds import NEVER, Deadline
from headrace.model.delivery import WEIGHT as WEIGHT_COLUMN
from headrace.model.errors import HeadraceError
from headrace.serve.search import deltas
from headrace.serve.search.fields import FRONTIER, HASH, PLACE, WEIGHT, documents, fields, index_schema
from headrace.serve.search.indexed import Changed, Indexed
from headrace.serve.search.kept_rows import KeptRows
from headrace.serve.search.library import tantivy
from headrace.state.row_hash import row_hashes
from headrace.state.sorting import distinct_numbers

FOLDER = "search"
LAYOUT = 2  # of what is written; another one's is made anew
FRESH_S = 0.1  # an index is brought forward at most so often
BATCH_ROWS = 20_000
LARGE_ROWS = 50_000  # from which on a second thread and more memory are worth it
HEAP_BYTES, LARGE_HEAP_BYTES = 15_000_000, 128_000_000
WASTE_ROWS = 100_000  # so many more rows than twice those there are may be kept
LOCK_S = 300.0
Progress = Callable[[dict[str, Any]], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Frontier:
    """How far an index is. Its kept rows have numbers below ``next``; ``repeated``: whether one may be there twice."""

    at: deltas.Frontier
    next: int = 0
    repeated: bool = False
    layout: int = LAYOUT


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """An index at one commit of its own; stays as it is while others move on."""

    frontier: Frontier
    searcher: Any
    rows: KeptRows


class RelationIndex:
    """The index of a view version or a table; for all threads of a process."""

    def __init__(self, project: Path, of: Indexed) -> None:
        self.of, self.fields = of, fields(of.schema)
        self.folder = project / STATE / FOLDER / of.feed
        self.schema = index_schema(self.fields)
        self._row_schema = arrow_schema(of.schema.columns).append(pa.field(WEIGHT_COLUMN, pa.int64()))
        self._lock = threading.Lock()
        self._state: State | None = None
        self._looked = -FRESH_S

    def state(self, catalog: Catalog, at_least: int, progress: Progress, deadline: Deadline = NEVER) -> State:
        """The index at the last published step, or as it was ``FRESH_S`` ago if that is commit ``at_least``.

        Raises ``query.timeout`` where another thread is at it beyond the ``deadline``.
        """
        if not self._lock.acquire(timeout=deadline.left):
            raise bounds.timeout(deadline.seconds)
        try:
            held = self._state.frontier.at.commit if self._state else -1
            if held < max(0, at_least) or time.monotonic() - self._looked >= FRESH_S:
                self._state = self._brought(catalog, progress)
                self._looked = time.monotonic()
            assert self._state is not None
            return self._state
        finally:
            self._lock.release()

    def forget(self, *, damaged: bool) -> None:
        """The files are not as they were read: they are read again, or, ``damaged``, made anew."""
        with self._lock:
            self._state = None
            if damaged:
                with self._alone(lambda event: None):
                    shutil.rmtree(self.folder, ignore_errors=True)

    def _brought(self, catalog: Catalog, progress: Progress) -> State:
        last = catalog.last_published()
        if self._state is not None and self._state.frontier.at == self.of.frontier(last):
            return self._state
        with self._alone(progress):
            state = self._opened()
            found = self.of.since(catalog, state.frontier.at) if state else None
            if state is None or found is None:
                return self._made(catalog, progress)
            frontier, changes = found
            if frontier == state.frontier.at:
                return state
            if state.frontier.next > 2 * state.searcher.num_docs + WASTE_ROWS:
                return self._made(catalog, progress)
            return self._moved(state, frontier, changes, progress)

    @contextmanager
    def _alone(self, progress: Progress) -> Iterator[None]:
        """One process at a time writes; the kernel's lock ends with its holder."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder.with_name(f".{self.folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            end = time.monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise HeadraceError(
                            "search.busy", f"another process has been indexing {self.of.schema.name} for minutes",
                            where=str(self.folder), next="search again later, or end that process",
                        ) from None  # fmt: skip
                progress({"text": f"waiting for another process that indexes {self.of.schema.name}"})
                time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)

    def _opened(self) -> State | None:
        """What is on the disk; None where there is nothing that can be used."""
        try:
            if not tantivy().Index.exists(str(self.folder)):
                return None
            return self._read(self._index())
        except (ValueError, OSError, KeyError, TypeError, pa.ArrowException):
            return None

    def _index(self) -> Any:
        index = tantivy().Index(self.schema, str(self.folder))
        index.config_reader(reload_policy="manual")
        return index

    def _read(self, index: Any) -> State | None:
        index.reload()
        searcher = index.searcher()
        hits = searcher.search(tantivy().Query.regex_query(self.schema, FRONTIER, ".*"), limit=1).hits
        if not hits:
            return None
        kept = orjson.loads(searcher.doc(hits[0][1]).get_first(FRONTIER))
        if kept.get("layout") != LAYOUT:
            return None
        frontier = Frontier(**{**kept, "at": deltas.Frontier(**kept["at"])})
        return State(frontier, searcher, KeptRows(self.folder / "rows", self._row_schema))

    def _made(self, catalog: Catalog, progress: Progress) -> State:
        """The index anew from the relation's rows."""
        at, rows = self.of.begin(catalog)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700, parents=True)
        kept = KeptRows(self.folder / "rows", self._row_schema)
        return self._written(Frontier(at), kept, rows, None, progress)

    def _moved(self, state: State, at: deltas.Frontier, changes: Changed, progress: Progress) -> State:
        """The index after these changes: of what they touch the documents with its hash go, what it is comes."""
        first, touched = state.frontier, changes.touched()
        if touched is None:
            return self._written(dataclasses.replace(first, at=at), state.rows, None, None, progress)
        hashes = distinct_numbers(self._hashes(touched))
        found = tantivy().Query.term_set_query(self.schema, HASH, hashes.tolist())
        hits = state.searcher.search(found, len(hashes))
        if hits.count > len(hashes):  # several rows of one hash
            hits = state.searcher.search(found, hits.count)
        held = state.rows.take(_places(state.searcher, [address for _, address in hits.hits]))
        rows = changes.moved(held)
        return self._written(dataclasses.replace(first, at=at), state.rows, rows, found, progress)

    def ask(self, state: State, query: Any, limit: int, offset: int) -> tuple[pa.Table, list[float], int]:
        """(the kept rows that a query finds, best first, with ``_w``; their scores; how many rows it finds in all)."""
        hits = state.searcher.search(query, max(1, limit), count=not state.frontier.repeated, offset=offset)
        if state.frontier.repeated:
            copies = state.searcher.aggregate(query, {"copies": {"sum": {"field": WEIGHT}}})
            total = int(copies["copies"]["value"])
        else:
            total = hits.count
        shown = hits.hits[:limit]
        rows = state.rows.take(_places(state.searcher, [address for _, address in shown]))
        return rows, [score for score, _ in shown], total

    def _hashes(self, rows: pa.Table) -> np.ndarray:
        return row_hashes([rows[name] for name in self.of.found_by], rows.num_rows)

    def _written(
        self, frontier: Frontier, kept: KeptRows, rows: pa.Table | None, gone: Any, progress: Progress
    ) -> State:
        """Commit: what ``gone`` finds goes, ``rows`` come, the frontier moves. The rows are on the disk before."""
        rows = self._row_schema.empty_table() if rows is None else rows
        if rows.num_rows:
            kept.add(rows, frontier.next)
        repeated = frontier.repeated or bool((rows[WEIGHT_COLUMN].to_numpy() > 1).any())
        moved = dataclasses.replace(frontier, next=frontier.next + rows.num_rows, repeated=repeated)
        index, large = self._index(), rows.num_rows >= LARGE_ROWS
        writer = index.writer(LARGE_HEAP_BYTES if large else HEAP_BYTES, 2 if large else 1)
        writer.delete_documents_by_query(tantivy().Query.regex_query(self.schema, FRONTIER, ".*"))
        if gone is not None:
            writer.delete_documents_by_query(gone)
        for at in range(0, rows.num_rows, BATCH_ROWS):
            part = rows.slice(at, BATCH_ROWS)
            for document in self._documents(part, frontier.next + at):
                writer.add_document(document)
            done = {"done": at + part.num_rows, "total": rows.num_rows}
            progress({"text": f"indexing {self.of.schema.name}", **done})
        told = orjson.dumps(dataclasses.asdict(moved)).decode()
        writer.add_document(tantivy().Document.from_dict({FRONTIER: told}, self.schema))
        writer.commit()
        writer.wait_merging_threads()
        state = self._read(index)
        if state is None:
            raise AssertionError("an index has no frontier after a commit")
        return state

    def _documents(self, rows: pa.Table, first: int) -> Iterator[Any]:
        beside = {
            HASH: self._hashes(rows),
            PLACE: np.arange(first, first + rows.num_rows),
            WEIGHT: rows[WEIGHT_COLUMN].to_numpy(),
        }
        columns = [rows[name] for name in self.of.schema.names]
        return documents(self.fields, columns, beside, self.schema)


def _places(searcher: Any, addresses: list[Any]) -> np.ndarray:
    """The numbers of the kept rows of these documents."""
    return np.array(searcher.fast_field_values(PLACE, addresses), np.int64)
