"""A view's table against the rows that it should hold: found by the server itself, to the bit, and put right.

The expected rows go into a staging table as any delivery's do; the server compares the two by the hash of each row's
text, so that nothing of the size of a view comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from headrace.formats.types import postgres as postgres_types
from headrace.model.delivery import WEIGHT
from headrace.sinks.comparison import FIRST_ROWS, Comparison, RowDifference, from_text
from headrace.sinks.connectors.postgres.quarantine import PostgresQuarantine, unheld
from headrace.sinks.connectors.postgres.statements import Statements, hidden_name
from headrace.sinks.connectors.postgres.tables import Found, Tables
from headrace.sinks.quarantine import split
from headrace.sinks.target import Target, diverged

_W = sql.Identifier(WEIGHT)


class Compare:
    """Over one connection, in its transaction. Errors of psycopg pass through."""

    def __init__(
        self, connection: psycopg.Connection[Any], tables: Tables, quarantine: PostgresQuarantine, where: str
    ) -> None:
        self._connection, self._tables, self._quarantine, self._where = connection, tables, quarantine, where

    def view(self, target: Target, table: pa.Table, commit: int, *, repair: bool) -> Comparison:
        """One view against its contents at ``commit``. With ``repair`` it holds them afterwards."""
        rows, bad = split(target, table, unheld)
        statements = self._tables.statements(target)
        if repair:
            self._lock(statements)
        expected = pc.sum(rows.column(WEIGHT)).as_py() or 0
        found = self._tables.found([target.view])
        wrong = self._wrong_form(statements, found)
        answer = Comparison(target.view, expected, sum(row.weight for row in bad), expected, wrong)
        if not wrong:
            answer = self._rows(statements, rows, replace(answer, additions=_additions(statements, found)), repair)
        elif repair:
            self._make_anew(target, rows, found)
        if not self._quarantine.settle(target.view, bad, commit, repair=repair):
            text = "; ".join(part for part in (answer.diverged, "its rows in the quarantine were changed") if part)
            answer = replace(answer, diverged=text)
        return answer

    # -- the table itself

    def _lock(self, statements: Statements) -> None:
        """Keeps all other writers out of the table until the transaction ends; its readers stay."""
        if statements.table_name in self._tables.found([statements.target.view]):
            self._connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(statements.table))

    def _wrong_form(self, statements: Statements, found: Mapping[str, Found]) -> str:
        """Why the rows cannot be looked at or carried on with; '' when they can."""
        target, mark = statements.target, self._tables.mark(statements.target.view)
        wanted = [(column.name, postgres_types.from_spark(column.type)) for column in target.columns]
        forms = {target.view: ("v" if statements.hidden else "r", wanted)}
        if statements.hidden:
            row, copy_number = statements.hidden_names
            forms[statements.table_name] = ("r", [(row, "uuid"), (copy_number, "bigint"), *wanted])
        for name, (kind, columns) in forms.items():
            if name not in found:
                return f"'{name}' is not there"
            if found[name].comment != mark:
                return f"'{name}' is not the one that this sink made"
            if found[name].kind != kind:
                return f"'{name}' is of another kind than this sink made it"
            there = dict(found[name].columns)
            for column, type_name in columns:
                if column not in there:
                    return f"'{name}' has no column '{column}'"
                if there[column] != type_name:
                    return f"the column '{column}' of '{name}' is {there[column]}, not {type_name}"
        return "" if self._tables.has_key(statements) else f"the key of '{statements.table_name}' is not there"

    def _make_anew(self, target: Target, rows: pa.Table, found: Mapping[str, Found]) -> None:
        if not self._tables.ours(target.view, found):
            self._tables.drop(target.view)  # what is left of it
        for statements in self._tables.replace(target, rows):
            self._tables.swap(statements)

    # -- its rows

    def _rows(self, statements: Statements, rows: pa.Table, answer: Comparison, repair: bool) -> Comparison:
        self._tables.copy_to_stage(statements, rows)
        differences = self._differing(statements)
        if differences:
            answer = replace(answer, first=self._first(statements))
        if statements.hidden and (odd := self._odd(statements)):
            row, copy_number = statements.hidden_names
            why = f"the hidden columns {row} and {copy_number} of '{statements.table_name}' are wrong in {odd} rows"
            answer = replace(answer, diverged=why)
        if repair and (differences or answer.diverged):
            if statements.hidden and not answer.additions:
                self._connection.execute(
                    sql.SQL("CREATE OR REPLACE VIEW {} AS SELECT {} FROM {}").format(
                        statements.visible, statements.columns(), statements.table
                    )
                )
            self._put_right(statements)
            if self._differing(statements):
                raise diverged(statements.target.view, "its rows do not stay as they are written", self._where)
        self._connection.execute(sql.SQL("DROP TABLE {}").format(_differs(statements)))
        self._tables.drop_stage(statements)
        return replace(answer, differences=differences)

    def _differing(self, statements: Statements) -> int:
        """How many copies are missing or too many; the table ``_differs`` then has their hash and both numbers."""
        self._connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(_differs(statements)))
        self._connection.execute(
            sql.SQL(
                "CREATE TEMP TABLE {differs} AS SELECT h, sum(e)::bigint AS e, sum(f)::bigint AS f FROM"
                " (SELECT {staged} AS h, s.{w} AS e, 0 AS f FROM {stage} s"
                " UNION ALL SELECT {stored}, 0, 1 FROM {visible} t) x GROUP BY h HAVING sum(e) <> sum(f)"
            ).format(
                differs=_differs(statements),
                staged=statements.hash("s"),
                w=_W,
                stage=statements.stage,
                stored=statements.hash("t"),
                visible=statements.visible,
            )
        )
        row = self._connection.execute(
            sql.SQL("SELECT coalesce(sum(abs(e - f)), 0)::bigint FROM {}").format(_differs(statements))
        ).fetchone()
        return row[0] if row else 0

    def _odd(self, statements: Statements) -> int:
        """Rows whose hidden columns are not the row's hash and the numbers 1, 2, ... of its copies."""
        row = self._connection.execute(
            sql.SQL(
                "SELECT coalesce(sum(c), 0)::bigint FROM (SELECT count(*) AS c FROM {table} t GROUP BY t.{row}"
                " HAVING bool_or(t.{row} <> {stored}) OR min(t.{n}) <> 1 OR max(t.{n}) <> count(*)) x"
            ).format(table=statements.table, row=statements.row, stored=statements.hash("t"), n=statements.copy_number)
        ).fetchone()
        return row[0] if row else 0

    def _first(self, statements: Statements) -> tuple[RowDifference, ...]:
        """Some of the rows that differ, those of one key next to each other."""
        target = statements.target
        ordinals = {name: sql.Identifier(f"c{i}") for i, name in enumerate(target.names)}

        def texts(alias: str) -> sql.Composed:
            columns = [
                sql.SQL("{}::text AS {}").format(sql.Identifier(alias, name), ordinal)
                for name, ordinal in ordinals.items()
            ]
            return sql.SQL(", ").join(columns)

        order = [ordinals[name] for name in (*target.key, *(n for n in target.names if n not in target.key))]
        rows = self._connection.execute(
            sql.SQL(
                "SELECT * FROM (SELECT DISTINCT ON (d.h) d.e, d.f, v.* FROM {differs} d JOIN"
                " (SELECT {staged} AS h, {expected} FROM {stage} s"
                " UNION ALL SELECT {stored}, {found} FROM {visible} t) v ON v.h = d.h) x ORDER BY {order} LIMIT {limit}"
            ).format(
                differs=_differs(statements),
                staged=statements.hash("s"),
                expected=texts("s"),
                stage=statements.stage,
                stored=statements.hash("t"),
                found=texts("t"),
                visible=statements.visible,
                order=sql.SQL(", ").join(order),
                limit=sql.Literal(FIRST_ROWS),
            )
        ).fetchall()
        return tuple(
            RowDifference(
                {c.name: from_text(text, c.type) for c, text in zip(target.columns, values, strict=True)},
                expected,
                found,
            )
            for expected, found, _hash, *values in rows
        )

    def _put_right(self, statements: Statements) -> None:
        if statements.hidden:
            self._connection.execute(statements.delete_unstaged_copies())
            self._connection.execute(statements.insert_missing_copies())
            return
        self._connection.execute(
            sql.SQL(
                "DELETE FROM {table} t USING (SELECT b.ctid AS at, d.f - d.e AS surplus,"
                " row_number() OVER (PARTITION BY d.h) AS n FROM {table} b JOIN {differs} d ON d.h = {stored}"
                " WHERE d.f > d.e) x WHERE t.ctid = x.at AND x.n <= x.surplus"
            ).format(table=statements.table, differs=_differs(statements), stored=statements.hash("b"))
        )
        self._connection.execute(
            sql.SQL(
                "INSERT INTO {table} ({columns}) SELECT {ordinals} FROM {rows} r JOIN {differs} d ON d.h = r.h,"
                " generate_series(1, d.e - d.f) WHERE d.e > d.f"
            ).format(
                table=statements.table,
                columns=statements.columns(),
                ordinals=statements.ordinals("r"),
                rows=statements.hashed(statements.stage),
                differs=_differs(statements),
            )
        )


def _differs(statements: Statements) -> sql.Identifier:
    return sql.Identifier("pg_temp", f"headrace_differs_{statements.number}")


def _additions(statements: Statements, found: Mapping[str, Found]) -> tuple[str, ...]:
    """What somebody has put beside our columns."""
    target = statements.target
    ours = {*target.names, *(statements.hidden_names if statements.hidden else ())}
    extra = {
        column: None
        for name in (target.view, hidden_name(target.view))
        for column, _ in (found[name].columns if name in found else ())
        if column not in ours
    }
    return tuple(f"the column '{column}'" for column in extra)
