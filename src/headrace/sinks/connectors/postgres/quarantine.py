"""Rows of views that PostgreSQL cannot hold: which they are, and the table that keeps them as JSON text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from headrace.sinks.quarantine import QUARANTINE, Quarantine, Unheld, not_text

# Arrow prints the years 1 to 32767 as PostgreSQL reads them.
_FIRST, _LAST = np.datetime64("0001-01-01"), np.datetime64("32767-12-31")
_MINE = sql.SQL("project = $1 AND sink = $2")


def unheld(array: pa.Array) -> Iterator[tuple[np.ndarray, str]]:
    """The judge of values: text with NUL or that is none, and times that PostgreSQL would not read."""
    if pa.types.is_string(array.type):
        yield not_text(array), "the text is not valid UTF-8"
        nul = pc.fill_null(pc.match_substring(array, "\0"), False)
        yield nul.to_numpy(zero_copy_only=False), "it contains the character NUL (U+0000)"
    elif pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        days = _days(array)
        yield (days < _FIRST) | (days > _LAST), "it lies outside of the years 1 to 32767"


def _days(array: pa.Array) -> np.ndarray:
    """The days; of a NULL one that can be held."""
    if pa.types.is_date(array.type):
        numbers = array.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
    else:
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy() // 86_400_000_000
    days: np.ndarray = numbers.astype("datetime64[D]")
    return days


class PostgresQuarantine(Quarantine):
    """Over one connection, in its transaction."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str, project: str, sink: str) -> None:
        self._connection, self._me = connection, (project, sink)
        self._table = sql.Identifier(schema, QUARANTINE)

    def counts(self) -> dict[str, int]:
        rows = self._run("SELECT view, sum(copies)::bigint FROM {table} WHERE {mine} GROUP BY view")
        return dict(rows.fetchall())

    def copies(self, view: str) -> dict[str, int]:
        return dict(self._run("SELECT id, copies FROM {table} WHERE {mine} AND view = $3", view).fetchall())

    def change(self, view: str, rows: Sequence[Unheld], commit: int) -> None:
        columns = [[r.id for r in rows], [r.contents for r in rows], [r.reason for r in rows], [r.weight for r in rows]]
        self._run(
            "INSERT INTO {table} AS q (project, sink, view, id, contents, reason, copies, commit)"
            " SELECT $1, $2, $3, n.*, $8 FROM unnest($4::text[], $5::text[], $6::text[], $7::bigint[]) n"
            " ON CONFLICT (project, sink, view, id)"
            " DO UPDATE SET copies = q.copies + excluded.copies, commit = excluded.commit",
            view,
            *columns,
            commit,
        )
        self._run("DELETE FROM {table} WHERE {mine} AND view = $3 AND copies = 0", view)

    def clear(self, views: Iterable[str]) -> None:
        self._run("DELETE FROM {table} WHERE {mine} AND view = ANY($3)", list(views))

    def _run(self, statement: str, *values: Any) -> psycopg.Cursor[Any]:
        composed = sql.SQL(statement).format(table=self._table, mine=_MINE)
        return self._connection.execute(composed, (*self._me, *values))
