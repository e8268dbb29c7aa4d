"""Rows of views that DuckDB cannot hold: which they are, and the table that keeps them as JSON text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from headrace.formats.types.duckdb import compose, identifier
from headrace.sinks.quarantine import QUARANTINE, Quarantine, Unheld, not_text


def unheld(array: pa.Array) -> Iterator[tuple[np.ndarray, str]]:
    """The judge of values: text that is none, and the two ends of time, which mean infinity to DuckDB."""
    if pa.types.is_string(array.type):
        yield not_text(array), "the text is not valid UTF-8"
    elif pa.types.is_date(array.type):
        yield _ends(array.cast(pa.int32()), np.int32), "DuckDB takes it for infinity"
    elif pa.types.is_timestamp(array.type):
        yield _ends(array.cast(pa.int64()), np.int64), "DuckDB takes it for infinity"


def _ends(array: pa.Array, kind: type[np.signedinteger[Any]]) -> np.ndarray:
    numbers = array.fill_null(0).to_numpy()
    mask: np.ndarray = (numbers <= np.iinfo(kind).min + 1) | (numbers == np.iinfo(kind).max)
    return mask


class DuckdbQuarantine(Quarantine):
    """Over one connection, in its transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema: str, project: str, sink: str) -> None:
        self._connection, self._me = connection, [project, sink]
        self._table = identifier(schema, QUARANTINE)

    def counts(self) -> dict[str, int]:
        rows = self._run("SELECT view, sum(copies)::BIGINT FROM {table} WHERE {mine} GROUP BY view")
        return dict(rows.fetchall())

    def copies(self, view: str) -> dict[str, int]:
        return dict(self._run("SELECT id, copies FROM {table} WHERE {mine} AND view = $3", view).fetchall())

    def change(self, view: str, rows: Sequence[Unheld], commit: int) -> None:
        there = dict(
            self._run(
                "SELECT id, copies FROM {table} WHERE {mine} AND view = $3 AND list_contains($4, id)",
                view,
                [row.id for row in rows],
            ).fetchall()
        )
        self._run(
            "DELETE FROM {table} WHERE {mine} AND view = $3 AND list_contains($4, id)", view, [row.id for row in rows]
        )
        for row in rows:
            copies = there.get(row.id, 0) + row.weight
            if copies:
                self._run("INSERT INTO {table} VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                          view, row.id, row.contents, row.reason, copies, commit)  # fmt: skip

    def clear(self, views: Iterable[str]) -> None:
        self._run("DELETE FROM {table} WHERE {mine} AND list_contains($3, view)", list(views))

    def _run(self, statement: str, *values: Any) -> duckdb.DuckDBPyConnection:
        mine = "project = $1 AND sink = $2"
        return self._connection.execute(compose(statement, table=self._table, mine=mine), [*self._me, *values])
