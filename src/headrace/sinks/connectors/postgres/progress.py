"""The tables that every PostgreSQL sink keeps beside its views: how far it is, and the state of each view.

The third, the quarantine, is made and removed with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionOrigin
from headrace.sinks.connectors.postgres import errors
from headrace.sinks.connectors.postgres.pipelined import pipelined
from headrace.sinks.quarantine import QUARANTINE
from headrace.sinks.target import Held, Target
from headrace.sinks.tenure import Tenure

PROGRESS, VIEWS = "headrace_progress", "headrace_views"
_MARK = "made by headrace"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DEFINITIONS = {
    PROGRESS: "CREATE TABLE {} (project text NOT NULL, sink text NOT NULL, commit bigint, generation bigint NOT NULL,"
    " committed_at timestamptz, written_at timestamptz, source text, position text, log text,"
    " PRIMARY KEY (project, sink))",
    VIEWS: "CREATE TABLE {} (project text NOT NULL, sink text NOT NULL, view text NOT NULL, version bigint NOT NULL,"
    " state text NOT NULL CHECK (state IN ('live', 'stale')), commit bigint, reason text, key text[] NOT NULL,"
    " declared boolean NOT NULL, PRIMARY KEY (project, sink, view))",
    QUARANTINE: "CREATE TABLE {} (project text NOT NULL, sink text NOT NULL, view text NOT NULL, id text NOT NULL,"
    " contents text NOT NULL, reason text NOT NULL, copies bigint NOT NULL, commit bigint NOT NULL,"
    " PRIMARY KEY (project, sink, view, id))",
}
_ADDED = sql.SQL(
    "ALTER TABLE {} ADD COLUMN IF NOT EXISTS source text, ADD COLUMN IF NOT EXISTS position text,"
    " ADD COLUMN IF NOT EXISTS log text"
)
_MINE = sql.SQL("project = $1 AND sink = $2")


class Progress:
    """``headrace_progress``: one row a sink, with where its last transaction came from. ``headrace_views``: one a view.

    A live view's ``commit`` is that of its last change: it is current as of the progress row. A stale view's is
    the commit whose contents it still shows.
    """

    def __init__(self, connection: psycopg.Connection[Any], schema: str, project: str, sink: str, where: str) -> None:
        self._connection, self._schema, self._where = connection, schema, where
        self._me = (project, sink)
        self._progress, self._views = sql.Identifier(schema, PROGRESS), sql.Identifier(schema, VIEWS)

    def ensure(self) -> None:
        """Makes schema and tables where they are missing. Raises ``sink.rights`` with the GRANT, ``sink.conflict``."""
        there = self._connection.execute("SELECT to_regnamespace(quote_ident($1)) IS NOT NULL", (self._schema,))
        if not (there.fetchone() or (False,))[0]:
            self._demand("has_database_privilege(current_database(), 'CREATE')", "CREATE ON DATABASE {database}")
            self._connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema)))
        may = "has_schema_privilege($1, 'USAGE') AND has_schema_privilege($1, 'CREATE')"
        self._demand(may, "USAGE, CREATE ON SCHEMA {schema}")
        self._demand("has_database_privilege(current_database(), 'TEMP')", "TEMPORARY ON DATABASE {database}")
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('headrace', 0))")
        marks = dict(
            self._connection.execute(
                "SELECT c.relname::text, obj_description(c.oid, 'pg_class') FROM pg_class c"
                " WHERE c.relnamespace = to_regnamespace(quote_ident($1)) AND c.relname = ANY($2)",
                (self._schema, list(_DEFINITIONS)),
            ).fetchall()
        )
        for name, definition in _DEFINITIONS.items():
            table = sql.Identifier(self._schema, name)
            if name not in marks:
                self._connection.execute(sql.SQL(definition).format(table))
                self._connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, sql.Literal(_MARK)))
            elif marks[name] != _MARK:
                raise errors.foreign(f"the schema '{self._schema}' already holds '{name}'", self._where)
        if PROGRESS in marks and not self._has_added():
            self._connection.execute(_ADDED.format(self._progress))

    def _has_added(self) -> bool:
        """Whether the table has the columns that the first version of it lacked."""
        row = self._connection.execute(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass($1)"
            " AND attname IN ('source', 'position', 'log') AND NOT attisdropped",
            (sql.Identifier(self._schema, PROGRESS).as_string(self._connection),),
        ).fetchone()
        return row == (3,)

    def exists(self) -> bool:
        names = [sql.Identifier(self._schema, name).as_string(self._connection) for name in (PROGRESS, VIEWS)]
        row = self._connection.execute("SELECT to_regclass($1), to_regclass($2)", names).fetchone()
        return row is not None and None not in row

    def take_over(self, tenure: Tenure) -> tuple[int | None, str | None]:
        """Fences every older instance; (commit reached, id of its log). Waits for a write to end.

        Raises ``sink.fenced``.
        """
        step = tenure.step
        row = self._connection.execute(
            sql.SQL(
                "INSERT INTO {} AS p (project, sink, generation) VALUES ($1, $2, $3) ON CONFLICT (project, sink)"
                " DO UPDATE SET generation = p.generation + $3 RETURNING commit, log, generation"
            ).format(self._progress),
            (*self._me, step),
        ).fetchone()
        assert row is not None  # an upsert always returns its row
        commit, log, generation = row
        tenure.take_over(generation - step, step)
        return commit, log

    def follow(self, log: str, anew: str) -> None:
        """The commits are those of this log from now on; ``anew`` says why what is there is not of it."""
        self._connection.execute(
            sql.SQL("UPDATE {} SET log = $3 WHERE {}").format(self._progress, _MINE), (*self._me, log or None)
        )
        if anew:
            self._connection.execute(
                sql.SQL("UPDATE {} SET commit = NULL WHERE {}").format(self._progress, _MINE), self._me
            )
            self._connection.execute(
                sql.SQL("UPDATE {} SET version = 0, state = 'stale', reason = $3 WHERE {}").format(self._views, _MINE),
                (*self._me, anew),
            )

    def reached(self) -> int | None:
        """The commit reached; None for a sink that was never opened here."""
        row = self._connection.execute(
            sql.SQL("SELECT commit FROM {} WHERE {}").format(self._progress, _MINE), self._me
        ).fetchone()
        return row[0] if row else None

    def lock(self, tenure: Tenure) -> int | None:
        """Holds the progress row until the transaction ends; the commit reached. Raises ``sink.fenced``."""
        with pipelined(self._connection):  # BEGIN and this in one round trip
            cursor = self._connection.execute(
                sql.SQL("SELECT commit, generation FROM {} WHERE {} FOR UPDATE").format(self._progress, _MINE), self._me
            )
        row = cursor.fetchone()
        tenure.check(row[1] if row else None)
        commit: int | None = row[0] if row else None
        return commit

    def advance(self, commit: int, origin: TransactionOrigin) -> None:
        at = _EPOCH + timedelta(microseconds=origin.committed_us) if origin.committed_us else None
        self._connection.execute(
            sql.SQL(
                "UPDATE {} SET commit = $3, committed_at = coalesce($4, committed_at), written_at = clock_timestamp(),"
                " source = $5, position = $6 WHERE {}"
            ).format(self._progress, _MINE),
            (*self._me, commit, at, origin.source or None, origin.position.replace("\0", "\\0") or None),
        )

    def advance_to(self, transaction: str, generation: int) -> sql.Composed:
        """``advance`` as a statement for a block on the server: no row when another generation runs.

        ``transaction``: its variable with ``commit``, ``committed_at``, ``source``, ``position``, ``views``.
        """
        return sql.SQL(
            "UPDATE {table} SET commit = {t}.commit, committed_at = coalesce({t}.committed_at, {table}.committed_at),"
            " written_at = clock_timestamp(), source = {t}.source, position = {t}.position"
            " WHERE {mine} AND generation = {generation}"
        ).format(
            table=self._progress, t=sql.Identifier(transaction), mine=self._mine(), generation=sql.Literal(generation)
        )

    def changed_to(self, transaction: str) -> sql.Composed:
        """``changed`` as a statement for such a block."""
        return sql.SQL(
            "UPDATE {} SET state = 'live', commit = {t}.commit, reason = NULL WHERE {} AND view = ANY ({t}.views)"
        ).format(self._views, self._mine(), t=sql.Identifier(transaction))

    def held(self) -> dict[str, Held]:
        """View -> what its status row says; the table itself may be gone."""
        rows = self._connection.execute(
            sql.SQL("SELECT view, version, commit, key, declared FROM {} WHERE {}").format(self._views, _MINE), self._me
        ).fetchall()
        return {view: Held(version, at, tuple(key), declared) for view, version, at, key, declared in rows}

    def changed(self, views: Iterable[str], commit: int) -> None:
        self._connection.execute(
            sql.SQL("UPDATE {} SET state = 'live', commit = $3, reason = NULL WHERE {} AND view = ANY($4)").format(
                self._views, _MINE
            ),
            (*self._me, commit, list(views)),
        )

    def replaced(self, target: Target, commit: int) -> None:
        self._connection.execute(
            sql.SQL(
                "INSERT INTO {} (project, sink, view, version, state, commit, key, declared)"
                " VALUES ($1, $2, $3, $4, 'live', $5, $6, $7) ON CONFLICT (project, sink, view) DO UPDATE SET"
                " version = excluded.version, state = 'live', commit = excluded.commit, reason = NULL,"
                " key = excluded.key, declared = excluded.declared"
            ).format(self._views),
            (*self._me, target.view, target.version, commit, list(target.key), target.declared),
        )

    def stale(self, reasons: Mapping[str, str], versions: Mapping[str, int], frontier: int | None) -> None:
        """The views' contents stay; the version and key of the status row stay theirs."""
        for view, reason in reasons.items():
            self._connection.execute(
                sql.SQL(
                    "INSERT INTO {} AS v (project, sink, view, version, state, reason, key, declared)"
                    " VALUES ($1, $2, $3, $4, 'stale', $5, '{{}}', false)"
                    " ON CONFLICT (project, sink, view) DO UPDATE SET state = 'stale', reason = excluded.reason,"
                    " commit = CASE v.state WHEN 'live' THEN $6 ELSE v.commit END"
                ).format(self._views),
                (*self._me, view, versions[view], reason.replace("\0", "\\0"), frontier),
            )

    def dropped(self, views: Iterable[str]) -> None:
        self._connection.execute(
            sql.SQL("DELETE FROM {} WHERE {} AND view = ANY($3)").format(self._views, _MINE), (*self._me, list(views))
        )

    def forget(self) -> None:
        """Removes the sink's rows, and with the last sink the tables."""
        tables = [sql.Identifier(self._schema, name) for name in _DEFINITIONS]
        for table in tables:
            self._connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(table, _MINE), self._me)
        left = self._connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self._progress)).fetchone()
        if left is None:
            self._connection.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(tables)))

    def _mine(self) -> sql.Composed:
        project, sink = self._me
        return sql.SQL("project = {} AND sink = {}").format(sql.Literal(project), sql.Literal(sink))

    def _demand(self, check: str, right: str) -> None:
        row = self._connection.execute(
            f"SELECT {check}, current_user, current_database(), $1::text".encode(), (self._schema,)
        ).fetchone()
        assert row is not None
        if not row[0]:
            quoted = {"schema": f'"{self._schema}"', "database": f'"{row[2]}"'}
            raise HeadraceError(
                "sink.rights",
                f"the role '{row[1]}' lacks a right that the sink needs",
                where=self._where,
                next=f'as an administrator: GRANT {right.format(**quoted)} TO "{row[1]}"',
            )
