"""A view's table against the rows that it should hold: found by DuckDB itself, to the bit, and put right.

The expected rows go into a temporary table as any delivery's do, and the two are counted together. Values that DuckDB
takes for equal although they are not the same (0.0 and -0.0, a month and 30 days) are told apart by their texts.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types import duckdb as duckdb_types
from headrace.formats.types.duckdb import compose, identifier
from headrace.model.delivery import WEIGHT
from headrace.sinks.comparison import FIRST_ROWS, Comparison, RowDifference, from_text
from headrace.sinks.connectors.duckdb.quarantine import DuckdbQuarantine, unheld
from headrace.sinks.connectors.duckdb.tables import Tables
from headrace.sinks.quarantine import split
from headrace.sinks.target import Target, diverged, rows_of

EXPECTED, DIFFERS = "headrace_expected", "headrace_differs"  # temporary tables


class Compare:
    """Over one connection, in its transaction. Errors of duckdb pass through."""

    def __init__(self, tables: Tables, quarantine: DuckdbQuarantine, where: str) -> None:
        self._tables, self._quarantine, self._where = tables, quarantine, where
        self._connection, self._schema = tables.connection, tables.schema

    def view(self, target: Target, table: pa.Table, commit: int, *, repair: bool) -> Comparison:
        """One view against its contents at ``commit``. With ``repair`` it holds them afterwards."""
        rows, bad = split(target, table, unheld)
        expected = pc.sum(rows.column(WEIGHT)).as_py() or 0
        self._stage(target, rows)
        wrong, additions = self._form(target)
        answer = Comparison(target.view, expected, sum(row.weight for row in bad), expected, wrong, additions)
        if not wrong:
            answer = self._rows(target, answer, repair)
        elif repair:
            self._tables.replace(target, rows)
        if not self._quarantine.settle(target.view, bad, commit, repair=repair):
            text = "; ".join(part for part in (answer.diverged, "its rows in the quarantine were changed") if part)
            answer = replace(answer, diverged=text)
        return answer

    def _stage(self, target: Target, rows: pa.Table) -> None:
        """The rows under ordinal names c0, c1, ..., with their weights as ``w``."""
        columns = [f"c{i} {duckdb_types.from_spark(column.type)}" for i, column in enumerate(target.columns)]
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {EXPECTED} ({', '.join([*columns, 'w BIGINT'])})")
        if rows.num_rows:
            name = self._tables.registered(target, rows_of(target, rows))
            ordinals = ", ".join([*(f"c{i}" for i in range(len(columns))), "w"])
            self._connection.execute(compose("INSERT INTO {into} SELECT {ordinals} FROM {name}",
                                             into=EXPECTED, ordinals=ordinals, name=name))  # fmt: skip

    def _form(self, target: Target) -> tuple[str, tuple[str, ...]]:
        """(why the table's rows cannot be looked at or '', what somebody has put beside our columns)"""
        found = self._tables.found()
        if target.view.lower() not in found:
            return f"'{target.view}' is not there", ()
        if not self._tables.ours(target.view, found):
            return f"'{target.view}' is not the one that this sink made", ()
        there, wanted = self._columns(self._schema, target.view), self._columns("main", EXPECTED)
        for i, name in enumerate(target.names):
            kind = wanted[f"c{i}"]
            if name not in there:
                return f"'{target.view}' has no column '{name}'", ()
            if there[name] != kind:
                return f"the column '{name}' of '{target.view}' is {there[name]}, not {kind}", ()
        return "", tuple(f"the column '{name}'" for name in there if name not in target.names)

    def _columns(self, schema: str, table: str) -> dict[str, str]:
        """Name -> type; of a temporary table when there is one of that name in the temporary database."""
        rows = self._connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = $1 AND schema_name = $2"
            " AND database_name = CASE WHEN $3 THEN 'temp' ELSE current_database() END ORDER BY column_index",
            [table, schema, table == EXPECTED],
        ).fetchall()
        return dict(rows)

    def _rows(self, target: Target, answer: Comparison, repair: bool) -> Comparison:
        differences = self._differing(target)
        if not differences:
            return replace(answer, differences=0)
        first = self._first(target)
        if repair:
            self._put_right(target)
            if self._differing(target):
                raise diverged(target.view, "its rows do not stay as they are written", self._where)
        return replace(answer, differences=differences, first=first)

    def _differing(self, target: Target) -> int:
        """How many copies are missing or too many; ``DIFFERS`` then has these rows with the copies expected and found.

        ``k0, k1, ...`` are the texts of columns whose values may look alike.
        """
        ordinals = [f"c{i}" for i in range(len(target.columns))]
        texts = "".join(f", {o}::VARCHAR AS k{o[1:]}" for o in self._alike(target))
        stored = ", ".join(f"{identifier(name)} AS {o}" for name, o in zip(target.names, ordinals, strict=True))
        self._connection.execute(
            compose(
                "CREATE OR REPLACE TEMP TABLE {differs} AS"
                " SELECT {ordinals}{texts}, sum(e)::BIGINT AS e, sum(f)::BIGINT AS f FROM"
                " (SELECT {ordinals}, w AS e, 0 AS f FROM {expected} UNION ALL SELECT {stored}, 0, 1 FROM {table})"
                " GROUP BY ALL HAVING sum(e) <> sum(f)",
                differs=DIFFERS,
                ordinals=", ".join(ordinals),
                texts=texts,
                expected=EXPECTED,
                stored=stored,
                table=identifier(self._schema, target.view),
            )
        )
        row = self._connection.execute(
            compose("SELECT coalesce(sum(abs(e - f)), 0)::BIGINT FROM {differs}", differs=DIFFERS)
        ).fetchone()
        return row[0] if row else 0

    def _first(self, target: Target) -> tuple[RowDifference, ...]:
        """Some of the rows that differ, those of one key next to each other."""
        names = target.names
        order = [names.index(name) for name in (*target.key, *(n for n in names if n not in target.key))]
        rows = self._connection.execute(
            compose(
                "SELECT e, f, {texts} FROM {differs} ORDER BY {order} LIMIT {limit}",
                texts=", ".join(f"c{i}::VARCHAR" for i in range(len(names))),
                differs=DIFFERS,
                order=", ".join(f"c{i}::VARCHAR" for i in order),
                limit=str(FIRST_ROWS),
            )
        ).fetchall()
        return tuple(
            RowDifference(
                {c.name: from_text(text, c.type) for c, text in zip(target.columns, texts, strict=True)},
                expected,
                found,
            )
            for expected, found, *texts in rows
        )

    def _put_right(self, target: Target) -> None:
        pairs = [(identifier(name), f"c{i}") for i, name in enumerate(target.names)]
        same = [f"t.{name} IS NOT DISTINCT FROM d.{o}" for name, o in pairs]
        same += [f"t.{name}::VARCHAR IS NOT DISTINCT FROM d.k{o[1:]}" for name, o in pairs if o in self._alike(target)]
        table = identifier(self._schema, target.view)
        self._connection.execute(
            compose(
                "DELETE FROM {table} WHERE rowid IN (SELECT n.id FROM (SELECT t.rowid AS id, d.f - d.e AS surplus,"
                " row_number() OVER (PARTITION BY d.rowid ORDER BY t.rowid) AS n FROM {table} t JOIN {differs} d"
                " ON {same} WHERE d.f > d.e) n WHERE n.n <= n.surplus)",
                table=table,
                differs=DIFFERS,
                same=" AND ".join(same),
            )
        )
        self._connection.execute(
            compose(
                "INSERT INTO {table} ({names}) SELECT {ordinals} FROM {differs} d, range(d.e - d.f) WHERE d.e > d.f",
                table=table,
                names=", ".join(name for name, _ in pairs),
                ordinals=", ".join(f"d.{o}" for _, o in pairs),
                differs=DIFFERS,
            )
        )

    def _alike(self, target: Target) -> list[str]:
        return [f"c{i}" for i, c in enumerate(target.columns) if duckdb_types.has_lookalikes(c.type)]
