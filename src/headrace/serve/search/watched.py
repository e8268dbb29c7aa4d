"""What stored queries match in a view: now, as of a commit, and as it changes, also when the queries do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog.searches import StoredQueries, unknown
from headrace.catalog.store import Catalog, ViewRecord
from headrace.formats.json_tables import rows as json_rows
from headrace.model.bounds import NEVER, Deadline
from headrace.model.definition import StoredQuery
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve import past, snapshot
from headrace.serve.search import deltas
from headrace.serve.search.matching import QUERY, Matcher
from headrace.serve.search.stored import problem
from headrace.state.rows import consolidate, difference

LOOK_S = 1.0  # so often the files of queries are looked at
_HELD_PARTS = 64  # deltas of matches are added up once there are so many
Told = Callable[[HeadraceError], None]


def matched(
    project: Path, view: str, query: StoredQuery, commit: int | None = None, deadline: Deadline = NEVER
) -> tuple[int, ViewSchema, pa.Table]:
    """(commit, the view's schema, ``_query``, its columns and ``_w``): what a query matches, now or as of a commit.

    Now: of a view that has failed as of the commit that it holds.
    Raises ``HeadraceError``: search.query, query.timeout; as of a commit those of ``past.contents``.
    """
    reached, schema, rows = (
        snapshot.contents(project, view) if commit is None else past.contents(project, view, commit, None)
    )
    if (error := problem(query, schema)) is not None:
        raise error
    if commit is None and (failed := snapshot.failure(project, view)) is not None:
        reached = failed["commit"]
    return reached, schema, Matcher(schema, {query.name: query.query}).matches(rows, deadline)


def changes(matches: pa.Table) -> list[dict[str, Any]]:
    """Matches as JSON, those that go (weight below 0) before those that come: ``{"query", "weight", "row"}``."""
    query, *names = matches.column_names[:-1]
    told = json_rows(matches.select(names))
    cells = zip(matches[query].to_pylist(), matches[WEIGHT].to_pylist(), told, strict=True)
    found = [{"query": of, "weight": weight, "row": dict(zip(names, row, strict=True))} for of, weight, row in cells]
    return sorted(found, key=lambda change: (change["weight"] > 0, change["query"]))


class Watched:
    """Follows the matches of stored queries in one view.

    ``names``: of these alone; None: of all of the view. ``told`` hears, once, what is wrong with a query that is left
    out.
    """

    def __init__(self, project: Path, view: str, names: Sequence[str] | None, told: Told) -> None:
        self._project, self._view, self._names, self._told = project, view, names, told
        self._files = StoredQueries(project)
        self._looked_at: float | None = None
        self._queries: dict[str, StoredQuery] = {}
        self._said: dict[str, str] = {}
        self._matcher: Matcher | None = None
        self._held: list[pa.Table] = []

    def follow(self, stop: threading.Event) -> Iterator[tuple[int, pa.Table]]:
        """(commit, delta of the matches: ``_query``, the view's columns, ``_w``). First all there are, if none an empty
        table; then each published step's, and what comes and goes when a query does. Ends when ``stop`` is set.

        Raises ``HeadraceError``: view.unknown, and search.unknown for a name that no query has at the start.
        """
        with closing(Catalog(snapshot.catalog_path(self._project), read_only=True)) as catalog:
            yield from self._followed(catalog, stop)

    def _followed(self, catalog: Catalog, stop: threading.Event) -> Iterator[tuple[int, pa.Table]]:
        frontier: deltas.Frontier | None = None
        while not stop.is_set():
            changed, record = self._changed(), snapshot.known(catalog, self._view)
            steps = deltas.since(catalog, record, frontier) if frontier is not None else None
            if frontier is None or steps is None or self._matcher is None:
                at_first, self._matcher = frontier is None, Matcher(record.schema, self._usable(record.schema))
                frontier, rows = deltas.begin(catalog, record)
                for delta in self._anew(self._matcher.matches(rows)):
                    if delta.num_rows or at_first:
                        yield frontier.commit, delta
                continue
            matcher, reached = self._matcher, steps[-1][0] if steps else frontier
            moved = ((step, matcher.matches(delta)) for step, delta in steps)
            exchanged = self._exchanged(catalog, record, matcher, reached) if changed else ()
            for frontier, found in chain(moved, exchanged):
                if found.num_rows:
                    self._hold(found)
                    yield frontier.commit, found
            stop.wait(snapshot.POLL_S)

    def _exchanged(
        self, catalog: Catalog, record: ViewRecord, matcher: Matcher, frontier: deltas.Frontier
    ) -> Iterator[tuple[deltas.Frontier, pa.Table]]:
        """What goes and comes as the queries do; before it, what was published up to where that is told from.

        Only queries that come are matched against the contents. Of what is yielded the one before is held.
        """
        target, rows = deltas.begin(catalog, record)
        steps = deltas.since(catalog, record, frontier)
        if steps is None:
            self._matcher = None  # all is told anew
            return
        for reached, delta in steps:
            if reached.step <= target.step:
                yield reached, matcher.matches(delta)
        before, now = matcher.queries, self._usable(record.schema)
        gone = [name for name, text in before.items() if now.get(name) != text]
        come = {name: text for name, text in now.items() if before.get(name) != text}
        held = consolidate(pa.concat_tables(self._held))
        leaving = _negated(held.filter(pc.is_in(held[QUERY], pa.array(gone, pa.string()))))
        self._matcher = Matcher(record.schema, now)
        yield target, consolidate(pa.concat_tables([leaving, Matcher(record.schema, come).matches(rows)]))

    def _changed(self) -> bool:
        """Whether the queries are others than a moment ago; the files are looked at every ``LOOK_S``."""
        if self._looked_at is not None and time.monotonic() - self._looked_at < LOOK_S:
            return False
        queries, unread = self._files.read()
        if self._looked_at is None:
            for name in self._names or ():
                if name not in queries | unread:
                    raise unknown(name, list(queries))
        self._looked_at = time.monotonic()
        for name, mistake in unread.items():
            self._say(name, mistake)
        wanted = {
            name: query
            for name, query in queries.items()
            if query.view.lower() == self._view.lower() and (self._names is None or name in self._names)
        }
        if wanted == self._queries:
            return False
        self._queries = wanted
        return True

    def _usable(self, schema: ViewSchema) -> dict[str, str]:
        """The texts of those that are queries of the view."""
        wrong = {name: problem(query, schema) for name, query in self._queries.items()}
        for name, error in wrong.items():
            if error is not None:
                self._say(name, error)
        return {name: self._queries[name].query for name, error in wrong.items() if error is None}

    def _say(self, name: str, problem: HeadraceError) -> None:
        if self._said.get(name) != str(problem):
            self._said[name] = str(problem)
            self._told(problem)

    def _hold(self, delta: pa.Table) -> None:
        self._held.append(delta)
        if len(self._held) >= _HELD_PARTS:
            self._held = [consolidate(pa.concat_tables(self._held))]

    def _anew(self, now: pa.Table) -> list[pa.Table]:
        """What leads from the matches that were told to those of now; two deltas where the view has other columns."""
        before, self._held = self._held, [now]
        if not before:
            return [now]
        if before[0].schema != now.schema:
            return [_negated(consolidate(pa.concat_tables(before))), now]
        return [difference(now, consolidate(pa.concat_tables(before)))]


def _negated(matches: pa.Table) -> pa.Table:
    return matches.set_column(matches.num_columns - 1, WEIGHT, pc.negate(matches[WEIGHT]))
