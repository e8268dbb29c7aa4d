"""The tables that every DuckDB sink keeps beside its views: how far it is, and the state of each view.

The third, the quarantine, is made and removed with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from headrace.formats.types.duckdb import compose, identifier
from headrace.model.transaction import TransactionOrigin
from headrace.sinks.quarantine import QUARANTINE
from headrace.sinks.target import Held, Target
from headrace.sinks.tenure import Tenure

PROGRESS, VIEWS = "headrace_progress", "headrace_views"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PROGRESS_COLUMNS = (
    "project VARCHAR NOT NULL, sink VARCHAR NOT NULL, commit BIGINT, generation BIGINT NOT NULL,"
    " committed_at TIMESTAMPTZ, written_at TIMESTAMPTZ, source VARCHAR, position VARCHAR, log VARCHAR"
)
_VIEWS_COLUMNS = (
    "project VARCHAR NOT NULL, sink VARCHAR NOT NULL, view VARCHAR NOT NULL, version BIGINT NOT NULL,"
    " state VARCHAR NOT NULL, commit BIGINT, reason VARCHAR, key VARCHAR[] NOT NULL, declared BOOLEAN NOT NULL"
)
_QUARANTINE_COLUMNS = (
    "project VARCHAR NOT NULL, sink VARCHAR NOT NULL, view VARCHAR NOT NULL, id VARCHAR NOT NULL,"
    " contents VARCHAR NOT NULL, reason VARCHAR NOT NULL, copies BIGINT NOT NULL, commit BIGINT NOT NULL"
)


class Progress:
    """``headrace_progress``: one row a sink, with where its last transaction came from. ``headrace_views``: one a view.

    A live view's ``commit`` is that of its last change: it is current as of the progress row. A stale view's is
    the commit whose contents it still shows.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema: str, project: str, sink: str, where: str) -> None:
        self._connection, self._schema, self._where = connection, schema, where
        self._me = [project, sink]
        self._names = {
            "schema": identifier(schema),
            "progress": identifier(schema, PROGRESS),
            "views": identifier(schema, VIEWS),
            "quarantine": identifier(schema, QUARANTINE),
        }

    def ensure(self) -> None:
        self._run("CREATE SCHEMA IF NOT EXISTS {schema}")
        self._run("CREATE TABLE IF NOT EXISTS {progress} (" + _PROGRESS_COLUMNS + ")")
        for added in ("source", "position", "log"):
            self._run("ALTER TABLE {progress} ADD COLUMN IF NOT EXISTS " + added + " VARCHAR")
        self._run("CREATE TABLE IF NOT EXISTS {views} (" + _VIEWS_COLUMNS + ")")
        self._run("CREATE TABLE IF NOT EXISTS {quarantine} (" + _QUARANTINE_COLUMNS + ")")

    def exists(self) -> bool:
        row = self._run(
            "SELECT count(*) FROM duckdb_tables() WHERE schema_name = $1 AND table_name IN ($2, $3)"
            " AND database_name = current_database()",
            [self._schema, PROGRESS, VIEWS],
        ).fetchone()
        return row is not None and row[0] == 2

    def take_over(self, tenure: Tenure) -> tuple[int | None, str | None]:
        """Fences every older instance; (commit reached, id of its log). Raises ``sink.fenced``."""
        row = self._row()
        generation = tenure.take_over(row[1] if row else 0, tenure.step)
        if row is None:
            self._run("INSERT INTO {progress} (project, sink, generation) VALUES ($1, $2, $3)", [*self._me, generation])
            return None, None
        self._run("UPDATE {progress} SET generation = $3 WHERE project = $1 AND sink = $2", [*self._me, generation])
        log = self._run("SELECT log FROM {progress} WHERE project = $1 AND sink = $2", self._me).fetchone()
        return row[0], log[0] if log else None

    def follow(self, log: str, anew: str) -> None:
        """The commits are those of this log from now on; ``anew`` says why what is there is not of it."""
        self._run("UPDATE {progress} SET log = $3 WHERE project = $1 AND sink = $2", [*self._me, log or None])
        if anew:
            self._run("UPDATE {progress} SET commit = NULL WHERE project = $1 AND sink = $2", self._me)
            self._run(
                "UPDATE {views} SET version = 0, state = 'stale', reason = $3 WHERE project = $1 AND sink = $2",
                [*self._me, anew],
            )

    def reached(self) -> int | None:
        """The commit reached; None for a sink that was never opened here."""
        row = self._row() if self.exists() else None
        return row[0] if row else None

    def check(self, tenure: Tenure) -> int | None:
        """The commit reached. Raises ``sink.fenced``."""
        row = self._row() if self.exists() else None
        tenure.check(row[1] if row else None)
        return row[0] if row else None

    def advance(self, commit: int, origin: TransactionOrigin) -> None:
        at = _EPOCH + timedelta(microseconds=origin.committed_us) if origin.committed_us else None
        self._run(
            "UPDATE {progress} SET commit = $3, committed_at = coalesce($4::TIMESTAMPTZ, committed_at),"
            " written_at = $5, source = $6, position = $7 WHERE project = $1 AND sink = $2",
            [*self._me, commit, at, datetime.now(UTC), origin.source or None, origin.position or None],
        )

    def held(self) -> dict[str, Held]:
        """View -> what its status row says; the table itself may be gone."""
        rows = self._run(
            "SELECT view, version, commit, key, declared FROM {views} WHERE project = $1 AND sink = $2", self._me
        ).fetchall()
        return {view: Held(version, at, tuple(key), declared) for view, version, at, key, declared in rows}

    def changed(self, views: Iterable[str], commit: int) -> None:
        self._run(
            "UPDATE {views} SET state = 'live', commit = $3, reason = NULL"
            " WHERE project = $1 AND sink = $2 AND list_contains($4, view)",
            [*self._me, commit, list(views)],
        )

    def replaced(self, target: Target, commit: int) -> None:
        self.dropped([target.view])
        self._run(
            "INSERT INTO {views} VALUES ($1, $2, $3, $4, 'live', $5, NULL, $6::VARCHAR[], $7)",
            [*self._me, target.view, target.version, commit, list(target.key), target.declared],
        )

    def stale(self, reasons: Mapping[str, str], versions: Mapping[str, int], frontier: int | None) -> None:
        """The views' contents stay; the version and key of the status row stay theirs."""
        known = self.held()
        for view, reason in reasons.items():
            if view in known:
                self._run(
                    "UPDATE {views} SET commit = CASE state WHEN 'live' THEN $5 ELSE commit END,"
                    " state = 'stale', reason = $4 WHERE project = $1 AND sink = $2 AND view = $3",
                    [*self._me, view, reason, frontier],
                )
            else:
                self._run(
                    "INSERT INTO {views} VALUES ($1, $2, $3, $4, 'stale', NULL, $5, []::VARCHAR[], false)",
                    [*self._me, view, versions[view], reason],
                )

    def dropped(self, views: Iterable[str]) -> None:
        self._run(
            "DELETE FROM {views} WHERE project = $1 AND sink = $2 AND list_contains($3, view)",
            [*self._me, list(views)],
        )

    def forget(self) -> None:
        """Removes the sink's rows, and with the last sink the tables."""
        self._run("DELETE FROM {quarantine} WHERE project = $1 AND sink = $2", self._me)
        self._run("DELETE FROM {views} WHERE project = $1 AND sink = $2", self._me)
        self._run("DELETE FROM {progress} WHERE project = $1 AND sink = $2", self._me)
        if self._run("SELECT 1 FROM {progress} LIMIT 1").fetchone() is None:
            self._run("DROP TABLE {quarantine}")
            self._run("DROP TABLE {views}")
            self._run("DROP TABLE {progress}")

    def _row(self) -> tuple[int | None, int] | None:
        row = self._run(
            "SELECT commit, generation FROM {progress} WHERE project = $1 AND sink = $2", self._me
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def _run(self, statement: str, values: list[Any] | None = None) -> duckdb.DuckDBPyConnection:
        return self._connection.execute(compose(statement, **self._names), values)
