"""Published views in memory, brought from step to step when they are asked for: what answers reads in milliseconds.

Record: docs/decisions/0026-serving.md.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.formats import recorded
from headrace.model.bounds import NEVER, Deadline
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import OPERATION, TRUNCATE
from headrace.serve import past, replay, snapshot
from headrace.serve.contents import Contents, Diverged
from headrace.serve.history import reader_of
from headrace.serve.sound import sound
from headrace.state.rows import canonical, difference
from headrace.state.run import open_run

IDLE_S = 600.0  # what nobody has asked for so long is let go
ROWS_AT_HAND = 1_000  # are brought forward by who may not be kept waiting
ROWS_SOON = 20_000  # are read in milliseconds
HELD_PART = 32  # to bring forward a smaller part of what is held costs less than to copy all of it


@dataclass(frozen=True, slots=True)
class Moment:
    """What some relations hold, all at one commit. ``stale``: why a view stays behind that commit, by its name."""

    commit: int
    contents: Mapping[str, Contents]
    stale: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Held:
    """A relation in memory. ``made``: what tells a view version, or table, from all others; ``upto``: step of a view,
    commit of a table."""

    made: str
    upto: int
    contents: Contents
    used: float


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalogue says, as of a change of it: the ``last`` published step, and by name what there is."""

    changed: int
    last: StepRecord | None
    views: Mapping[str, ViewRecord]
    tables: Mapping[str, Relation]

    @property
    def frontier(self) -> tuple[int, int]:
        """(number of the last step, the commit that it is up to)."""
        return (self.last.number, self.last.upto) if self.last else (-1, 0)


class Mirror:
    """Of one project, for any thread, whether it runs or not. Relations are by their own names.

    One thread at a time brings a relation forward, which may take long the first time; others are not held up.
    Memory: what was asked for within ``IDLE_S``: tables, and 16 bytes a row of views, whose files stay mapped.
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        self._lock = threading.Lock()  # of these values, for moments
        self._locks: dict[str, threading.Lock] = {}  # of each relation, for as long as it is brought forward
        self._held: dict[str, Held] = {}
        self._catalog: Catalog | None = None
        self._known: Known | None = None

    def close(self) -> None:
        with self._lock:
            if self._catalog is not None:
                self._catalog.close()
            self._catalog, self._held = None, {}

    def relations(self) -> tuple[Mapping[str, ViewRecord], Mapping[str, Relation]]:
        """The views and the tables that there are, by name."""
        known = self._look(self._opened())
        return known.views, known.tables

    def moment(
        self, views: Collection[str], tables: Collection[str] = (), at: int | None = None, deadline: Deadline = NEVER,
        *, behind: bool = False,
    ) -> Moment:  # fmt: skip
        """These relations at the frontier, or as of a commit: one that is past is read anew.

        ``deadline``: of reading as of a commit, and of waiting for another thread; what is read to be kept comes to its
        end. ``behind``: as of a commit a view that had failed by then is as it stands since, and stale; else it is
        refused. Raises ``view.unknown``, ``source.no_table``, ``state.corrupt``, ``query.timeout``; of the past
        ``view.not_at``, ``log.retained``.
        """
        if at is not None:
            deadline.check()
            if at != self.newest():
                left = self._behind(views, at, deadline) if behind else Moment(at, {}, {})
                return self._past(views, tables, left, deadline)
        for attempt in range(snapshot.ATTEMPTS):
            try:
                moment = self._taken(views, tables, deadline)
                if at in (None, moment.commit):
                    return moment
                return self.moment(views, tables, at, deadline, behind=behind)
            except (_Passed, Diverged):
                continue
            except HeadraceError as error:  # a compaction took a file away between looking it up and opening it
                if attempt == snapshot.ATTEMPTS - 1 or error.code not in ("state.missing", "log.retained"):
                    raise
                time.sleep(snapshot.POLL_S)
        raise HeadraceError("state.missing", "the files of views change faster than they can be read")

    def newest(self) -> int:
        """The commit that is published."""
        last = self._opened().last_published()
        return last.upto if last else 0

    def far(self, views: Collection[str], tables: Collection[str]) -> list[str]:
        """Those of these that it takes long to bring to the frontier: so much there is to read of them."""
        catalog = self._opened()
        known = self._look(catalog)
        number, commit = known.frontier
        rows: dict[str, float] = {
            name: _rows_of_view(catalog, known.views[name], number, self._held.get(name))
            for name in views
            if name in known.views
        }
        for name in tables:
            if name in known.tables:
                rows[name] = _rows_of_table(self._project, known.tables[name], commit, self._held.get(name))
        return [name for name, count in rows.items() if count > max(ROWS_SOON, self._kept(name) // HELD_PART)]

    def _kept(self, name: str) -> int:
        """Rows of a relation in memory, those that are gone among them."""
        held = self._held.get(name)
        return sum(len(part.weights) for part in held.contents.parts) if held is not None else 0

    def let_go(self) -> None:
        """Close the catalogue until it is needed: what SQLite has open is not for a copy of this process."""
        with self._lock:
            if self._catalog is not None:
                self._catalog.close()
            self._catalog = self._known = None

    def held(self, name: str) -> Held | None:
        """A relation as it is in memory, for ``take``."""
        return self._held.get(name)

    def take(self, name: str, held: Held) -> None:
        """Have a relation in memory as a copy of this process has brought it there."""
        with self._lock:
            self._held[name] = held

    def holds(self, name: str) -> bool:
        """Whether a relation was brought into memory, and is there still."""
        return name in self._held

    def at_hand(self, view: str) -> tuple[ViewRecord, Moment] | None:
        """A view, and as ``moment`` what it holds at the frontier, where that takes no more than milliseconds.

        None: there is none, it is not in memory, there is much to read of it, or another thread is at it.
        """
        lock = self._locks.get(view)
        if lock is None or not lock.acquire(blocking=False):
            return None
        try:
            catalog, held = self._opened(), self._held.get(view)
            known = self._look(catalog)
            last, record = known.last, known.views.get(view)
            if last is None or record is None or held is None or held.made != _made(record):
                return None
            if held.upto != last.number and _rows_of_view(catalog, record, last.number, held) > ROWS_AT_HAND:
                return None
            contents = self._brought(view, last, last.number, partial(_view, catalog, record, last.number))
            return record, Moment(last.upto, {view: contents}, _stale([record]))
        except (_Passed, Diverged, HeadraceError):
            return None  # it is tried again there
        finally:
            lock.release()

    def _behind(self, views: Collection[str], commit: int, deadline: Deadline) -> Moment:
        """Those of these views that had failed by a commit, as they stand since."""
        catalog = self._opened()
        known = self._look(catalog).views
        now = self.moment([name for name in views if name in known and known[name].state != "live"], deadline=deadline)
        known = self._look(catalog).views  # after that: one that came back, and failed anew, has reached more
        stood = [n for n in now.stale if n in known and snapshot.reached(catalog, known[n], now.commit) <= commit]
        return Moment(commit, {n: now.contents[n] for n in stood}, {n: now.stale[n] for n in stood})

    def _past(self, views: Collection[str], tables: Collection[str], left: Moment, deadline: Deadline) -> Moment:
        """These as of the commit of ``left``, but what that has."""
        commit, contents = left.commit, dict(left.contents)
        for name in views:
            if name in contents:
                continue
            deadline.check()
            _, schema, rows = past.contents(self._project, name, commit, None)
            contents[name] = Contents.of(rows, schema.key)
        for name in tables:
            relation = replay.known(self._project, name)
            if commit > (end := reader_of(self._project).end):
                raise past.not_at(
                    f"table {name}", commit, f"the log ends at commit {end:,}", f"ask as of commit {end:,}"
                )
            rows = replay.contents(self._project, relation, commit, lambda event: deadline.check())
            contents[name] = Contents.of(rows, relation.key)
        deadline.check()
        return Moment(commit, contents, left.stale)

    def commit_by(self, time_us: int, deadline: Deadline = NEVER) -> int:
        """See ``past.commit_by``."""
        return past.commit_by(self._project, time_us, deadline)

    @property
    def size(self) -> int:
        """Bytes of what is held, mapped files among them."""
        return sum(held.contents.size for held in list(self._held.values()))

    def _opened(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                self._catalog = Catalog(snapshot.catalog_path(self._project), read_only=True)
            return self._catalog

    def _look(self, catalog: Catalog) -> Known:
        changed = catalog.changed
        known = self._known
        if known is None or known.changed != changed:
            last, views = catalog.last_published(), catalog.views()
            tables = {name: relation for name, (_, relation) in catalog.relations().items()}
            self._known = known = Known(changed, last, views, tables)
        return known

    def _taken(self, views: Collection[str], tables: Collection[str], deadline: Deadline) -> Moment:
        catalog, contents = self._opened(), dict[str, Contents]()
        known = self._look(catalog)
        last, (number, commit) = known.last, known.frontier
        records = {n: known.views[n] if n in known.views else snapshot.known(catalog, n) for n in views}
        for name, record in records.items():
            with self._alone(name, deadline):
                contents[name] = self._brought(name, last, number, partial(_view, catalog, record, number))
        for name in tables:
            relation = known.tables[name] if name in known.tables else replay.known(self._project, name)
            with self._alone(name, deadline):
                contents[name] = self._brought(name, last, commit, partial(_table, self._project, relation, commit))
        return Moment(commit, contents, _stale(records.values()))

    @contextmanager
    def _alone(self, name: str, deadline: Deadline) -> Iterator[None]:
        """The block is the only one that brings a relation forward. Raises ``query.timeout``."""
        with deadline.held(self._locks.setdefault(name, threading.Lock())):
            yield

    def _brought(self, name: str, last: StepRecord | None, upto: int, bring: Callable[[Held | None], Held]) -> Contents:
        """What a relation holds ``upto`` step ``last``, to which ``bring`` brings what is held of it. ``_alone``."""
        held = self._held.get(name)
        if held is not None and held.upto > upto and self._opened().last_published() != last:
            raise _Passed
        with self._lock:
            self._held.pop(name, None)  # one that turns out to be wrong is not kept
        brought = replace(bring(held), used=time.monotonic())
        with self._lock:
            self._held[name] = brought
            self._held = {name: held for name, held in self._held.items() if brought.used - held.used < IDLE_S}
        return brought.contents


class _Passed(Exception):
    """A view, or what is held of it, has gone on from the step that is wanted of it."""


def _stale(records: Iterable[ViewRecord]) -> dict[str, str]:
    return {record.schema.name: record.reason for record in records if record.state != "live"}


def _made(record: ViewRecord) -> str:
    """One that was dropped and is made again under its name has the feed of the one before."""
    return f"{record.feed} {record.fingerprint} {record.created_commit}"


def _goes_on(catalog: Catalog, feed: str, held: int, number: int) -> bool:
    """Whether all deltas of a feed are there that lead from what is held, as of a step, to step ``number``.

    For sure they are from its base on, and those of steps that are kept, if a base holds them already.
    """
    base = catalog.base(feed)
    return min(base[0] if base else -1, catalog.first_step() - 1) <= held <= number


def _view(catalog: Catalog, record: ViewRecord, number: int, held: Held | None) -> Held:
    """A view at a step, from where it is held if that can be, else from its base."""
    made, feed = _made(record), record.feed
    if held is not None and held.made == made and held.upto == number:
        return held
    if held is None or held.made != made or not _goes_on(catalog, feed, held.upto, number):
        held = _from_base(catalog, record, number)
    outputs = catalog.outputs(held.upto, number, feed)
    if not _goes_on(catalog, feed, held.upto, number):
        raise _Passed  # some of them may have been forgotten meanwhile
    if not outputs:
        return replace(held, upto=number)
    paths = sound(((o.path, o.sums) for o in outputs), record.schema.name)
    delta = snapshot.stored(record, [open_run(path) for path in paths])
    return replace(held, upto=number, contents=held.contents.after(delta))


def _rows_of_view(catalog: Catalog, record: ViewRecord, number: int, held: Held | None) -> int:
    """How many are read to have a view at a step."""
    feed, rows = record.feed, 0
    if held is not None and held.made == _made(record) and _goes_on(catalog, feed, held.upto, number):
        start = held.upto
    else:
        base = catalog.base(feed)
        start, rows = (base[0], base[3]) if base else (-1, 0)
    return rows + sum(output.rows for output in catalog.outputs(start, number, feed))


def _rows_of_table(project: Path, relation: Relation, commit: int, held: Held | None) -> float:
    """How many are read to have a table at a commit; without end where it is read anew: they are not counted then."""
    reader = reader_of(project)
    if held is None or held.made != repr(relation) or not reader.base.commit <= held.upto <= commit:
        return math.inf
    return sum(ref.rows.get(relation.name, 0) for ref in reader.refs(held.upto, commit))


def _from_base(catalog: Catalog, record: ViewRecord, number: int) -> Held:
    """What a view version's base holds. Raises ``_Passed`` where that is of a later step than ``number``."""
    base, files = catalog.base(record.feed), sound(catalog.base_files(record.feed), record.schema.name)
    start = base[0] if base else -1
    if start > number or (base is not None and files != base[2]):
        raise _Passed
    tables = [(snapshot.stored(record, [open_run(path)]), Path(path).name.startswith(snapshot.PART)) for path in files]
    whole = [rows for rows, changes in tables if not changes] or [snapshot.stored(record, [])]
    contents = Contents.of(pa.concat_tables(whole), record.schema.key)
    for rows, changes in tables:
        if changes:
            contents = contents.after(rows)
    return Held(_made(record), start, contents, 0.0)


def _table(project: Path, relation: Relation, commit: int, held: Held | None) -> Held:
    """A table at a commit: of its changes since it was held those rows that they touch, else all of the log's."""
    made, reader = repr(relation), reader_of(project)
    if held is None or held.made != made or not reader.base.commit <= held.upto <= commit:
        return Held(made, commit, Contents.of(replay.contents(project, relation, commit), relation.key), 0.0)
    refs = [ref for ref in reader.refs(held.upto, commit) if relation.name in ref.rows]
    batches = list(reader.read(refs, relation.name, held.upto, commit))
    if not batches:
        return replace(held, upto=commit)
    changes = replay.Replay(relation)
    if any((batch.column(OPERATION).to_numpy() == TRUNCATE).any() for batch in batches):
        for batch in batches:
            changes.add(batch)
        return replace(held, upto=commit, contents=Contents.of(changes.contents(), relation.key))
    schema = held.contents.schema
    names = relation.key or schema.names
    touched = [[canonical(recorded.values(b, name, schema.field(name).type)) for name in names] for b in batches]
    old = changes.kept = held.contents.under(pa.concat_tables(pa.table(columns, names) for columns in touched))
    for batch in batches:
        changes.add(batch)
    return replace(held, upto=commit, contents=held.contents.after(difference(changes.contents(), old)))
