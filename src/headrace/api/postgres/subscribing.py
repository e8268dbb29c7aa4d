"""SUBSCRIBE: what a view holds and then its changes as they are published, whole steps or transactions at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from headrace.api.postgres import types
from headrace.api.postgres.reading import Reader
from headrace.api.postgres.result import BATCH_ROWS, ResultColumn
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.formats.types.duckdb import compose, identifier
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.database import as_duckdb
from headrace.serve.relation import Described

COMMIT, DIFF = "headrace_commit", "headrace_diff"
_CHANGES = "headrace_changes"


class Subscription:
    """Rows of the view, each with the commit that brought it and how many copies of it come, or go when negative.
    Ends with ``psql.changed`` once the view has other columns: the client was told of these.

    ``over`` is asked now and then, with the view's name, whether to end.
    """

    def __init__(
        self, reader: Reader, folder: Path, relation: Described, contents: bool,
        over: Callable[[str], bool],
    ) -> None:  # fmt: skip
        if relation.kind != "view":
            raise HeadraceError(
                "sql.refused", f"{relation.name} is a table, and views are followed", next="headrace views"
            )
        self.reads = (relation.name,)
        self._relation, self._reader, self._folder, self._contents = relation, reader, folder, contents
        self._stop = _Asked(lambda: over(relation.name))
        self.columns = [
            ResultColumn(COMMIT, types.INT8),
            ResultColumn(DIFF, types.INT8),
            *(ResultColumn(column.name, types.of_spark(column.type)) for column in relation.columns),
        ]

    def batches(self, forms: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The changes of a step, or transaction, then an empty part."""
        after = None if self._contents else self._now()
        empty = pa.RecordBatch.from_pylist([], pa.schema([(str(n), pa.string()) for n in range(len(self.columns))]))
        connection = self._reader.connection()
        try:
            shared = self._reader.followed
            for commit, delta in snapshot.follow(self._folder, self._relation.name, after, self._stop, shared):
                self._check(delta)
                connection.register(_CHANGES, as_duckdb(delta))
                yield from connection.sql(self._shown(commit, forms)).to_arrow_reader(BATCH_ROWS)
                yield empty
        finally:
            connection.close()

    def _check(self, delta: pa.Table) -> None:
        told = [(field.name, field.type) for field in arrow_schema(self._relation.columns)]
        if [(field.name, field.type) for field in delta.drop_columns(WEIGHT).schema] != told:
            raise HeadraceError(
                "psql.changed", f"{self._relation.name} has other columns now", next="SUBSCRIBE to it anew"
            )

    def interrupt(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._stop.set()

    def _now(self) -> int:
        return self._reader.questions.mirror.moment([self._relation.name]).commit

    def _shown(self, commit: int, forms: Sequence[int]) -> str:
        names = [identifier(column.name) for column in self._relation.columns]
        columns = [
            column.type.text.format(name) if column.type.text and not form else name
            for name, column, form in zip(names, self.columns[2:], forms[2:], strict=True)
        ]
        return compose(
            "SELECT {commit}::BIGINT, {weight}, {columns} FROM {changes}",
            commit=str(commit), weight=identifier(WEIGHT), columns=", ".join(columns), changes=_CHANGES,
        )  # fmt: skip


class _Asked(threading.Event):
    """Set once ``over`` says so."""

    def __init__(self, over: Callable[[], bool]) -> None:
        super().__init__()
        self._over = over

    def is_set(self) -> bool:
        return super().is_set() or self._over()
