"""Matches of stored queries in the place of views, for a sink that tells of those that come and go.

Whether a query matches depends on the row alone, so the matches of a delta are the delta of the matches: a sink is
given them as of a view that has the query's name. Its version changes with the view's and with the query's text, so
that a query that is edited is to the sink what an edited view is.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from headrace.catalog.searches import StoredQueries, unknown
from headrace.catalog.store import ViewRecord
from headrace.model.definition import StoredQuery
from headrace.serve.search.matching import Matcher
from headrace.serve.search.stored import no_view, problem

LOOK_S = 1.0  # so often the files of queries are looked at


@dataclass(frozen=True, slots=True)
class Matched(ViewRecord):
    """A query's matches as a view; ``rows_of``: the feed of the view whose rows they are."""

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
        self._looked_at: float | None = None
        self._known: dict[str, Matched] = {}

    def views(self) -> list[str]:
        """Those whose rows are matched. From any thread, also while the sink's finds others."""
        return sorted({record.schema.of for record in list(self._known.values())})

    def records(self, views: Mapping[str, ViewRecord]) -> dict[str, Matched]:
        """Query -> its matches, of these views.

        Raises ``search.unknown``, ``search.query``, ``view.unknown``, ``config.invalid``: what is wrong with one.
        """
        self._look()
        by_name = {name.lower(): record for name, record in views.items()}
        for query in self._queries.values():
            view = by_name.get(query.view.lower())
            if view is None:
                raise no_view(query, sorted(views))
            known = self._known.get(query.name)
            if known is None or known.matcher.queries != {query.name: query.query} or _of(known) != _of(view):
                self._known[query.name] = _matched(query, view)
            else:
                self._known[query.name] = replace(known, state=view.state, reason=view.reason)
        return {name: self._known[name] for name in self._queries}

    def _look(self) -> None:
        if self._looked_at is not None and time.monotonic() - self._looked_at < LOOK_S:
            return
        queries, unread = self._files.read()
        for name in self._names:
            if name in unread:
                raise unread[name]
            if name not in queries:
                raise unknown(name, list(queries))
        self._queries = {name: queries[name] for name in self._names}
        self._looked_at = time.monotonic()


def matches(record: ViewRecord, rows: pa.Table) -> pa.Table:
    """Of a view's rows those that are wanted: all, but of a query's matches."""
    return rows.take(record.matcher.places(rows)) if isinstance(record, Matched) else rows


def _matched(query: StoredQuery, view: ViewRecord) -> Matched:
    """Raises ``search.query``."""
    wrong = problem(query, view.schema)
    if wrong is not None:
        raise wrong
    made = hashlib.sha256(f"{view.schema.version} {query.view.lower()} {query.query}".encode()).digest()
    schema = replace(view.schema, name=query.name, version=int.from_bytes(made[:4], "big") >> 1, of=view.schema.name)
    return Matched(
        schema, view.sql, view.fingerprint, view.state, view.reason, view.created_commit, view.feed,
        Matcher(view.schema, {query.name: query.query}),
    )  # fmt: skip


def _of(record: ViewRecord) -> tuple[str, str, int]:
    return record.feed, record.fingerprint, record.created_commit
