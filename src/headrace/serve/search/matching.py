"""Stored queries against a delta: each row with the queries that it matches, with its weight.

Whether a query matches depends on the row alone, so that the matches of a delta are the delta of the matches: nothing
is kept of earlier ones. The rows that some query may match are put into an index in memory, and only the queries that
may match are asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.types.arrow import schema as arrow_schema
from headrace.model.delivery import WEIGHT as WEIGHT_COLUMN
from headrace.model.schema import ViewSchema
from headrace.serve.search.compiled import compiled
from headrace.serve.search.fields import PLACE, WEIGHT, documents, fields, index_schema, numbers
from headrace.serve.search.library import tantivy
from headrace.serve.search.parse import parse
from headrace.serve.search.routing import Router

QUERY = "_query"  # the column with a stored query's name
HEAP_BYTES = 15_000_000
BATCH_ROWS = 50_000


class Matcher:
    """Queries, each a name and its text, over the rows of a view.

    Raises ``HeadraceError`` (search.query) for a text that is no query of that view.
    """

    def __init__(self, schema: ViewSchema, queries: Mapping[str, str]) -> None:
        self.schema, self.names = schema, np.array(list(queries), object)
        self._fields = fields(schema)
        nodes = [parse(text, self._fields) for text in queries.values()]
        self._router = Router(nodes)
        self._index_schema = index_schema(self._fields)
        self._compiled: dict[int, Any] = {}
        self._nodes = nodes
        self._index = tantivy().Index(self._index_schema)
        self._index.config_reader(reload_policy="manual")
        self._writer = self._index.writer(HEAP_BYTES, 1)
        columns = [pa.field(QUERY, pa.string()), *arrow_schema(schema.columns), pa.field(WEIGHT_COLUMN, pa.int64())]
        self._matches = pa.schema(columns)

    def matches(self, delta: pa.Table) -> pa.Table:
        """``_query``, the view's columns and ``_w``: a row for each query that a row of ``delta`` matches."""
        parts = [self._batch(delta.slice(at, BATCH_ROWS)) for at in range(0, delta.num_rows, BATCH_ROWS)]
        return pa.concat_tables([self._matches.empty_table(), *parts])

    def close(self) -> None:
        self._writer.wait_merging_threads()

    def _batch(self, rows: pa.Table) -> pa.Table:
        columns = [rows[name] for name in self.schema.names]
        known = {field.id: numbers(field, column) for field, column in zip(self._fields, columns, strict=True)}
        queries, hit = self._router.candidates(known)
        if not queries or not hit.any():
            return self._matches.empty_table()
        rows = rows.filter(pa.array(hit))
        searcher = self._indexed(rows)
        owners, places = list[int](), list[int]()
        for number in sorted(queries):
            hits = searcher.search(self._query(number), limit=rows.num_rows, count=False).hits
            if hits:
                found = searcher.fast_field_values(PLACE, [address for _, address in hits])
                owners += [number] * len(found)
                places += found
        found = rows.take(pa.array(places, pa.int64()))
        named = pa.array(self.names[np.array(owners, np.int64)], pa.string())
        ordered = [named, *(found[name] for name in self._matches.names[1:])]
        return pa.Table.from_arrays(ordered, names=self._matches.names).cast(self._matches)

    def _indexed(self, rows: pa.Table) -> Any:
        """The index in memory with these rows alone."""
        self._writer.delete_all_documents()
        count = rows.num_rows
        beside = {PLACE: np.arange(count), WEIGHT: np.ones(count, np.int64)}
        columns = [rows[name] for name in self.schema.names]
        for document in documents(self._fields, columns, beside, self._index_schema):
            self._writer.add_document(document)
        self._writer.commit()
        self._index.reload()
        return self._index.searcher()

    def _query(self, number: int) -> Any:
        if number not in self._compiled:
            self._compiled[number] = compiled(self._nodes[number], self._index_schema)
        return self._compiled[number]
