"""A SELECT's rows with the columns that PostgreSQL would give it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from headrace.api.postgres import types
from headrace.api.postgres.names import names
from headrace.api.postgres.rewrite import Rewritten
from headrace.api.postgres.types import PostgresType
from headrace.formats.types.duckdb import compose
from headrace.model.errors import HeadraceError
from headrace.serve.fitting import fitting

FETCHED_ROWS = 64  # of a result are taken from DuckDB at a time, however large they are
BATCH_ROWS, BATCH_BYTES = 8_192, 4 << 20  # are sent at a time: so many rows, or as many as have so many bytes


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str
    type: PostgresType


class Result:
    """A SELECT that can be fetched; ``columns``, and the views and tables it ``reads``, are known before it runs.
    ``close`` frees what it holds.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        query: Rewritten,
        parameters: Sequence[Any],
        statement: Mapping[str, Any],
        read: Collection[str],
    ) -> None:
        self._connection, self.reads = connection, read
        self._relation = self._asked(query.sql, parameters)
        kinds = [types.of_duckdb(kind) for kind in self._relation.types]
        titles = names(statement, self._relation.columns)
        if query.catalogue and not read:
            kinds = [types.of_catalogue(kind, title) for kind, title in zip(kinds, titles, strict=True)]
        self.columns = [ResultColumn(title, kind) for title, kind in zip(titles, kinds, strict=True)]
        self._sql, self._parameters = query.sql, parameters

    def batches(self, forms: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows in parts. ``forms``: 0 for columns that are wanted as text, 1 for those in binary."""
        relation, as_text = self._relation, spelled(self.columns, forms)
        if any(as_text):
            relation = self._asked(self._with_texts(as_text), self._parameters)
        if not self.columns:
            return iter(())
        return _parts(relation.to_arrow_reader(FETCHED_ROWS))

    def plan(self) -> str:
        """How DuckDB would run it."""
        rows = self._connection.execute(compose("EXPLAIN {query}", query=self._sql), list(self._parameters)).fetchall()
        return "\n".join(str(row[-1]) for row in rows)

    def interrupt(self) -> None:
        """End it from another thread; what fetches gets an error of SQLSTATE 57014."""
        self._connection.interrupt()

    def close(self) -> None:
        self._relation = None
        self._connection.close()

    def _asked(self, sql: str, parameters: Sequence[Any]) -> Any:
        relation = self._connection.sql(sql, params=list(parameters) or None)
        if relation is None:
            raise HeadraceError("sql.refused", "that statement gives no rows", next="SELECT ... FROM a view or a table")
        return relation

    def _with_texts(self, as_text: Sequence[bool]) -> str:
        """The query with these columns as text."""
        places = [f"c{number}" for number in range(len(self.columns))]
        shown = [
            column.type.text.format(place) if text else place
            for place, column, text in zip(places, self.columns, as_text, strict=True)
        ]
        return compose(
            "SELECT {shown} FROM ({query}\n) AS result({places})",
            shown=", ".join(shown), query=self._sql, places=", ".join(places),
        )  # fmt: skip


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, as many at once as are sent at once."""
    kept, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        kept.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield from _cut(pa.concat_batches(kept), size)
            kept, rows, size = [], 0, 0
    if rows:
        yield from _cut(pa.concat_batches(kept), size)


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """One of so many bytes in pieces, each of one row at least."""
    while size > 2 * BATCH_BYTES and batch.num_rows > 1:
        piece = batch.slice(0, max(fitting(batch, BATCH_BYTES), 1))
        yield piece
        batch, size = batch.slice(piece.num_rows), size - piece.nbytes
    yield batch


def each(forms: Sequence[int], count: int) -> list[int]:
    """The form of each column, where a client gives none, one for all, or one each. Raises ``psql.protocol``."""
    if len(forms) not in (0, 1, count) or any(form not in (0, 1) for form in forms):
        raise HeadraceError("psql.protocol", f"{len(forms)} formats for {count} columns")
    return list(forms) if len(forms) == count else list(forms or (0,)) * count


def spelled(columns: Sequence[ResultColumn], forms: Sequence[int]) -> list[bool]:
    """Whether a column is wanted as text, and that of Arrow is not PostgreSQL's."""
    return [bool(column.type.text) and not form for column, form in zip(columns, forms, strict=True)]
