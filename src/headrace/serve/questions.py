"""What may be asked of the views and tables of a project, whoever asks: by key, by filter, by a SELECT of DuckDB's.

Every answer is of one commit. Record: docs/decisions/0026-serving.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import duckdb
import orjson
import pyarrow as pa

from headrace.catalog.store import ViewRecord
from headrace.formats.csv_rows import json_value
from headrace.formats.types import duckdb as duckdb_types
from headrace.formats.types.arrow import YEAR_MONTH, to_arrow
from headrace.formats.types.duckdb import compose, identifier
from headrace.formats.types.json import ColumnRefused, column, nearest, shown
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column
from headrace.serve.contents import Contents
from headrace.serve.mirror import Mirror, Moment
from headrace.serve.series import SLOTS, Series, statement

BATCH_ROWS = 8_192  # of an answer that is fetched piece by piece
OPERATORS = {
    "eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "like": "LIKE", "ilike": "ILIKE",
    "in": "IN", "is": "IS",
}  # fmt: skip
IS = {"null": "NULL", "not_null": "NOT NULL", "true": "TRUE", "false": "FALSE"}
# A time's type -> the moment of its value ``v``, and a bucket's ``start`` as one of that type.
TIMES = {
    "timestamp": ("epoch_us(v)", "CAST(make_timestamp(start) AS TIMESTAMP WITH TIME ZONE)"),
    "timestamp_ntz": ("epoch_us(v)", "make_timestamp(start)"),
    "date": ("epoch_us(CAST(v AS TIMESTAMP))", "CAST(make_timestamp(start) AS DATE)"),
}
WHOLE = ("tinyint", "smallint", "int", "bigint")
NUMBERS = (*WHOLE, "float", "double", "decimal")
CATALOGUES = ("information_schema", "pg_catalog")
_ROWS = "headrace_rows_"  # what a relation's rows are registered as


@dataclass(frozen=True, slots=True)
class Described:
    """A relation: ``state`` and ``reason`` of a view; ``key`` () where rows may repeat."""

    name: str
    kind: Literal["view", "table"]
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    state: str = "live"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """``operator``: one of ``OPERATORS``; ``value``: JSON's, or text; of `in` a list, of `is` one of ``IS``."""

    column: str
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one relation: those that all filters take, in an order ((column, descending)), a page of them."""

    filters: tuple[Filter, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    select: tuple[str, ...] = ()
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Of an answer's rows, and of the seconds that it may take."""

    rows: int = 10_000
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """``more``: there are more rows than were asked for; ``stale``: why a view that was read stays behind."""

    commit: int
    table: pa.Table
    more: bool
    stale: Mapping[str, str]


class Session:
    """Relations as views of a DuckDB connection, all at one commit: ``at``, or that of those loaded first.

    The connection is the caller's; ``database`` makes one that reaches nothing else.
    """

    def __init__(self, mirror: Mirror, connection: duckdb.DuckDBPyConnection, at: int | None = None) -> None:
        self.mirror, self.connection, self.commit = mirror, connection, at
        self.stale: dict[str, str] = {}
        self._loaded: set[str] = set()

    def load(self, relations: Iterable[Described]) -> int:
        """Make these views of the connection; the commit. Raises what ``Mirror.moment`` does."""
        wanted = [relation for relation in relations if relation.name not in self._loaded]
        views = [relation.name for relation in wanted if relation.kind == "view"]
        tables = [relation.name for relation in wanted if relation.kind == "table"]
        moment = self.mirror.moment(views, tables, self.commit)
        for name, contents in moment.contents.items():
            define(self.connection, name, contents, f"{_ROWS}{len(self._loaded)}")
            self._loaded.add(name)
        self.commit = moment.commit
        self.stale |= moment.stale
        return moment.commit


@contextmanager
def opened(project: Path) -> Iterator[Questions]:
    """Those of the project in a folder, whether it runs or not, for as long as the block."""
    questions = Questions(Mirror(project))
    try:
        yield questions
    finally:
        questions.close()


class Questions:
    """Asked by any thread. ``memory``: what DuckDB may use for all questions together, ``256MB``."""

    def __init__(self, mirror: Mirror, memory: str = "512MB", threads: int = 2) -> None:
        self.mirror = mirror
        self._database = database(memory, threads)

    def close(self) -> None:
        self._database.close()
        self.mirror.close()

    def relations(self) -> list[Described]:
        views, tables = self.mirror.relations()
        found = [_of_view(record) for record in views.values()]
        return found + [Described(name, "table", r.columns, r.key) for name, r in tables.items() if name not in views]

    def described(self, name: str) -> Described:
        """By a name in any case. Raises ``view.unknown`` with the nearest."""
        known = self.relations()
        for relation in known:
            if relation.name.lower() == name.lower():
                return relation
        names = sorted(relation.name for relation in known)
        raise HeadraceError("view.unknown", f"there is no view or table '{name}'", next=nearest(name, names))

    def row(self, name: str, key: Mapping[str, Any], at: int | None = None) -> Answer:
        """The row with this key; none: an empty table. Raises ``query.filter``, ``view.unknown``, ``view.not_at``."""
        relation = self.described(name)
        _check_key(relation, key)
        views, tables = ([relation.name], []) if relation.kind == "view" else ([], [relation.name])
        return _found(relation, key, self.mirror.moment(views, tables, at))

    def row_at_hand(self, name: str, key: Mapping[str, Any]) -> Answer | None:
        """As ``row``, where nobody is kept waiting for it: see ``Mirror.at_hand``. ``name`` in the view's own case."""
        found = self.mirror.at_hand(name)
        if found is None:
            return None
        relation = _of_view(found[0])
        _check_key(relation, key)
        return _found(relation, key, found[1])

    def rows(self, name: str, question: Rows, at: int | None = None, limits: Limits = Limits()) -> Answer:
        """Raises ``query.filter``, ``query.timeout``, ``view.unknown``, ``view.not_at``."""
        relation = self.described(name)
        conditions, values = _conditions(relation, question.filters)
        order = [f"{identifier(_column(relation, n).name)}{' DESC' if down else ''}" for n, down in question.order]
        # Rows without an order come in one that their contents decide, else pages would overlap.
        order += [identifier(n) for n in relation.key or [c.name for c in relation.columns if sortable(c.type)]]
        text = compose(
            "SELECT {columns} FROM {relation} WHERE {conditions} ORDER BY {order} LIMIT ? OFFSET ?",
            columns=", ".join(identifier(_column(relation, name).name) for name in question.select) or "*",
            relation=identifier(relation.name),
            conditions=conditions,
            order=", ".join(dict.fromkeys(order)) or "ALL",
        )
        values += [question.limit + 1, question.offset]
        with self.session(at) as session:
            commit = session.load([relation])
            table, more = run(session.connection, text, values, replace(limits, rows=question.limit))
        return Answer(commit, table, more, session.stale)

    def series(
        self, name: str, question: Series, filters: Sequence[Filter] = (), at: int | None = None,
        limits: Limits = Limits(),
    ) -> Answer:  # fmt: skip
        """One value for each bucket of time: ``time``, the columns of ``by``, ``value``, and ``before`` where it is
        compared. Raises what ``rows`` does, and ``api.request`` for more buckets than are told."""
        relation = self.described(name)
        conditions, values = _conditions(relation, filters)
        rows, value = _timed(relation, question, conditions)
        question = replace(question, by=tuple(_column(relation, name).name for name in question.by))
        with self.session(at) as session:
            commit, connection = session.load([relation]), session.connection
            spanned = compose("SELECT min(t), max(t) FROM ({rows})", rows=rows)
            span = run(connection, spanned, values, replace(limits, rows=1))[0].to_pylist()[0]
            connection.register(SLOTS, question.slots(*span.values()))
            shown = TIMES[_column(relation, question.time).type][1]
            table, more = run(connection, statement(question, rows, value, shown), values, limits)
        return Answer(commit, table, more, session.stale)

    def ask(
        self, sql: str, parameters: Sequence[Any] = (), limits: Limits = Limits(), at: int | None = None,
        may_read: Callable[[str], bool] = lambda name: True,
    ) -> Answer:  # fmt: skip
        """One SELECT in DuckDB's dialect over tables and views, at the frontier or at a commit.

        ``may_read``: which relations are known to who asks.
        Raises ``sql.syntax``, ``sql.refused``, ``sql.unknown_relation``, ``query.timeout``, ``query.failed``.
        """
        known = {relation.name.lower(): relation for relation in self.relations() if may_read(relation.name)}
        with self.session(at) as session:
            names = admitted(session.connection, sql, known.keys())
            commit = session.load(known[name] for name in names)
            table, more = run(session.connection, sql, parameters, limits)
        return Answer(commit, table, more, session.stale)

    @contextmanager
    def session(self, at: int | None = None) -> Iterator[Session]:
        """On a connection of its own, at the frontier when the first relation is loaded, or at a commit."""
        connection = self._database.cursor()
        try:
            yield Session(self.mirror, connection, at)
        finally:
            connection.close()


def _of_view(record: ViewRecord) -> Described:
    schema = record.schema
    return Described(schema.name, "view", schema.columns, schema.key, record.state, record.reason)


def _check_key(relation: Described, key: Mapping[str, Any]) -> None:
    if not relation.key:
        raise _refused(
            f"{relation.name} has no key", "rows of it may repeat", f"ask for rows of {relation.name} by a filter"
        )
    if sorted(key) != sorted(relation.key):
        raise _refused(
            f"the key of {relation.name} is {', '.join(relation.key)}",
            f"it was asked by {', '.join(key) or 'none'}",
            "name each column of the key, and no other",
        )


def _found(relation: Described, key: Mapping[str, Any], moment: Moment) -> Answer:
    found = moment.contents[relation.name].find({n: typed(relation, n, value) for n, value in key.items()})
    return Answer(moment.commit, found.drop_columns(WEIGHT), False, moment.stale)


def database(memory: str, threads: int, dialect: Mapping[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory that reaches nothing: no file, no network, no variable of this process, no setting.

    ``dialect``: settings of DuckDB's that say what SQL means.
    """
    connection = duckdb.connect(":memory:")
    for name, value in (dialect or {}).items():
        connection.execute(compose("SET GLOBAL {name} = {value}", name=name, value=f"'{value}'"))
    for name, value in {
        "memory_limit": memory, "threads": threads, "TimeZone": "UTC", "python_enable_replacements": False,
        "autoinstall_known_extensions": False, "autoload_known_extensions": False, "enable_external_access": False,
        "lock_configuration": True,
    }.items():  # fmt: skip
        connection.execute(compose("SET {name} = {value}", name=name, value=f"'{value}'"))
    return connection


def define(connection: duckdb.DuckDBPyConnection, name: str, contents: Contents, registered: str) -> None:
    """A relation's rows as a view of the connection, each row as often as it is there."""
    connection.register(registered, as_duckdb(contents.table()))
    columns = ", ".join(identifier(name) for name in contents.schema.names)
    copies = f", range({identifier(WEIGHT)})" if contents.repeated else ""
    connection.execute(
        compose(
            "CREATE OR REPLACE TEMP VIEW {name} AS SELECT {columns} FROM {rows}{copies} WHERE {weight} > 0",
            name=identifier(name), columns=columns, rows=identifier(registered), copies=copies,
            weight=identifier(WEIGHT),
        )
    )  # fmt: skip


def as_duckdb(table: pa.Table) -> pa.Table:
    """Rows with intervals as DuckDB takes them for its own."""
    for place, field in enumerate(table.schema):
        if field.type == YEAR_MONTH:
            table = table.set_column(place, field.name, duckdb_types.intervals(table.column(place)))
    return table


def admitted(connection: duckdb.DuckDBPyConnection, sql: str, known: Collection[str]) -> list[str]:
    """The relations that one SELECT reads, in lower case. Raises what is wrong with it."""
    read, defined = reads(parsed(connection, sql))
    unknown = sorted(read - defined - set(known))
    if unknown:
        raise HeadraceError(
            "sql.unknown_relation", f"there is no view or table '{unknown[0]}'", next=nearest(unknown[0], sorted(known))
        )
    return sorted(read & set(known))


_DIALECT = 'one SELECT in DuckDB\'s SQL; `headrace sql`, and "engine": "spark" over HTTP, take Spark\'s'


def parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    """One SELECT as DuckDB's own parser has it. Raises ``sql.syntax``, ``sql.refused``."""
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    found: dict[str, Any] = orjson.loads(text)
    if found["error"] and found["error_type"] == "parser":
        place = int(found.get("position") or 0)
        line = sql.count("\n", 0, place) + 1
        column = place - sql.rfind("\n", 0, place)
        raise HeadraceError("sql.syntax", found["error_message"], where=f"line {line}, column {column}", next=_DIALECT)
    if found["error"] or len(found["statements"]) != 1:
        raise HeadraceError(
            "sql.refused", "only one SELECT can be asked" if sql.strip() else "there is no SQL text",
            why="here is read and nothing else",
            next="SELECT ... FROM a view or a table of the project; CREATE, DROP and SHOW by psql or `headrace sql`",
        )  # fmt: skip
    statement: dict[str, Any] = found["statements"][0]
    return statement


def reads(statement: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """(the relations that a parsed SELECT reads, what its WITH defines), in lower case."""
    read, defined = set[str](), set[str]()
    _names(statement, read, defined)
    return read, defined


def _names(part: Any, read: set[str], defined: set[str]) -> None:
    """What a parsed query reads, and what its WITH defines; DuckDB's catalogue is no part of the project."""
    if isinstance(part, list):
        for each in part:
            _names(each, read, defined)
    elif isinstance(part, dict):
        if part.get("type") == "BASE_TABLE" and part["schema_name"] not in CATALOGUES:
            read.add(part["table_name"].lower())
        defined |= {entry["key"].lower() for entry in (part.get("cte_map") or {}).get("map", ())}
        for each in part.values():
            _names(each, read, defined)


def run(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], limits: Limits
) -> tuple[pa.Table, bool]:
    """(rows, whether there are more) of a SELECT, fetched as far as they are wanted."""
    timer = threading.Timer(limits.seconds, connection.interrupt)
    timer.start()
    try:
        reader = connection.sql(sql, params=list(parameters) or None).to_arrow_reader(min(BATCH_ROWS, limits.rows + 1))
        batches, count = list[pa.RecordBatch](), 0
        while count <= limits.rows and (batch := next(reader, None)) is not None:
            batches.append(batch)
            count += batch.num_rows
        return pa.Table.from_batches(batches, reader.schema).slice(0, limits.rows), count > limits.rows
    except duckdb.InterruptException:
        raise HeadraceError(
            "query.timeout", f"the query took more than {limits.seconds:g} seconds, and was ended",
            next="ask for less, allow it more time, or make it a view: it is kept up to date then",
        ) from None  # fmt: skip
    except duckdb.Error as error:
        raise _of_duckdb(error) from None
    except pa.ArrowException as error:  # values deeper than it has
        raise HeadraceError("query.failed", f"the answer cannot be told: {error}") from None
    finally:
        timer.cancel()


def typed(relation: Described, name: str, value: Any) -> pa.Scalar:
    """A value of JSON, or the text that a cell of CSV has for it, as the column has it. Raises ``query.filter``."""
    found = _column(relation, name)
    arrow = to_arrow(found.type)
    try:
        return column([json_value(value, arrow) if isinstance(value, str) else value], arrow)[0]
    except (ColumnRefused, ValueError) as error:
        raise _refused(
            f"{shown(value)} is no {found.type}",
            f"it is compared with column {found.name} of {relation.name}",
            "give a value of that type, spelled as in JSON",
        ) from error


def sortable(type_text: str) -> bool:
    """Whether DuckDB orders values of the type."""
    return not to_arrow(type_text).num_fields or type_text.startswith(("array", "struct", "interval"))


def _timed(relation: Described, asked: Series, conditions: str) -> tuple[str, str]:
    """(a SELECT of the rows, the aggregate) of a series, see ``series.statement``. Raises ``query.filter``."""
    time, (function, name) = _column(relation, asked.time), asked.value
    if time.type not in TIMES:
        raise _refused(f"{time.name} is no time", f"it is of type {time.type}", f"a column of {', '.join(TIMES)}")
    if time.type != "timestamp" and asked.zone.key != "UTC":
        raise _refused(f"{time.name} has no time zone", f"it is of type {time.type}", "leave out 'zone'")
    if time.type == "date" and asked.every.us:
        raise _refused(f"{time.name} has no hours", "it is of type date", "every=1d")
    value = None if name is None else _column(relation, name)
    kind = "bigint" if value is None or function == "count" else value.type
    if not kind.startswith(NUMBERS) and (function in ("sum", "avg", "median") or asked.fill in ("zero", "linear")):
        raise _refused(
            f"{name} is no number", f"it is of type {kind}", "its min, max or count, filled by null or previous"
        )
    columns = [f"{identifier(_column(relation, each).name)} AS b{i}" for i, each in enumerate(asked.by)]
    columns += [f"{identifier(value.name)} AS x"] if value is not None else []
    rows = compose(
        "SELECT {moment} AS t, * EXCLUDE (v) FROM (SELECT {columns} FROM {relation} WHERE {conditions})"
        " WHERE v IS NOT NULL",
        moment=TIMES[time.type][0], columns=", ".join([f"{identifier(time.name)} AS v", *columns]),
        relation=identifier(relation.name), conditions=conditions,
    )  # fmt: skip
    argument = "CAST(x AS DOUBLE)" if function == "median" else "x"  # that of two decimals would be rounded
    made = "count(*)" if value is None else f"{function}({argument})"
    made = f"CAST({made} AS BIGINT)" if function == "sum" and kind in WHOLE else made
    return rows, f"CAST({made} AS DOUBLE)" if asked.fill == "linear" else made


def _conditions(relation: Described, filters: Iterable[Filter]) -> tuple[str, list[Any]]:
    """(what all filters ask together, the values bound in it)."""
    found = [_condition(relation, each) for each in filters]
    return " AND ".join(text for text, _ in found) or "TRUE", [value for _, bound in found for value in bound]


def _condition(relation: Described, asked: Filter) -> tuple[str, list[Any]]:
    if asked.operator not in OPERATORS:
        raise _refused(f"there is no operator '{asked.operator}'", "", f"operators: {', '.join(OPERATORS)}")
    found = _column(relation, asked.column)
    name, operator = identifier(found.name), OPERATORS[asked.operator]
    if asked.operator == "is":
        if asked.value not in IS:
            raise _refused(f"nothing is '{asked.value}'", "", f"`is` takes one of {', '.join(IS)}")
        return f"{name} IS {IS[asked.value]}", []
    if asked.operator in ("like", "ilike"):
        return f"{name}::VARCHAR {operator} ?", [str(asked.value)]
    values = list(asked.value) if asked.operator == "in" else [asked.value]
    bound = [typed(relation, found.name, value).as_py() for value in values]
    kind = duckdb_types.from_spark(found.type)
    marks = ", ".join(f"CAST(? AS {kind})" for _ in bound)
    if asked.operator == "in":
        return f"{name} IN ({marks})" if bound else "FALSE", bound
    return f"{name} {operator} {marks}", bound


def _column(relation: Described, name: str) -> Column:
    for found in relation.columns:
        if found.name.lower() == name.lower():
            return found
    names = [column.name for column in relation.columns]
    raise _refused(f"{relation.name} has no column '{name}'", "", nearest(name, names))


def _refused(what: str, why: str, next: str) -> HeadraceError:
    return HeadraceError("query.filter", what, why=why, next=next)


def _of_duckdb(error: duckdb.Error) -> HeadraceError:
    """DuckDB's message without the name of its kind; the columns that it offers are what comes next."""
    text = str(error).split("\n\nLINE", 1)[0].strip().partition(" Error: ")[2] or str(error)
    what, _, near = text.replace("\n", " ").partition("Candidate bindings: ")
    if isinstance(error, duckdb.PermissionException):
        return HeadraceError(
            "sql.refused", "a query reads the views and tables of the project, and no file or address",
            why=what.strip(), next="bring the file in by a source of type files, and ask for its table",
        )  # fmt: skip
    hint = f"columns near to it: {near.strip()}" if near else "`--engine spark` has the functions and types of Spark"
    return HeadraceError("query.failed", what.strip(), next=hint)
