"""What may be asked of the views and tables of a project, whoever asks: by key, by filter, by a SELECT of DuckDB's.

Every answer is of one commit. Record: docs/decisions/0026-serving.md.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headrace.formats.types.duckdb import compose, identifier
from headrace.formats.types.json import nearest
from headrace.model import bounds
from headrace.model.bounds import NEVER, Deadline
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve import apart
from headrace.serve.asking import Answered, Asked, Asking, Runs
from headrace.serve.database import UNASKED, Ground, Limits, admitted, as_duckdb, define, end, locked, run
from headrace.serve.mirror import Mirror, Moment
from headrace.serve.relation import (
    Described,
    Filter,
    column_of,
    filtered,
    filtered_or_error,
    of_view,
    refused,
    sortable,
    typed,
)
from headrace.serve.series import SLOTS, Series, statement

# A time's type -> the moment of its value ``v``, and a bucket's ``start`` as one of that type.
TIMES = {
    "timestamp": ("epoch_us(v)", "CAST(make_timestamp(start) AS TIMESTAMP WITH TIME ZONE)"),
    "timestamp_ntz": ("epoch_us(v)", "make_timestamp(start)"),
    "date": ("epoch_us(CAST(v AS TIMESTAMP))", "CAST(make_timestamp(start) AS DATE)"),
}
WHOLE = ("tinyint", "smallint", "int", "bigint")
NUMBERS = (*WHOLE, "float", "double", "decimal")
THREADS = 2  # of DuckDB's for one question
ROUNDS = 5  # of reading what has come while a relation was read: each time there is less, or there always is too much
PARTS_S = 5.0  # for all parts of a view that are taken at once: the steps after it wait meanwhile
_ROWS = "headrace_rows_"  # what a relation's rows are registered as


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one relation: those that all filters take, in an order ((column, descending)), a page of them."""

    filters: tuple[Filter, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    select: tuple[str, ...] = ()
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """``more``: there are more rows than were asked for; ``stale``: why a view that was read stays behind."""

    commit: int
    table: pa.Table
    more: bool
    stale: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Select(Asked):
    """One SELECT in DuckDB's dialect."""

    sql: str
    parameters: tuple[Any, ...]
    limits: Limits

    def reads(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        return admitted(connection, self.sql, [name.lower() for name in self.known])

    def answer(self, connection: duckdb.DuckDBPyConnection) -> tuple[pa.Table, bool]:
        return run(connection, self.sql, self.parameters, self.limits, self.deadline)


@dataclass(frozen=True, slots=True)
class Begun:
    """A question and what it ``reads``; ``connection``: on which it is answered, in a copy of this process."""

    asked: Asked
    connection: duckdb.DuckDBPyConnection
    reads: list[Described]


class Session:
    """Relations as views of a DuckDB connection, all at one commit: ``at``, or that of those loaded first.

    The connection is the caller's; ``Ground`` makes one that reaches nothing else.
    """

    def __init__(self, mirror: Mirror, connection: duckdb.DuckDBPyConnection, at: int | None = None) -> None:
        self.mirror, self.connection, self.commit = mirror, connection, at
        self.stale: dict[str, str] = {}
        self._loaded: set[str] = set()

    def load(self, relations: Iterable[Described], deadline: Deadline = NEVER) -> int:
        """Make these views of the connection; the commit. Raises what ``Mirror.moment`` does."""
        missing = [each for each in relations if each.name not in self._loaded]
        moment = _moment(self.mirror, missing, self.commit, deadline)
        for name, contents in moment.contents.items():
            define(self.connection, name, contents, f"{_ROWS}{len(self._loaded)}")
            self._loaded.add(name)
        self.commit = moment.commit
        self.stale |= moment.stale
        return moment.commit


@contextmanager
def questions_of(project: Path, memory: str = "512MB") -> Iterator[Questions]:
    """Those of the project in a folder, whether it runs or not, for as long as the block."""
    questions = Questions(Mirror(project), memory)
    try:
        yield questions
    finally:
        questions.close()


class Questions:
    """Asked by any thread. ``memory``: what DuckDB may use for all SELECTs together, and for all else, ``256MB``.

    ``seconds``: the most that one may take.
    ``asking`` answers those of others where this process has other threads; without it copies of this one do.
    """

    def __init__(
        self, mirror: Mirror, memory: str = "512MB", seconds: float = bounds.SECONDS, asking: Asking | None = None
    ) -> None:
        self.mirror, self.seconds, self._ground, self._asking = mirror, seconds, Ground(memory), asking
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._copied: dict[Ground, duckdb.DuckDBPyConnection] = {}

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()
        for connection in (self._database, *self._copied.values()):
            if connection is not None:
                end(connection)
        self.mirror.close()

    def begin(self, ground: Ground | None = None) -> None:
        """Have all at hand that the first question would wait for, on one's own ground or another, but no rows."""
        if self._asking is not None:
            first = Deadline.after(self.seconds)
            self._asking.begin(Select(ground or self._ground, frozenset(), None, first, "SELECT 1", (), UNASKED))

    def relations(self) -> list[Described]:
        views, tables = self.mirror.relations()
        found = [of_view(record) for record in views.values()]
        return found + [Described(name, "table", r.columns, r.key) for name, r in tables.items() if name not in views]

    def described(self, name: str) -> Described:
        """By a name in any case. Raises ``view.unknown`` with the nearest."""
        known = self.relations()
        for relation in known:
            if relation.name.lower() == name.lower():
                return relation
        names = sorted(relation.name for relation in known)
        raise HeadraceError("view.unknown", f"there is no view or table '{name}'", next=nearest(name, names))

    def bring(self, name: str, deadline: Deadline = NEVER) -> None:
        """Have a relation in memory, with most of what came while it was read. Raises what ``Mirror.moment`` does."""
        relation = self.described(name)
        for _ in range(ROUNDS):
            _moment(self.mirror, [relation], None, deadline)
            if not self.mirror.far(*_by_kind([relation])):
                return

    def row(self, name: str, key: Mapping[str, Any], at: int | None = None, deadline: Deadline = NEVER) -> Answer:
        """The row with this key; none: an empty table. Raises ``query.filter``, ``query.timeout``, ``view.unknown``,
        ``view.not_at``."""
        relation = self.described(name)
        _check_key(relation, key)
        return _found(relation, key, _moment(self.mirror, [relation], at, deadline))

    def row_at_hand(self, name: str, key: Mapping[str, Any]) -> Answer | None:
        """As ``row``, where nobody is kept waiting for it: see ``Mirror.at_hand``. ``name`` in the view's own case."""
        found = self.mirror.at_hand(name)
        if found is None:
            return None
        relation = of_view(found[0])
        _check_key(relation, key)
        return _found(relation, key, found[1])

    def rows(self, name: str, question: Rows, at: int | None = None, limits: Limits = UNASKED) -> Answer:
        """Raises ``query.filter``, ``query.timeout``, ``view.unknown``, ``view.not_at``."""
        relation = self.described(name)
        conditions, values = filtered(relation, question.filters)
        order = [f"{identifier(column_of(relation, n).name)}{' DESC' if down else ''}" for n, down in question.order]
        # Rows without an order come in one that their contents decide, else pages would overlap.
        order += [identifier(n) for n in relation.key or [c.name for c in relation.columns if sortable(c.type)]]
        text = compose(
            "SELECT {columns} FROM {relation} WHERE {conditions} ORDER BY {order} LIMIT ? OFFSET ?",
            columns=", ".join(identifier(column_of(relation, name).name) for name in question.select) or "*",
            relation=identifier(relation.name),
            conditions=conditions,
            order=", ".join(dict.fromkeys(order)) or "ALL",
        )
        values += [question.limit + 1, question.offset]
        deadline = Deadline.after(limits.seconds)
        with self.session(at) as session:
            commit = session.load([relation], deadline)
            table, more = run(session.connection, text, values, replace(limits, rows=question.limit), deadline)
        return Answer(commit, table, more, session.stale)

    def keeping(self, name: str, filters: tuple[Filter, ...]) -> Keeping:
        """What takes those of a view's rows that all filters take. Raises ``query.filter``, ``view.unknown``."""
        filtered(self.described(name), filters)
        return Keeping(self, filters)

    def series(
        self, name: str, question: Series, filters: Sequence[Filter] = (), at: int | None = None,
        limits: Limits = UNASKED,
    ) -> Answer:  # fmt: skip
        """One value for each bucket of time: ``time``, the columns of ``by``, ``value``, and ``before`` where it is
        compared. Raises what ``rows`` does, and ``api.request`` for more buckets than are told."""
        relation = self.described(name)
        conditions, values = filtered(relation, filters)
        rows, value = _timed(relation, question, conditions)
        question = replace(question, by=tuple(column_of(relation, name).name for name in question.by))
        deadline = Deadline.after(limits.seconds)
        with self.session(at) as session:
            commit, connection = session.load([relation], deadline), session.connection
            spanned = compose("SELECT min(t), max(t) FROM ({rows})", rows=rows)
            span = run(connection, spanned, values, replace(limits, rows=1), deadline)[0].to_pylist()[0]
            connection.register(SLOTS, question.slots(*span.values()))
            shown = TIMES[column_of(relation, question.time).type][1]
            table, more = run(connection, statement(question, rows, value, shown), values, limits, deadline)
        return Answer(commit, table, more, session.stale)

    def ask(
        self, sql: str, parameters: Sequence[Any] = (), limits: Limits = UNASKED, at: int | None = None,
        may_read: Callable[[str], bool] = lambda name: True,
    ) -> Answer:  # fmt: skip
        """One SELECT in DuckDB's dialect over tables and views, at the frontier or at a commit.

        ``may_read``: which relations are known to who asks. It has a process of its own, which ends when it takes too
        long or too much memory. Raises ``sql.syntax``, ``sql.refused``, ``sql.unknown_relation``, ``query.timeout``,
        ``query.memory``, ``query.size``, ``query.failed``.
        """
        known = frozenset(relation.name for relation in self.relations() if may_read(relation.name))
        select = Select(self._ground, known, at, Deadline.after(limits.seconds), sql, tuple(parameters), limits)
        answered = self.put(select)
        table, more = answered.found
        return Answer(answered.commit, table, more, answered.stale)

    def put(self, asked: Asked, runs: Runs = lambda end: None) -> Answered:
        """Have it answered in a process of its own. ``runs`` is told what ends it.

        Raises what is wrong with it, ``query.timeout``, ``query.memory``.
        """
        answered: Answered | None = (
            self._asking.ask(asked, runs) if self._asking is not None else self._beside(asked, runs)
        )
        if answered is not None:
            return answered
        asked.deadline.check()
        raise bounds.memory("the process that ran it has ended")

    def begun(self, asked: Asked) -> Begun:
        """What it reads. Raises what is wrong with it, ``wait.busy``."""
        if not asked.deadline.left:
            raise apart.busy()
        with self._lock:
            if asked.ground not in self._copied:
                self._copied[asked.ground] = asked.ground.open()
        connection = self._copied[asked.ground].cursor()
        known = {relation.name.lower(): relation for relation in self.relations() if relation.name in asked.known}
        return Begun(asked, connection, [known[name] for name in asked.reads(connection) if name in known])

    def far(self, begun: Begun) -> list[str]:
        """Of what it reads, what should be brought into memory before it goes on: that takes long. Of the past nothing
        is kept."""
        return [] if self._is_past(begun.asked) else self.mirror.far(*_by_kind(begun.reads))

    def go_on(
        self, begun: Begun, stream: socket.socket, bound: apart.Bound, others: Iterable[socket.socket] = ()
    ) -> int:
        """Have it answered on the stream, see ``apart.begin``. Raises what ``Mirror.moment`` does.

        The past is read in its own process, and so has the end of its time; that of its memory begins behind.
        """
        asked, connection = begun.asked, begun.connection
        now = None if self._is_past(asked) else _moment(self.mirror, begun.reads, None, asked.deadline)
        if now is not None and asked.at not in (None, now.commit):
            now = None  # there was another step meanwhile
        if now is None:
            self.mirror.let_go()

        def answer() -> Answered:
            moment = now or self.mirror.moment(*_by_kind(begun.reads), asked.at, asked.deadline, behind=asked.behind)
            bound.bind(asked.ground.bytes)
            locked(connection, THREADS)
            for name, contents in moment.contents.items():
                define(connection, name, contents, f"{_ROWS}{name}")
            return Answered(moment.commit, dict(moment.stale), asked.answer(connection))

        return apart.begin(answer, stream, others, asked.deadline.left)

    def _is_past(self, asked: Asked) -> bool:
        return asked.at is not None and asked.at != self.mirror.newest()

    def _beside(self, asked: Asked, runs: Runs) -> Any:
        here, there = socket.socketpair()
        with here:
            with there:
                number = self.go_on(self.begun(asked), there, apart.Bound(), [here])
            runs(lambda: apart.leave(here))
            try:
                return apart.answer(here, asked.deadline.end)
            finally:
                os.waitpid(number, 0)

    @contextmanager
    def session(self, at: int | None = None) -> Iterator[Session]:
        """On a connection of its own, at the frontier when the first relation is loaded, or at a commit."""
        with self._lock:
            self._database = self._database or locked(self._ground.open(), THREADS)
            connection = self._database.cursor()
        try:
            yield Session(self.mirror, connection, at)
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Keeping:
    """Rows of a view that filters take, of its contents or of a delta: a ``parts.Keep``."""

    questions: Questions = field(compare=False)
    filters: tuple[Filter, ...]

    def together(self, schema: ViewSchema, rows: pa.Table, keeps: Sequence[Keeping]) -> list[pa.Table | HeadraceError]:
        """By one SELECT; where that fails each by itself, so that what is wrong with one is no other's.

        ``query.filter`` for those of columns that the view has not any more.
        """
        relation = Described(schema.name, "view", schema.columns, schema.key)
        asked = [filtered_or_error(relation, keep.filters) for keep in keeps]
        sound = [each for each in asked if not isinstance(each, HeadraceError)]
        try:
            taken = iter(self._taken(rows, sound))
        except HeadraceError:
            taken = iter([self._taken_or_error(rows, each) for each in sound])
        return [each if isinstance(each, HeadraceError) else next(taken) for each in asked]

    def _taken(self, rows: pa.Table, conditions: Sequence[tuple[str, list[Any]]]) -> list[pa.Table | HeadraceError]:
        if not conditions:
            return []
        text = compose(
            "SELECT {conditions} FROM {rows}",
            conditions=", ".join(f"{condition} AS c{place}" for place, (condition, _) in enumerate(conditions)),
            rows=identifier(_ROWS),
        )
        values = [value for _, bound in conditions for value in bound]
        with self.questions.session() as session:
            session.connection.register(_ROWS, as_duckdb(rows))
            found = run(session.connection, text, values, Limits(rows.num_rows, min(PARTS_S, self.questions.seconds)))[
                0
            ]
        return [rows.filter(column.combine_chunks()) for column in found.columns]

    def _taken_or_error(self, rows: pa.Table, condition: tuple[str, list[Any]]) -> pa.Table | HeadraceError:
        try:
            return self._taken(rows, [condition])[0]
        except HeadraceError as error:
            return error


def _moment(mirror: Mirror, relations: Sequence[Described], at: int | None, deadline: Deadline) -> Moment:
    """What these hold. Raises what ``Mirror.moment`` does."""
    return mirror.moment(*_by_kind(relations), at, deadline)


def _by_kind(relations: Sequence[Described]) -> tuple[list[str], list[str]]:
    """The names of (views, tables)."""
    views, tables = ([each.name for each in relations if each.kind == kind] for kind in ("view", "table"))
    return views, tables


def _check_key(relation: Described, key: Mapping[str, Any]) -> None:
    if not relation.key:
        raise refused(
            f"{relation.name} has no key", "rows of it may repeat", f"ask for rows of {relation.name} by a filter"
        )
    if sorted(key) != sorted(relation.key):
        raise refused(
            f"the key of {relation.name} is {', '.join(relation.key)}",
            f"it was asked by {', '.join(key) or 'none'}",
            "name each column of the key, and no other",
        )


def _found(relation: Described, key: Mapping[str, Any], moment: Moment) -> Answer:
    found = moment.contents[relation.name].find({n: typed(relation, n, value) for n, value in key.items()})
    return Answer(moment.commit, found.drop_columns(WEIGHT), False, moment.stale)


def _timed(relation: Described, asked: Series, conditions: str) -> tuple[str, str]:
    """(a SELECT of the rows, the aggregate) of a series, see ``series.statement``. Raises ``query.filter``."""
    time, (function, name) = column_of(relation, asked.time), asked.value
    if time.type not in TIMES:
        raise refused(f"{time.name} is no time", f"it is of type {time.type}", f"a column of {', '.join(TIMES)}")
    if time.type != "timestamp" and asked.zone.key != "UTC":
        raise refused(f"{time.name} has no time zone", f"it is of type {time.type}", "leave out 'zone'")
    if time.type == "date" and asked.every.us:
        raise refused(f"{time.name} has no hours", "it is of type date", "every=1d")
    value = None if name is None else column_of(relation, name)
    kind = "bigint" if value is None or function == "count" else value.type
    if not kind.startswith(NUMBERS) and (function in ("sum", "avg", "median") or asked.fill in ("zero", "linear")):
        raise refused(
            f"{name} is no number", f"it is of type {kind}", "its min, max or count, filled by null or previous"
        )
    columns = [f"{identifier(column_of(relation, each).name)} AS b{i}" for i, each in enumerate(asked.by)]
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
