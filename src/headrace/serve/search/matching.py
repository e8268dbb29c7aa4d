"""Stored queries against a delta: each row with the queries that it matches, with its weight.

Whether a query matches depends on the row alone, so that the matches of a delta are the delta of the matches: nothing
is kept of earlier ones. Of the queries only those that may match a row are tried on it (``routing``, ``holds``). The
few that need an index are asked of one in memory with these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from headrace.formats.types.arrow import schema as arrow_schema
from headrace.model.bounds import NEVER, Deadline
from headrace.model.delivery import WEIGHT as WEIGHT_COLUMN
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve.search.compiled import compiled
from headrace.serve.search.fields import PLACE, WEIGHT, documents, fields, index_schema, numbers
from headrace.serve.search.holds import Rows, needs_index
from headrace.serve.search.library import tantivy
from headrace.serve.search.parse import parse
from headrace.serve.search.routing import Router

QUERY = "_query"  # the column with a stored query's name
HEAP_BYTES = 15_000_000
KEPT = 16  # sets of queries that are followed, each of one view
BATCH_ROWS = 5_000  # what a query may match is held of so many rows at a time


@dataclass(frozen=True, slots=True)
class Matched:
    """Rows of a view that a query matches, of its contents or of a delta: a ``parts.Keep``."""

    query: str

    def together(self, schema: ViewSchema, rows: pa.Table, keeps: Sequence[Matched]) -> list[pa.Table | HeadraceError]:
        """``search.query`` for what is no query of the view any more."""
        matcher, wrong = _matcher(schema, tuple(keep.query for keep in keeps))
        places = matcher.places_of_each(rows)
        return [wrong.get(keep.query) or rows.take(pa.array(places.get(keep.query, ()), pa.int64())) for keep in keeps]


@lru_cache(KEPT)
def _matcher(schema: ViewSchema, queries: tuple[str, ...]) -> tuple[Matcher, Mapping[str, HeadraceError]]:
    """Those of the texts that are queries of the view, each by itself; what is wrong with the others."""
    known, wrong = fields(schema), dict[str, HeadraceError]()
    for query in queries:
        try:
            parse(query, known)
        except HeadraceError as error:
            wrong[query] = error
    return Matcher(schema, {query: query for query in queries if query not in wrong}), wrong


class Matcher:
    """Queries, each a name and its text, over the rows of a view.

    Raises ``HeadraceError`` (search.query) for a text that is no query of that view.
    """

    def __init__(self, schema: ViewSchema, queries: Mapping[str, str]) -> None:
        self.schema, self.queries, self._fields = schema, dict(queries), fields(schema)
        self._names = np.array(list(queries), object)
        self._nodes = [parse(text, self._fields) for text in queries.values()]
        self._router = Router(self._nodes)
        self._indexed = {number for number, node in enumerate(self._nodes) if needs_index(node)}
        columns = [pa.field(QUERY, pa.string()), *arrow_schema(schema.columns), pa.field(WEIGHT_COLUMN, pa.int64())]
        self._matches = pa.schema(columns)

    def places(self, rows: pa.Table) -> pa.Array:
        """Which of the rows any of the queries matches, in order."""
        found = {place for places in self.places_of_each(rows).values() for place in places}
        return pa.array(sorted(found), pa.int64())

    def places_of_each(self, rows: pa.Table) -> dict[str, list[int]]:
        """Which of the rows each of the queries matches, in order; of those that match any, by their names."""
        places = dict[str, list[int]]()
        for at in range(0, rows.num_rows, BATCH_ROWS):
            for number, place in zip(*self._found(rows.slice(at, BATCH_ROWS)), strict=True):
                places.setdefault(self._names[number], []).append(at + place)
        return places

    def matches(self, delta: pa.Table, deadline: Deadline = NEVER) -> pa.Table:
        """``_query``, the view's columns and ``_w``: a row for each query that a row of ``delta`` matches.

        Raises ``query.timeout``.
        """
        parts = [self._matches.empty_table()]
        for at in range(0, delta.num_rows, BATCH_ROWS):
            deadline.check()
            parts.append(self._batch(delta.slice(at, BATCH_ROWS)))
        return pa.concat_tables(parts)

    def _batch(self, rows: pa.Table) -> pa.Table:
        owners, places = self._found(rows)
        taken = rows.take(pa.array(places, pa.int64()))
        named = pa.array(self._names[np.array(owners, np.int64)], pa.string())
        ordered = [named, *(taken[name] for name in self._matches.names[1:])]
        return pa.Table.from_arrays(ordered, names=self._matches.names).cast(self._matches)

    def _found(self, rows: pa.Table) -> tuple[list[int], list[int]]:
        """(queries, by their numbers; the row that each matches), pair by pair."""
        columns = [rows[name] for name in self.schema.names]
        known = {field.id: numbers(field, column) for field, column in zip(self._fields, columns, strict=True)}
        looked = Rows(known)
        candidates = self._router.candidates(looked, known)
        owners, places = list[int](), list[int]()
        for number in sorted(candidates.keys() - self._indexed):
            node = self._nodes[number]
            found = sorted(row for row in candidates[number] if looked.holds(node, row))
            owners += [number] * len(found)
            places += found
        for number, found in self._asked(rows, candidates):
            owners += [number] * len(found)
            places += found
        return owners, places

    def _asked(self, rows: pa.Table, candidates: Mapping[int, Collection[int]]) -> Iterator[tuple[int, list[int]]]:
        """What those of the candidates find that need an index."""
        asked = sorted(candidates.keys() & self._indexed)
        if not asked:
            return
        places = sorted(set[int]().union(*(candidates[number] for number in asked)))
        part, schema, module = rows.take(pa.array(places)), index_schema(self._fields), tantivy()
        made = module.Index(schema)
        writer = made.writer(HEAP_BYTES, 1)
        beside = {PLACE: np.array(places), WEIGHT: np.ones(len(places), np.int64)}
        columns = [part[name] for name in self.schema.names]
        for document in documents(self._fields, columns, beside, schema):
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        made.reload()
        searcher = made.searcher()
        for number in asked:
            hits = searcher.search(compiled(self._nodes[number], schema), limit=len(places), count=False).hits
            yield number, sorted(searcher.fast_field_values(PLACE, [address for _, address in hits]))
