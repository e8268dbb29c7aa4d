"""The views' tables in PostgreSQL, over one connection: what is there, and how deltas and whole contents get in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import errors as pg_errors
from psycopg import sql

from headrace.formats.types import postgres as postgres_types
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.sinks.connectors.postgres import encode, errors
from headrace.sinks.connectors.postgres.statements import Statements, hidden_name
from headrace.sinks.target import Held, Target, diverged, not_unique, rows_of

SMALL_ROWS = 500  # up to here rows travel as parameters, together with the statements that use them
NULLS_NOT_DISTINCT_SINCE = 150_000

Row = tuple[Any, ...]
# Small deltas must go by index, whatever the planner believes of tables it has not seen filled (``PLAN_SMALL`` holds
# for the whole session); large ones are planned by size.
PLAN_SMALL = {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off"}
_PLAN_LARGE = {"enable_hashjoin": "on", "enable_mergejoin": "on", "enable_seqscan": "on", "work_mem": "64MB"}
_GRANT = sql.SQL("GRANT SELECT ON {} TO {}")


@dataclass(frozen=True, slots=True)
class Found:
    """A relation that is there: ``kind`` is pg_class's relkind, ``readers`` who else may SELECT (None: everybody)."""

    kind: str
    comment: str
    columns: list[tuple[str, str]]
    readers: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """A delta under way: its cursors tell how many rows went; None expected: they tell that too."""

    target: Target
    expected: int | None
    cursors: list[psycopg.Cursor[Row]]


class Tables:
    """All views of one sink. ``owner`` is the mark in the tables' comments. Errors of psycopg pass through."""

    def __init__(self, connection: psycopg.Connection[Row], schema: str, owner: str, where: str) -> None:
        self._connection, self._schema, self._owner, self._where = connection, schema, owner, where
        self._role = connection.info.user
        self._ready: dict[str, Statements] = {}
        self._numbers = 0
        self._texts: dict[tuple[Any, ...], bytes] = {}
        self._stages: set[int] = set()  # numbers of the staging tables that exist
        self._nulls_not_distinct = connection.info.server_version >= NULLS_NOT_DISTINCT_SINCE

    @property
    def ready(self) -> frozenset[str]:
        """Views that this connection has written deltas of."""
        return frozenset(self._ready)

    def mark(self, view: str) -> str:
        return f"{self._owner} for view {view}"

    def found(self, views: Iterable[str]) -> dict[str, Found]:
        """The relations of those names in the schema, ours or not, the hidden ones too."""
        names = [name for view in views for name in (view, hidden_name(view))]
        rows = self._connection.execute(
            "SELECT c.relname, c.relkind::text, coalesce(obj_description(c.oid, 'pg_class'), ''),"
            " (SELECT array_agg(ARRAY[a.attname, format_type(a.atttypid, a.atttypmod)] ORDER BY a.attnum)"
            "  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),"
            " (SELECT array_agg(r.rolname::text) FROM aclexplode(c.relacl) g LEFT JOIN pg_roles r ON r.oid = g.grantee"
            "  WHERE g.privilege_type = 'SELECT' AND g.grantee <> c.relowner)"
            " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = $1 AND c.relname = ANY($2)",
            (self._schema, names),
        ).fetchall()
        return {
            name: Found(kind, comment, [(column, type_) for column, type_ in columns or ()], tuple(readers or ()))
            for name, kind, comment, columns, readers in rows
        }

    def ours(self, view: str, found: Mapping[str, Found]) -> bool:
        return view in found and found[view].comment == self.mark(view)

    # -- deltas

    def stage(self, deltas: Mapping[Target, pa.Table], held: Mapping[str, Held]) -> None:
        """Readies the views, and loads the deltas that are too large to travel as parameters."""
        self.prepare(deltas, held)
        for target, table in deltas.items():
            if table.num_rows > SMALL_ROWS:
                self.copy_to_stage(self._ready[target.view], rows_of(target, table))

    def prepare(self, targets: Iterable[Target], held: Mapping[str, Held]) -> None:
        """Readies views for deltas. Raises ``sink.diverged`` for one whose table is gone."""
        for target in targets:
            self._prepare(target, held)

    def of(self, target: Target) -> Statements:
        """The statements of a view that is ready."""
        return self._ready[target.view]

    def apply(self, deltas: Mapping[Target, pa.Table]) -> list[Applied]:
        """Sends what applies the deltas; nothing here waits for the server, so that a pipeline may hold it all."""
        return [
            self._move(self._ready[target.view], rows_of(target, table))
            for target, table in deltas.items()
            if table.num_rows
        ]

    def check(self, done: Iterable[Applied]) -> None:
        """Raises ``sink.diverged`` when rows that had to go were not there."""
        for applied in done:
            expected, gone = applied.expected, sum(cursor.rowcount for cursor in applied.cursors)
            if expected is None:
                expected, gone = applied.cursors[0].fetchone() or (0, 0)
            if gone != expected:
                why = f"{expected - gone} of {expected} rows to delete are not there"
                raise diverged(applied.target.view, why, self._where)

    def _move(self, statements: Statements, rows: pa.Table) -> Applied:
        small = rows.num_rows <= SMALL_ROWS
        if statements.hidden:
            given = self._arrays(statements.target, rows) if small else None
            cursors = [self._run(statements, Statements.delete_copies, small, given)]
            self._run(statements, Statements.insert_copies, small, given)
            return Applied(statements.target, None, cursors)
        going = pc.less(rows.column(WEIGHT), 0)
        gone, come = rows.filter(going), rows.filter(pc.invert(going))
        given = self._arrays(statements.target, gone) if small and gone.num_rows else None
        cursors = [
            self._run(statements, Statements.delete_by_key, small, given, nulls)
            for nulls in null_patterns(gone, statements.target.key)
        ]
        if come.num_rows:
            given = self._arrays(statements.target, come) if small else None
            self._run(statements, Statements.insert, small, given)
        return Applied(statements.target, gone.num_rows, cursors)

    def _run(
        self,
        statements: Statements,
        make: Callable[..., sql.Composed],
        small: bool,
        given: list[list[str | None]] | None,
        *more: tuple[str, ...],
    ) -> psycopg.Cursor[Row]:
        """Executes a statement over its source; its text is composed once, which costs more than sending it."""
        key = (statements.number, make.__name__, small, *more)
        if key not in self._texts:
            source = statements.arrays() if small else statements.stage
            self._texts[key] = make(statements, source, *more).as_bytes(self._connection)
        return self._connection.execute(self._texts[key], given)

    def _prepare(self, target: Target, held: Mapping[str, Held]) -> None:
        """Statements and staging table for a view that is held; made once a connection and version."""
        ready = self._ready.get(target.view)
        if ready is not None and ready.target == target:
            return
        found = self.found([target.view])
        if target.view not in held or not self.ours(target.view, found):
            raise diverged(target.view, f"there is no table '{target.view}' of this sink in the schema", self._where)
        if held[target.view].version != target.version or held[target.view].key != target.key:
            raise HeadraceError(
                "internal",
                f"a delta of version {target.version} of view '{target.view}' came, the sink holds"
                f" version {held[target.view].version} with the key {held[target.view].key}",
                where=self._where,
            )
        self._ready[target.view] = self.statements(target)

    def statements(self, target: Target) -> Statements:
        """Of a view as it has to be, with a staging table of their own."""
        self._numbers += 1
        return Statements(self._schema, target, self._hidden(target), self._numbers)

    def _forget(self, view: str) -> None:
        """Statements and staging table of a version that goes."""
        statements = self._ready.pop(view, None)
        if statements is not None:
            self._texts = {key: text for key, text in self._texts.items() if key[0] != statements.number}
            self.drop_stage(statements)

    def drop_stage(self, statements: Statements) -> None:
        if statements.number in self._stages:
            self._stages.remove(statements.number)
            self._connection.execute(sql.SQL("DROP TABLE {}").format(statements.stage))

    def _hidden(self, target: Target) -> bool:
        """Without a key; or before PostgreSQL 15, where UNIQUE takes NULLs for distinct, with one that may be NULL."""
        nullable = any(column.nullable for column in target.columns if column.name in target.key)
        return not target.key or (nullable and not self._nulls_not_distinct)

    # -- whole contents

    def replace(self, target: Target, table: pa.Table) -> list[Statements]:
        """Puts whole contents in the place of what is there.

        A new view is made; one of equal columns and key is brought to the new contents in place, which objects
        that depend on it and open snapshots survive; for any other the new table is loaded beside the old one
        and returned, to be swapped in at the end of the transaction, since that locks readers out.
        """
        self._forget(target.view)
        found = self.found([target.view])
        statements = self.statements(target)
        self._refuse_foreign(target, found, statements)
        swaps = []
        if not self.ours(target.view, found):
            self._load(statements, statements.table, table)
            self._publish(statements, readers=())
        elif self._same_shape(statements, found):
            self._bring_to(statements, table)
        else:
            self._load(statements, statements.beside, table)
            swaps = [statements]
        self.drop_stage(statements)
        return swaps

    def swap(self, statements: Statements) -> None:
        """The contents loaded beside become the view's; who could read it still can."""
        view = statements.target.view
        found = self.found([view])
        self.drop(view)
        self._connection.execute(statements.rename_beside())
        self._publish(statements, readers=found[view].readers)

    def drop(self, view: str) -> None:
        """Removes what is ours of that name; what is not ours stays."""
        self._forget(view)
        found = self.found([view])
        for name in (view, hidden_name(view)):
            if name in found and found[name].comment == self.mark(view):
                self._drop_relation(name, found[name].kind)

    def drop_all(self) -> None:
        """Removes every table and SQL view that carries our mark, the SQL views first."""
        rows = self._connection.execute(
            "SELECT c.relname::text, c.relkind::text FROM pg_class c WHERE c.relnamespace = to_regnamespace("
            "quote_ident($1)) AND c.relkind IN ('r', 'v') AND starts_with(obj_description(c.oid, 'pg_class'), $2)"
            " ORDER BY c.relkind = 'r'",
            (self._schema, self.mark("")),
        ).fetchall()
        for name, kind in rows:
            self._drop_relation(name, kind)

    def _drop_relation(self, name: str, kind: str) -> None:
        what = sql.SQL("VIEW") if kind == "v" else sql.SQL("TABLE")
        self._connection.execute(sql.SQL("DROP {} {}").format(what, sql.Identifier(self._schema, name)))

    def _load(self, statements: Statements, into: sql.Identifier, table: pa.Table) -> None:
        rows = rows_of(statements.target, table)
        self._connection.execute(statements.create_table(into))
        if statements.hidden:
            self.copy_to_stage(statements, rows)
            self._connection.execute(statements.load_copies(into))
        else:
            self._copy(statements.copy(into, weight=False), rows.drop_columns([WEIGHT]), statements.target)
        self._connection.execute(statements.add_key(into, self._nulls_not_distinct))
        self._connection.execute(sql.SQL("ANALYZE {}").format(into))

    def _publish(self, statements: Statements, readers: Iterable[str | None]) -> None:
        if statements.hidden:
            self._connection.execute(statements.create_view())
        for comment in statements.comments(self.mark(statements.target.view)):
            self._connection.execute(comment)
        for reader in dict.fromkeys(readers):
            role = sql.SQL("PUBLIC") if reader is None else sql.Identifier(reader)
            self._connection.execute(_GRANT.format(statements.visible, role))

    def _bring_to(self, statements: Statements, table: pa.Table) -> None:
        self.copy_to_stage(statements, rows_of(statements.target, table))
        if statements.hidden:
            self._connection.execute(statements.delete_unstaged_copies())
            self._connection.execute(statements.insert_missing_copies())
        else:
            self._connection.execute(statements.delete_unstaged())
            self._connection.execute(statements.insert_missing())

    def _same_shape(self, statements: Statements, found: Mapping[str, Found]) -> bool:
        target = statements.target
        wanted = [(column.name, postgres_types.from_spark(column.type)) for column in target.columns]
        return (
            found[target.view].columns == wanted
            and (found[target.view].kind == "v") == statements.hidden
            and self.has_key(statements)
        )

    def has_key(self, statements: Statements) -> bool:
        """Whether the table has the constraint that we put on it, which is the oldest of its kind."""
        kind, columns = ("u", statements.target.key)
        if statements.hidden:
            kind, columns = ("p", statements.hidden_names)
        rows = self._connection.execute(
            "SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_constraint k"
            " JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY(k.conkey)"
            " WHERE k.conrelid = to_regclass($1) AND k.contype::text = $2 GROUP BY k.oid ORDER BY k.oid LIMIT 1",
            (statements.table.as_string(self._connection), kind),
        ).fetchall()
        return [row[0] for row in rows] == [sorted(columns)]

    def _refuse_foreign(self, target: Target, found: Mapping[str, Found], statements: Statements) -> None:
        for name in {target.view, statements.table_name} & found.keys():
            if found[name].comment != self.mark(target.view):
                what = f"the schema '{self._schema}' already holds '{name}', which view '{target.view}' needs"
                raise errors.foreign(what, self._where)

    # -- moving rows to the server

    def copy_to_stage(self, statements: Statements, rows: pa.Table) -> None:
        """Loads rows and weights into the staging table, made once, and counts them for the planner."""
        if statements.number not in self._stages:
            self._connection.execute(statements.create_stage())
            self._stages.add(statements.number)
        for name, value in _PLAN_LARGE.items():
            self._connection.execute("SELECT set_config($1, $2, true)", (name, value))
        self._copy(statements.copy(statements.stage, weight=True), rows, statements.target)
        self._connection.execute(sql.SQL("ANALYZE {}").format(statements.stage))

    def _copy(self, command: sql.Composed, rows: pa.Table, target: Target) -> None:
        try:
            with self._connection.cursor().copy(command) as copy:
                for chunk in encode.csv_chunks(rows):
                    copy.write(chunk)
        except (psycopg.DataError, pg_errors.ProgramLimitExceeded, pa.ArrowInvalid) as error:
            raise errors.value(error, [target], self._where) from error

    def _arrays(self, target: Target, rows: pa.Table) -> list[list[str | None]]:
        """The columns as texts, one parameter each."""
        try:
            arrays = [encode.texts(encode.whole(column)).to_pylist() for column in rows.columns]
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise errors.value(error, [target], self._where) from error
        return arrays

    def explained(self, error: psycopg.Error, targets: Collection[Target]) -> HeadraceError:
        """The error of a statement, with the view and the values it is about."""
        names = {name: target for target in targets for name in self._names(target)}
        about = names.get(error.diag.table_name or "")
        if isinstance(error, pg_errors.UniqueViolation) and about is not None:
            key = re.sub(r"^Key | (already exists|is duplicated)\.$", "", error.diag.message_detail or "")
            return not_unique(about, f"the key {key}", self._where)
        if isinstance(error, psycopg.DataError | pg_errors.ProgramLimitExceeded) and targets:
            return errors.value(error, targets if about is None else [about], self._where)
        return errors.refused(error, self._where, self._role)

    def _names(self, target: Target) -> tuple[str, ...]:
        """The tables that errors about a view may name."""
        return target.view, hidden_name(target.view), Statements(self._schema, target, False, 0).beside_name


def null_patterns(rows: pa.Table, key: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Which key columns are NULL together in some of the rows; nearly always the one answer 'none'."""
    if not rows.num_rows:
        return []
    nullable = [name for name in key if rows.column(name).null_count]
    if not nullable:
        return [()]
    flags = pa.table({str(i): rows.column(name).is_null() for i, name in enumerate(nullable)})
    groups = flags.group_by(flags.column_names).aggregate([]).to_pylist()
    return [tuple(name for i, name in enumerate(nullable) if group[str(i)]) for group in groups]
