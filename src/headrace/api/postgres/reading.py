"""What a connection reads: results of SELECTs over views and tables, all of one transaction at one commit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa

from headrace.api.postgres import apart, catalogue, types
from headrace.api.postgres.apart import Apart, Held, Statement
from headrace.api.postgres.catalogue import ObjectIds
from headrace.api.postgres.dialect import PostgresGround
from headrace.api.postgres.narrow import narrowed
from headrace.api.postgres.parameters import compared
from headrace.api.postgres.plain import plain
from headrace.api.postgres.result import Result
from headrace.api.postgres.rewrite import Rewritten
from headrace.api.postgres.types import PostgresType
from headrace.formats.types.json import nearest
from headrace.governance.principal import Principal
from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.serve.asking import Runs
from headrace.serve.contents import Contents
from headrace.serve.database import define, end, locked, parsed, reads
from headrace.serve.questions import Questions
from headrace.serve.relation import Described
from headrace.serve.snapshot import Shared

READ_CHARS = 20_000  # of SQL are parsed to be looked at; a longer text is answered apart, unseen


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: the user's name as the client gave it, and what tells which relations it reaches.

    ``reaches``, and ``principal`` with it, is asked anew for each statement, and raises ``access.token`` once the token
    opens nothing any more. ``address``: where the client is.
    """

    user: str
    reaches: Callable[[], Callable[[str], bool]]
    principal: Callable[[], Principal]
    address: str

    def require(self, relations: Collection[str]) -> None:
        """Raises ``access.token``, and ``access.denied`` once they do not reach one of these any more."""
        reached = self.reaches()
        for name in sorted(relations):
            if not reached(name):
                raise HeadraceError(
                    "access.denied", f"'{self.user}' may not read {name} any more",
                    why="what its token reaches was changed after the statement had begun",
                    next="an admin makes another token: `headrace token create NAME --grant viewer:PATTERN`",
                )  # fmt: skip


class Reader:
    """The DuckDB in memory that all connections share; it holds no rows of a project, only what is being read.

    ``followed``: what those hold who SUBSCRIBE, once for all who are at the same commit of a view; ``held``: answers of
    statements that were answered apart, as much of them as DuckDB may use.
    """

    def __init__(self, questions: Questions, project: str, memory: str = "512MB", threads: int = 2) -> None:
        self.questions, self.project, self.ground = questions, project, PostgresGround(memory, project)
        self._database = locked(self.ground.open(), threads)
        self.questions.begin(self.ground)
        self.followed, self.held = Shared(), Held(self.ground.bytes)
        self._ids = ObjectIds()

    def close(self) -> None:
        end(self._database)

    def connection(self) -> duckdb.DuckDBPyConnection:
        return self._database.cursor()

    def relations(self, asker: Asker) -> dict[str, Described]:
        """What the asker may read, by name in lower case."""
        reached, told = asker.reaches(), asker.principal().told
        every = (replace(each, reason=told(each.reason)) for each in self.questions.relations() if reached(each.name))
        return {each.name.lower(): each for each in every}

    def known(self, asker: Asker, name: str) -> Described:
        """By a name in any case. Raises ``sql.unknown_relation`` with the nearest."""
        relations = self.relations(asker)
        if name.lower() not in relations:
            raise unknown(name, relations)
        return relations[name.lower()]

    def catalogue(self, asker: Asker, settings: Mapping[str, str]) -> dict[str, pa.Table]:
        views, _ = self.questions.mirror.relations()
        definitions = {name: record.sql for name, record in views.items()}
        relations = list(self.relations(asker).values())
        return catalogue.tables(relations, definitions, self._ids, self.project, asker.user, settings)


class Transaction:
    """What is read from its begin to its end is of the commit at which the first relation was read."""

    def __init__(self, reader: Reader, asker: Asker, settings: Mapping[str, str]) -> None:
        self._reader, self._asker, self._settings = reader, asker, settings
        self.commit: int | None = None
        self.stale: dict[str, str] = {}
        self._contents: dict[str, Contents] = {}
        self._catalogue: Mapping[str, pa.Table] | None = None

    def ask(
        self, query: Rewritten, parameters: Sequence[Any], runs: Runs, forms: Sequence[int] | None = None
    ) -> Result | Apart:
        """``forms``: those in which the rows will be fetched, None: not known. ``runs`` is told what interrupts it.

        Raises ``sql.syntax``, ``sql.refused``, ``sql.unknown_relation``, what DuckDB raises, and for what is answered
        apart ``query.timeout``, ``query.memory``, ``query.size``.
        """
        known = self._reader.relations(self._asker)
        if len(query.sql) > READ_CHARS:
            return self._apart(query, parameters, runs, forms, [known[name] for name in query.names & known.keys()])
        connection = self._reader.connection()
        try:
            runs(connection.interrupt)
            statement = parsed(connection, query.sql)
            read, defined = reads(statement)
            wanted = [known[name] for name in sorted(read) if name in known]
            if not query.catalogue and (left := sorted(read - defined - known.keys())):
                raise unknown(left[0], known)
            alone = query.catalogue and not wanted
            shown = {name: table.num_rows for name, table in self._shown().items()} if alone else None
            if not plain(statement, parameters, shown):
                connection.close()
                return self._apart(query, parameters, runs, forms, wanted)
            self._provide(connection, statement, query, parameters, wanted, whole=bool(read & defined))
            return Result(connection, query, parameters, statement, [each.name for each in wanted])
        except BaseException:
            connection.close()
            raise

    def _apart(
        self, query: Rewritten, parameters: Sequence[Any], runs: Runs, forms: Sequence[int] | None,
        read: Collection[Described],
    ) -> Apart:  # fmt: skip
        questions, shown = self._reader.questions, self._shown() if query.catalogue else {}
        statement = Statement(
            self._reader.ground, frozenset(each.name for each in read), self.commit,
            Deadline.after(questions.seconds), query, tuple(parameters), shown, apart.none,
        )  # fmt: skip
        found = Apart(questions.put, statement, forms, self._reader.held, runs)
        if read:
            self._read(found.commit, found.stale)
        return found

    def compared(self, query: Rewritten) -> dict[int, int]:
        """Types of the query's parameters, by their numbers, as far as comparisons decide them."""
        if len(query.sql) > READ_CHARS:
            return {}
        connection = self._reader.connection()
        try:
            statement = parsed(connection, query.sql)
            known, (read, _) = self._reader.relations(self._asker), reads(statement)
            columns = [
                (each.name, types.of_spark(each.type)) for name in read & known.keys() for each in known[name].columns
            ]
            if query.catalogue:
                columns += itertools.chain.from_iterable(_columns(connection, name) for name in read - known.keys())
            return compared(statement, columns)
        finally:
            connection.close()

    def _provide(
        self, connection: duckdb.DuckDBPyConnection, statement: Mapping[str, Any], query: Rewritten,
        parameters: Sequence[Any], wanted: Sequence[Described], *, whole: bool,
    ) -> None:  # fmt: skip
        """Make what is read part of the connection; of a relation only the rows that it takes, unless ``whole``."""
        missing = [each for each in wanted if each.name not in self._contents]
        if missing:
            self._load(missing)
        for number, relation in enumerate(wanted):
            contents = self._contents[relation.name]
            if not whole:
                contents = narrowed(statement, relation, contents, parameters)
            define(connection, relation.name, contents, f"headrace_rows_{number}")
        if query.catalogue:
            for name, table in self._shown().items():
                connection.register(name, table)

    def _shown(self) -> Mapping[str, pa.Table]:
        """The catalogue as it was when it was first read."""
        if self._catalogue is None:
            self._catalogue = self._reader.catalogue(self._asker, self._settings)
        return self._catalogue

    def _load(self, relations: Sequence[Described]) -> None:
        views = [each.name for each in relations if each.kind == "view"]
        tables = [each.name for each in relations if each.kind == "table"]
        mirror = self._reader.questions.mirror
        moment = mirror.moment(views, tables)
        if self.commit is not None and moment.commit != self.commit:
            moment = mirror.moment(views, tables, self.commit, behind=True)
        self._contents |= moment.contents
        self._read(moment.commit, moment.stale)

    def _read(self, commit: int, stale: Mapping[str, str]) -> None:
        self.commit = commit
        self.stale |= {name: self._asker.principal().told(reason) for name, reason in stale.items()}


def _columns(connection: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str, PostgresType]]:
    """Of a relation of the catalogue; none of any other."""
    try:
        relation = connection.table(name)
    except duckdb.CatalogException:
        return []
    return [(column, types.of_duckdb(kind)) for column, kind in zip(relation.columns, relation.types, strict=True)]


def unknown(name: str, known: Mapping[str, Described]) -> HeadraceError:
    names = sorted(each.name for each in known.values())
    return HeadraceError("sql.unknown_relation", f"there is no view or table '{name}'", next=nearest(name, names))
