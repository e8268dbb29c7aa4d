"""Matches of stored queries in the place of views, for a sink that tells of those that come and go.

Whether a query matches depends on the row alone, so the matches of a delta are the delta of the matches: a sink is
given them as of a view that has the query's name. Its version changes with the view's and with the query's text, so
that a query that is edited is to the sink what an edited view is.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from headrace.catalog.searches import StoredQueries, unknown
from headrace.catalog.store import ViewRecord
from headrace.engine.wanted import Wanted
from headrace.model.definition import StoredQuery
from headrace.serve.search.matching import Matcher
from headrace.serve.search.stored import no_view, problem

LOOK_S = 1.0  # so often the files of queries are looked at
LOOK_SHARE = 0.02  # of a sink's time, at most, where there are very many


@dataclass(frozen=True, slots=True)
class Matched(ViewRecord):
    """A query's matches as a view, under the query's name.

    ``rows_of``: the feed of the view whose rows they are; ``matcher``: of all queries of that view that the sink has.
    """

    rows_of: str
    matcher: Matcher

    @property
    def feed(self) -> str:
        return self.rows_of


class Searches:
    """The stored queries of these names, as their files are. Nothing has to be applied when they change."""

    def __init__(self, project: Path, names: Sequence[str]) -> None:
        self._files, self._names = StoredQueries(project), names
        self._queries: dict[str, StoredQuery] = {}
        self._look_at = 0.0
        self._made_of: tuple[dict[str, StoredQuery], dict[str, ViewRecord]] | None = None
        self._known = Wanted({})
        self._of: dict[str, StoredQuery] = {}  # one of the queries of each view

    def views(self) -> list[str]:
        """Those whose rows are matched. From any thread, also while the sink's finds others."""
        return sorted({schema.of for schema in self._known.schemas.values()})

    def wanted(self, views: Mapping[str, ViewRecord]) -> Wanted:
        """The matches of each query, of these views; the same one for as long as nothing changes.

        Raises ``search.unknown``, ``search.query``, ``view.unknown``, ``config.invalid``: what is wrong with one.
        """
        self._look()
        by_name = {name.lower(): record for name, record in views.items()}
        for name, query in self._of.items():
            if name not in by_name:
                raise no_view(query, sorted(views))
        of = {name: by_name[name] for name in self._of}
        if self._made_of is None or self._made_of[0] is not self._queries or self._made_of[1] != of:
            matchers = {name: self._matcher(record) for name, record in of.items()}
            self._known = Wanted(
                {
                    name: _matched(query, of[query.view.lower()], matchers[query.view.lower()])
                    for name, query in self._queries.items()
                }
            )
            self._made_of = self._queries, of
        return self._known

    def _matcher(self, view: ViewRecord) -> Matcher:
        """Of all queries of a view. Raises ``search.query``."""
        mine = [query for query in self._queries.values() if query.view.lower() == view.schema.name.lower()]
        for query in mine:
            wrong = problem(query, view.schema)
            if wrong is not None:
                raise wrong
        return Matcher(view.schema, {query.name: query.query for query in mine})

    def _look(self) -> None:
        began = time.monotonic()
        if self._queries and began < self._look_at:
            return
        queries, unread = self._files.read()
        for name in self._names:
            if name in unread:
                raise unread[name]
            if name not in queries:
                raise unknown(name, list(queries))
        wanted = {name: queries[name] for name in self._names}
        if wanted != self._queries:
            self._queries = wanted
            self._of = {query.view.lower(): query for query in wanted.values()}
        now = time.monotonic()
        self._look_at = now + max(LOOK_S, (now - began) / LOOK_SHARE)


def matches(records: Mapping[str, ViewRecord], rows: pa.Table, *, every: bool) -> Iterator[tuple[str, pa.Table]]:
    """(name, the rows that are wanted for it) of those that want rows of one view: all, but for a query's matches.

    ``every``: also of a query that matches none.
    """
    places = _places(records, rows)
    for name, record in records.items():
        if not isinstance(record, Matched):
            yield name, rows
        elif every or name in places:
            yield name, rows.take(pa.array(places.get(name, ()), pa.int64()))


def matches_apart(
    records: Mapping[str, ViewRecord], rows: pa.Table, commits: pa.Array
) -> Iterator[tuple[str, pa.Table, pa.Array]]:
    """(name, rows, the commit of each) of what was changed by several commits, as ``matches``."""
    places = _places(records, rows)
    for name, record in records.items():
        if not isinstance(record, Matched):
            yield name, rows, commits
        elif name in places:
            taken = pa.array(places[name], pa.int64())
            yield name, rows.take(taken), commits.take(taken)


def _places(records: Mapping[str, ViewRecord], rows: pa.Table) -> Mapping[str, list[int]]:
    """Query -> which of the rows it matches, of those that match any."""
    matcher = next((record.matcher for record in records.values() if isinstance(record, Matched)), None)
    return matcher.places_of_each(rows) if matcher is not None else {}


def _matched(query: StoredQuery, view: ViewRecord, matcher: Matcher) -> Matched:
    made = hashlib.sha256(f"{view.schema.version} {query.view.lower()} {query.query}".encode()).digest()
    schema = replace(view.schema, name=query.name, version=int.from_bytes(made[:4], "big") >> 1, of=view.schema.name)
    return Matched(
        schema, view.sql, view.fingerprint, view.state, view.reason, view.created_commit, view.feed, matcher
    )  # fmt: skip
