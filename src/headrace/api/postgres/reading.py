"""What a connection reads: results of SELECTs over views and tables, all of one transaction at one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa

from headrace.api.postgres import catalogue, types
from headrace.api.postgres.catalogue import ObjectIds
from headrace.api.postgres.names import names
from headrace.api.postgres.narrow import narrowed
from headrace.api.postgres.parameters import compared
from headrace.api.postgres.rewrite import Rewritten
from headrace.api.postgres.types import PostgresType
from headrace.formats.types.duckdb import compose
from headrace.formats.types.json import nearest
from headrace.governance.principal import Principal
from headrace.model.errors import HeadraceError
from headrace.serve.contents import Contents
from headrace.serve.database import database, define, end, parsed, reads
from headrace.serve.questions import Described, Questions
from headrace.serve.snapshot import Shared

BATCH_ROWS = 8_192  # of a result are fetched and sent at a time
# As PostgreSQL has it and DuckDB has not: whole numbers divide to whole numbers, NULL is greater than any value.
DIALECT = {"integer_division": True, "default_null_order": "nulls_last_on_asc_first_on_desc"}


Runs = Callable[[Callable[[], None]], None]


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


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str
    type: PostgresType


class Reader:
    """The DuckDB in memory that all connections share; it holds no rows of a project, only what is being read.

    ``followed``: what those hold who SUBSCRIBE, once for all who are at the same commit of a view.
    """

    def __init__(self, questions: Questions, project: str, memory: str = "512MB", threads: int = 2) -> None:
        self.questions, self.project = questions, project
        self.followed = Shared()
        self._database = database(memory, threads, DIALECT)
        self._ids = ObjectIds()
        catalogue.install(self._database, project)

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


class Result:
    """A SELECT that can be fetched; ``columns``, and the views and tables it ``reads``, are known before it runs.
    ``close`` frees what it holds.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        query: Rewritten,
        parameters: Sequence[Any],
        statement: dict[str, Any],
        read: Collection[str],
    ) -> None:
        self._connection, self.reads = connection, read
        self._relation = self._asked(query.sql, parameters)
        kinds = [types.of_duckdb(kind) for kind in self._relation.types]
        if query.catalogue and not read:
            kinds = [types.of_catalogue(kind) for kind in kinds]
        titles = names(statement, self._relation.columns)
        self.columns = [ResultColumn(title, kind) for title, kind in zip(titles, kinds, strict=True)]
        self._sql, self._parameters = query.sql, parameters

    def batches(self, forms: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows in parts. ``forms``: 0 for columns that are wanted as text, 1 for those in binary."""
        relation = self._relation
        if any(column.type.text and not form for column, form in zip(self.columns, forms, strict=True)):
            relation = self._asked(self._with_texts(forms), self._parameters)
        if not self.columns:
            return iter(())
        reader = relation.to_arrow_reader(BATCH_ROWS)
        return (batch for batch in reader if batch.num_rows)

    def plan(self) -> str:
        """How DuckDB would run it."""
        rows = self._connection.execute(compose("EXPLAIN {query}", query=self._sql), list(self._parameters)).fetchall()
        return "\n".join(str(row[-1]) for row in rows)

    def interrupt(self) -> None:
        """End it from another thread; what fetches gets an error of SQLSTATE 57014."""
        self._connection.interrupt()

    def close(self) -> None:
        self._relation = None
        self._connection.close()

    def _asked(self, sql: str, parameters: Sequence[Any]) -> Any:
        relation = self._connection.sql(sql, params=list(parameters) or None)
        if relation is None:
            raise HeadraceError("sql.refused", "that statement gives no rows", next="SELECT ... FROM a view or a table")
        return relation

    def _with_texts(self, forms: Sequence[int]) -> str:
        """The query with those columns as text whose text Arrow does not give as PostgreSQL does."""
        places = [f"c{number}" for number in range(len(self.columns))]
        shown = [
            column.type.text.format(place) if column.type.text and not form else place
            for place, column, form in zip(places, self.columns, forms, strict=True)
        ]
        return compose(
            "SELECT {shown} FROM ({query}\n) AS result({places})",
            shown=", ".join(shown), query=self._sql, places=", ".join(places),
        )  # fmt: skip


class Transaction:
    """What is read from its begin to its end is of the commit at which the first relation was read."""

    def __init__(self, reader: Reader, asker: Asker, settings: Mapping[str, str]) -> None:
        self._reader, self._asker, self._settings = reader, asker, settings
        self.commit: int | None = None
        self.stale: dict[str, str] = {}
        self._contents: dict[str, Contents] = {}
        self._catalogue: Mapping[str, pa.Table] | None = None

    def ask(self, query: Rewritten, parameters: Sequence[Any], runs: Runs) -> Result:
        """Raises ``sql.syntax``, ``sql.refused``, ``sql.unknown_relation``, and what DuckDB raises.

        ``runs`` is told what interrupts it.
        """
        connection = self._reader.connection()
        try:
            runs(connection.interrupt)
            statement = parsed(connection, query.sql)
            read = self._provide(connection, statement, query, parameters)
            return Result(connection, query, parameters, statement, read)
        except BaseException:
            connection.close()
            raise

    def compared(self, query: Rewritten) -> dict[int, int]:
        """Types of the query's parameters, by their numbers, as far as comparisons decide them."""
        connection = self._reader.connection()
        try:
            statement = parsed(connection, query.sql)
            known, (read, _) = self._reader.relations(self._asker), reads(statement)
            return compared(statement, [known[name] for name in read if name in known])
        finally:
            connection.close()

    def _provide(
        self, connection: duckdb.DuckDBPyConnection, statement: Mapping[str, Any], query: Rewritten,
        parameters: Sequence[Any],
    ) -> list[str]:  # fmt: skip
        """Make what is read part of the connection; the views and tables of the project that it reads."""
        known = self._reader.relations(self._asker)
        read, defined = reads(statement)
        wanted = [known[name] for name in sorted(read) if name in known]
        missing = [each for each in wanted if each.name not in self._contents]
        if missing:
            self._load(missing)
        for number, relation in enumerate(wanted):
            contents = self._contents[relation.name]
            if not read & defined:
                contents = narrowed(statement, relation, contents, parameters)
            define(connection, relation.name, contents, f"headrace_rows_{number}")
        if query.catalogue:
            if self._catalogue is None:
                self._catalogue = self._reader.catalogue(self._asker, self._settings)
            for name, table in self._catalogue.items():
                connection.register(name, table)
        elif left := sorted(read - defined - known.keys()):
            raise unknown(left[0], known)
        return [each.name for each in wanted]

    def _load(self, relations: Sequence[Described]) -> None:
        views = [each.name for each in relations if each.kind == "view"]
        tables = [each.name for each in relations if each.kind == "table"]
        mirror = self._reader.questions.mirror
        moment = mirror.moment(views, tables)
        if self.commit is not None and moment.commit != self.commit:
            moment = mirror.moment(views, tables, self.commit)
        self.commit = moment.commit
        self._contents |= moment.contents
        self.stale |= {name: self._asker.principal().told(reason) for name, reason in moment.stale.items()}


def unknown(name: str, known: Mapping[str, Described]) -> HeadraceError:
    names = sorted(each.name for each in known.values())
    return HeadraceError("sql.unknown_relation", f"there is no view or table '{name}'", next=nearest(name, names))
