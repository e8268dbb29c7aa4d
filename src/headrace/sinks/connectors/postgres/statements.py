"""The SQL of one view in PostgreSQL: its table, and the set-based moves of rows into it and out of it.

Rows come from the *source* of a statement: a staging table that COPY fills, or for a small delta arrays that travel
as the statement's parameters, which saves the round trips of COPY and the staging table's emptying.

With a key the view is a table with UNIQUE NULLS NOT DISTINCT on it. Without one it is a multiset: a table with two
hidden columns, ``_row`` (a 128-bit hash of the row's text, computed by the server) and ``_n`` (1..number of copies),
behind a SQL view that shows the view's own columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from headrace.formats.types import postgres as postgres_types
from headrace.model.delivery import WEIGHT
from headrace.sinks.target import Target

_NAME_BYTES_MAX = 63
_W = sql.Identifier(WEIGHT)


@dataclass(frozen=True, slots=True)
class Statements:
    """``number`` tells the staging tables of a connection apart; ``hidden`` is the form without a key."""

    schema: str
    target: Target
    hidden: bool
    number: int

    @property
    def visible(self) -> sql.Identifier:
        """What users read: the table, or the SQL view over it."""
        return sql.Identifier(self.schema, self.target.view)

    @property
    def table(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.table_name)

    @property
    def table_name(self) -> str:
        return hidden_name(self.target.view) if self.hidden else self.target.view

    @property
    def beside(self) -> sql.Identifier:
        """Where new contents are loaded while the old ones are still read."""
        return sql.Identifier(self.schema, self.beside_name)

    @property
    def beside_name(self) -> str:
        return "_headrace_new_" + hashlib.md5(self.target.view.encode(), usedforsecurity=False).hexdigest()

    @property
    def stage(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", f"headrace_stage_{self.number}")

    @property
    def types(self) -> list[sql.SQL]:
        return [pg_type(column.type) for column in self.target.columns]

    # names that the view does not use itself
    @property
    def hidden_names(self) -> tuple[str, str]:
        return free("_row", self.target.names), free("_n", self.target.names)

    @property
    def row(self) -> sql.Identifier:
        return sql.Identifier(self.hidden_names[0])

    @property
    def copy_number(self) -> sql.Identifier:
        return sql.Identifier(self.hidden_names[1])

    # -- making and dropping

    def create_stage(self) -> sql.Composed:
        return sql.SQL("CREATE TEMP TABLE {} ({}, {} bigint) ON COMMIT DELETE ROWS").format(
            self.stage, self._definitions(), _W
        )

    def create_table(self, name: sql.Identifier) -> sql.Composed:
        if self.hidden:
            return sql.SQL("CREATE TABLE {} ({} uuid NOT NULL, {} bigint NOT NULL, {})").format(
                name, self.row, self.copy_number, self._definitions()
            )
        return sql.SQL("CREATE TABLE {} ({})").format(name, self._definitions())

    def add_key(self, name: sql.Identifier, nulls_not_distinct: bool) -> sql.Composed:
        """The constraint that says which rows are one; made after a load, which is faster than before it."""
        if self.hidden:
            return sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({}, {})").format(name, self.row, self.copy_number)
        nulls = sql.SQL("NULLS NOT DISTINCT ") if nulls_not_distinct else sql.SQL("")
        return sql.SQL("ALTER TABLE {} ADD UNIQUE {}({})").format(name, nulls, _list(self.target.key))

    def create_view(self) -> sql.Composed:
        return sql.SQL("CREATE VIEW {} AS SELECT {} FROM {}").format(self.visible, self.columns(), self.table)

    def comments(self, text: str) -> list[sql.Composed]:
        marks = [sql.SQL("COMMENT ON TABLE {} IS {}").format(self.table, sql.Literal(text))]
        if self.hidden:
            marks.append(sql.SQL("COMMENT ON VIEW {} IS {}").format(self.visible, sql.Literal(text)))
        return marks

    def rename_beside(self) -> sql.Composed:
        return sql.SQL("ALTER TABLE {} RENAME TO {}").format(self.beside, sql.Identifier(self.table_name))

    # -- loading

    def copy(self, into: sql.Identifier, weight: bool) -> sql.Composed:
        names = [*self.target.names, WEIGHT] if weight else self.target.names
        return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(into, _list(names))

    def arrays(self) -> sql.Composed:
        """A source: one parameter a column, a text array, and a last one for the weights."""
        kinds = [*self.types, sql.SQL("bigint")]
        columns = [sql.Identifier(f"c{i}") for i in range(len(kinds))]
        names = [sql.Identifier(name) for name in (*self.target.names, WEIGHT)]
        casts = [
            sql.SQL("u.{}::{} AS {}").format(column, kind, name)
            for column, kind, name in zip(columns, kinds, names, strict=True)
        ]
        parameters = [sql.SQL(f"${number}::text[]") for number in range(1, len(kinds) + 1)]
        return sql.SQL("(SELECT {} FROM unnest({}) AS u({}))").format(_join(casts), _join(parameters), _join(columns))

    # -- with a key

    def delete_by_key(self, source: sql.Composable, nulls: Iterable[str]) -> sql.Composed:
        """Deletes the rows of negative weight; ``nulls``: the key columns that are NULL in the rows meant.

        One statement a pattern of NULLs, because no index serves IS NOT DISTINCT FROM.
        """
        null_columns = set(nulls)
        conditions = [
            sql.SQL("t.{0} IS NULL AND s.{0} IS NULL" if name in null_columns else "t.{0} = s.{0}").format(
                sql.Identifier(name)
            )
            for name in self.target.key
        ]
        return sql.SQL("DELETE FROM {} t USING {} s WHERE s.{} < 0 AND {}").format(
            self.table, source, _W, sql.SQL(" AND ").join(conditions)
        )

    def insert(self, source: sql.Composable) -> sql.Composed:
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} s WHERE s.{} > 0").format(
            self.table, self.columns(), self.columns("s"), source, _W
        )

    def delete_unstaged(self) -> sql.Composed:
        """Deletes what the staged contents do not hold to the bit; rows with a NULL in the key always go."""
        return sql.SQL("DELETE FROM {} t WHERE NOT EXISTS (SELECT FROM {} s WHERE {})").format(
            self.table, self.stage, self._same_row()
        )

    def insert_missing(self) -> sql.Composed:
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} s WHERE NOT EXISTS (SELECT FROM {} t WHERE {})").format(
            self.table, self.columns(), self.columns("s"), self.stage, self.table, self._same_row()
        )

    # -- without a key

    def delete_copies(self, source: sql.Composable) -> sql.Composed:
        """Deletes the last copies of rows whose weights sum up below 0; returns (copies meant, copies deleted)."""
        return sql.SQL(
            "WITH d AS MATERIALIZED (SELECT {hash} AS h, sum(s.{w})::bigint AS w FROM {source} s GROUP BY 1"
            " HAVING sum(s.{w}) < 0), k AS MATERIALIZED (SELECT d.h, d.w, (SELECT max(b.{n}) FROM {table} b"
            " WHERE b.{row} = d.h) AS k FROM d), gone AS (DELETE FROM {table} t USING k WHERE t.{row} = k.h"
            " AND t.{n} > k.k + k.w RETURNING 1)"
            " SELECT coalesce((SELECT -sum(d.w) FROM d), 0)::bigint, (SELECT count(*) FROM gone)"
        ).format(hash=self.hash("s"), w=_W, source=source, n=self.copy_number, table=self.table, row=self.row)

    def insert_copies(self, source: sql.Composable) -> sql.Composed:
        """Adds copies of rows whose weights sum up above 0, numbered on from those that are there."""
        there = sql.SQL("(SELECT max(b.{}) FROM {} b WHERE b.{} = d.h)").format(self.copy_number, self.table, self.row)
        return sql.SQL(
            "INSERT INTO {} ({}) SELECT d.h, d.k + g, {} FROM (SELECT d.*, coalesce({}, 0) AS k FROM {} d"
            " WHERE d.w > 0 OFFSET 0) d, generate_series(1, d.w) g"
        ).format(self.table, self._all_columns(), self.ordinals("d"), there, self.hashed(source))

    def load_copies(self, into: sql.Identifier) -> sql.Composed:
        """Fills an empty table from the staging table."""
        return sql.SQL("INSERT INTO {} ({}) SELECT d.h, g, {} FROM {} d, generate_series(1, d.w) g").format(
            into, self._all_columns(), self.ordinals("d"), self.hashed(self.stage)
        )

    def delete_unstaged_copies(self) -> sql.Composed:
        """Deletes what the staged contents do not hold, and rows whose hidden columns are not what they have to be."""
        return sql.SQL(
            "DELETE FROM {table} t WHERE NOT EXISTS (SELECT FROM (SELECT {staged} AS h, sum(s.{w}) AS w FROM {stage} s"
            " GROUP BY 1) d WHERE d.h = t.{row} AND d.h = {stored} AND t.{n} BETWEEN 1 AND d.w)"
        ).format(
            table=self.table,
            staged=self.hash("s"),
            w=_W,
            stage=self.stage,
            row=self.row,
            stored=self.hash("t"),
            n=self.copy_number,
        )

    def insert_missing_copies(self) -> sql.Composed:
        """After ``delete_unstaged_copies``: the copies, by their numbers, that are not there."""
        return sql.SQL(
            "INSERT INTO {table} ({all}) SELECT d.h, g, {columns} FROM {rows} d, generate_series(1, d.w) g"
            " WHERE NOT EXISTS (SELECT FROM {table} b WHERE b.{row} = d.h AND b.{n} = g)"
        ).format(
            table=self.table,
            all=self._all_columns(),
            columns=self.ordinals("d"),
            rows=self.hashed(self.stage),
            row=self.row,
            n=self.copy_number,
        )

    # -- parts

    def _definitions(self) -> sql.Composed:
        pairs = zip(self.target.names, self.types, strict=True)
        return _join([sql.SQL("{} {}").format(sql.Identifier(name), kind) for name, kind in pairs])

    def columns(self, alias: str | None = None) -> sql.Composed:
        return _list(self.target.names, alias)

    def ordinals(self, alias: str) -> sql.Composed:
        return _list([f"c{i}" for i in range(len(self.target.columns))], alias)

    def _all_columns(self) -> sql.Composed:
        return _join([self.row, self.copy_number, *(sql.Identifier(name) for name in self.target.names)])

    def hashed(self, source: sql.Composable) -> sql.Composed:
        """Each distinct row once: h (its hash), w (its weight), c0, c1, ... (numbers, so that no name collides)."""
        columns = [
            sql.SQL("s.{} AS {}").format(sql.Identifier(name), sql.Identifier(f"c{i}"))
            for i, name in enumerate(self.target.names)
        ]
        return sql.SQL(
            "(SELECT DISTINCT ON (x.h) x.h, sum(x.w) OVER (PARTITION BY x.h)::bigint AS w, {} FROM"
            " (SELECT {} AS h, s.{} AS w, {} FROM {} s) x ORDER BY x.h)"
        ).format(self.ordinals("x"), self.hash("s"), _W, _join(columns), source)

    def _same_row(self) -> sql.Composed:
        """Equal to the bit: 0.0 is not -0.0, and NULL is NULL."""
        keys = [sql.SQL("t.{0} = s.{0}").format(sql.Identifier(name)) for name in self.target.key]
        return sql.SQL("{} AND record_image_eq(ROW({}), ROW({}))").format(
            sql.SQL(" AND ").join(keys), self.columns("t"), self.columns("s")
        )

    def hash(self, alias: str) -> sql.Composed:
        """128 bits that tell rows apart to the bit: 0.0 is not -0.0, and NULL is not ''."""
        return sql.SQL("md5(ROW({})::text)::uuid").format(self.columns(alias))


def hidden_name(view: str) -> str:
    """The table behind the SQL view of a multiset."""
    name = f"_headrace_{view}"
    if len(name.encode()) <= _NAME_BYTES_MAX:
        return name
    return "_headrace_" + hashlib.md5(view.encode(), usedforsecurity=False).hexdigest()


def pg_type(type_text: str) -> sql.SQL:
    """Our own spelling of a type, never a user's: it may stand in SQL as it is."""
    return sql.SQL(postgres_types.from_spark(type_text))


def free(name: str, taken: list[str]) -> str:
    """The name with as many ``_`` before it as make it none of those taken."""
    while name in taken:
        name = "_" + name
    return name


def _list(names: Iterable[str], alias: str | None = None) -> sql.Composed:
    return _join([sql.Identifier(alias, name) if alias else sql.Identifier(name) for name in names])


def _join(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)
