"""The views' tables in a DuckDB file: what is there, and how deltas and whole contents get in.

There is no unique index: DuckDB refuses to delete and insert a key in one transaction that has one. Keys are checked
by query instead, on the keys that a delta touches. Row ids tell equal rows of a multiset apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import duckdb as duckdb_types
from headrace.formats.types.arrow import YEAR_MONTH
from headrace.formats.types.duckdb import compose, identifier
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.sinks.target import Target, diverged, not_unique, rows_of

GONE, COME = "headrace_gone", "headrace_come"  # the names under which a delta's rows are registered


class Tables:
    """All views of one sink. ``owner`` is the mark in the tables' comments. Errors of duckdb pass through."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema: str, owner: str, where: str) -> None:
        self.connection, self.schema, self._owner, self._where = connection, schema, owner, where

    def mark(self, view: str) -> str:
        return f"{self._owner} for view {view}"

    def found(self) -> dict[str, tuple[str, str]]:
        """Every table and view of the schema: lower-case name -> (name, comment). DuckDB ignores case in names."""
        rows = self.connection.execute(
            "SELECT table_name, comment FROM duckdb_tables() WHERE schema_name = $1"
            " AND database_name = current_database()"
            " UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE schema_name = $1"
            " AND database_name = current_database() AND NOT internal",
            [self.schema],
        ).fetchall()
        return {name.lower(): (name, comment or "") for name, comment in rows}

    def ours(self, view: str, found: Mapping[str, tuple[str, str]]) -> bool:
        return found.get(view.lower()) == (view, self.mark(view))

    def refuse_foreign(self, view: str) -> None:
        found = self.found()
        there = found.get(view.lower())
        if there is not None and not self.ours(view, found):
            raise HeadraceError(
                "sink.conflict",
                f"the database file already holds '{there[0]}', which view '{view}' needs",
                where=self._where,
                why="this sink did not make it, so it is left alone",
                next="rename or drop it, or give the sink another file or `schema`",
            )

    def apply(self, target: Target, table: pa.Table) -> None:
        """A delta. Raises ``sink.diverged`` when a row to delete is not there, ``sink.conflict`` for a key twice."""
        rows = rows_of(target, table)
        going = pc.less(rows.column(WEIGHT), 0)
        gone, come = rows.filter(going), rows.filter(pc.invert(going))
        if gone.num_rows:
            self._register(GONE, target, gone)
            deleted = self._delete_by_key(target) if target.key else self._delete_copies(target)
            expected = -pc.sum(gone.column(WEIGHT)).as_py()
            if deleted != expected:
                why = f"{expected - deleted} of {expected} rows to delete are not there"
                raise diverged(target.view, why, self._where)
        if come.num_rows:
            self._insert(target, come)
            if target.key:
                touched = compose(
                    "WHERE EXISTS (SELECT 1 FROM {come} s WHERE {same_key})",
                    come=COME,
                    same_key=self._same_key(target),
                )
                self._check_unique(target, touched)

    def replace(self, target: Target, table: pa.Table) -> None:
        """Whole contents, in the place of what is there."""
        self.refuse_foreign(target.view)
        name = identifier(self.schema, target.view)
        columns = [f"{identifier(column.name)} {duckdb_types.from_spark(column.type)}" for column in target.columns]
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        self.connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        comment = self.mark(target.view).replace("'", "''")  # COMMENT takes no parameter
        self.connection.execute(f"COMMENT ON TABLE {name} IS '{comment}'")
        rows = rows_of(target, table)
        if rows.num_rows:
            self._insert(target, rows)
            if target.key:
                self._check_unique(target)

    def drop(self, view: str) -> None:
        """Removes what is ours of that name; what is not ours stays."""
        if self.ours(view, self.found()):
            self.connection.execute(f"DROP TABLE {identifier(self.schema, view)}")

    def drop_all(self) -> None:
        prefix = self.mark("")
        for name, comment in self.found().values():
            if comment.startswith(prefix):
                self.connection.execute(f"DROP TABLE {identifier(self.schema, name)}")

    def registered(self, target: Target, rows: pa.Table) -> str:
        """The name under which the rows can be read: columns c0, c1, ..., and their weights as ``w``."""
        self._register(COME, target, rows)
        return COME

    def _delete_by_key(self, target: Target) -> int:
        return self._count(
            compose(
                "DELETE FROM {table} t USING {gone} s WHERE {same_key}",
                table=identifier(self.schema, target.view),
                gone=GONE,
                same_key=self._same_key(target),
            )
        )

    def _delete_copies(self, target: Target) -> int:
        """As many of the equal rows as the weight says. Floats are compared as text too, which tells 0.0 from -0.0."""
        same = []
        for column, (name, ordinal) in zip(target.columns, self._pairs(target, target.names), strict=True):
            same.append(f"t.{name} IS NOT DISTINCT FROM s.{ordinal}")
            if duckdb_types.has_floats(column.type):
                same.append(f"t.{name}::VARCHAR IS NOT DISTINCT FROM s.{ordinal}::VARCHAR")
        return self._count(
            compose(
                "DELETE FROM {table} WHERE rowid IN (SELECT n.id FROM (SELECT t.rowid AS id, s.w,"
                " row_number() OVER (PARTITION BY s.i ORDER BY t.rowid) AS n FROM {table} t JOIN {gone} s"
                " ON {same}) n WHERE n.n <= -n.w)",
                table=identifier(self.schema, target.view),
                gone=GONE,
                same=" AND ".join(same),
            )
        )

    def _insert(self, target: Target, rows: pa.Table) -> None:
        weights = rows.column(WEIGHT).to_numpy()
        if (weights > 1).any():
            rows = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), weights)))
        self._register(COME, target, rows)
        names, ordinals = zip(*self._pairs(target, target.names), strict=True)
        self.connection.execute(
            compose(
                "INSERT INTO {table} ({names}) SELECT {ordinals} FROM {come}",
                table=identifier(self.schema, target.view),
                names=", ".join(names),
                ordinals=", ".join(ordinals),
                come=COME,
            )
        )

    def _check_unique(self, target: Target, touched: str = "") -> None:
        twice = self.connection.execute(
            compose(
                "SELECT {keys} FROM {table} t {touched} GROUP BY ALL HAVING count(*) > 1 LIMIT 1",
                keys=", ".join(f"t.{identifier(name)}" for name in target.key),
                table=identifier(self.schema, target.view),
                touched=touched,
            )
        ).fetchone()
        if twice is not None:
            values = ", ".join(f"{name}={value!r}" for name, value in zip(target.key, twice, strict=True))
            raise not_unique(target, values, self._where)

    def _same_key(self, target: Target) -> str:
        """``t``, the view's table, and ``s``, what is registered, agree in the key."""
        pairs = self._pairs(target, target.key)
        return " AND ".join(f"t.{name} IS NOT DISTINCT FROM s.{ordinal}" for name, ordinal in pairs)

    def _register(self, name: str, target: Target, rows: pa.Table) -> None:
        """Under ordinal names c0, c1, ..., so that no name of a view collides; ``w`` the weight, ``i`` the row."""
        ordinals = [*(f"c{i}" for i in range(len(target.columns))), "w"]
        columns = [duckdb_types.intervals(c) if c.type == YEAR_MONTH else c for c in rows.columns]
        numbered = pa.table([*columns, pa.array(np.arange(rows.num_rows))], names=[*ordinals, "i"])
        self.connection.register(name, numbered)

    def _pairs(self, target: Target, names: Iterable[str]) -> list[tuple[str, str]]:
        """(the column's quoted name, its name in what is registered)"""
        return [(identifier(name), f"c{target.names.index(name)}") for name in names]

    def _count(self, statement: str) -> int:
        row = self.connection.execute(statement).fetchone()
        assert row is not None  # DELETE answers with the number of rows
        count: int = row[0]
        return count
