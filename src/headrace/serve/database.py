"""DuckDB over rows in memory: a database that reaches nothing else, relations in it, and a SELECT within its limits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from headrace.formats.types import duckdb as duckdb_types
from headrace.formats.types.arrow import YEAR_MONTH
from headrace.formats.types.duckdb import compose, identifier
from headrace.formats.types.json import nearest
from headrace.model import bounds
from headrace.model.bounds import Deadline
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.serve.contents import Contents
from headrace.serve.fitting import fitting

BATCH_ROWS = 8_192  # of an answer that is fetched piece by piece
CATALOGUES = ("information_schema", "pg_catalog")


@dataclass(frozen=True, slots=True)
class Limits:
    """Of an answer's rows and bytes, and of the seconds that it may take. ``cut``: rows that find no room are left for
    another answer; else more bytes are an error."""

    rows: int = 10_000
    seconds: float = 10.0
    bytes: int = 1 << 40
    cut: bool = False


UNASKED = Limits()  # of who says nothing of them


@dataclass(frozen=True, slots=True)
class Ground:
    """What questions find before any rows: a database in memory that reaches nothing, neither a file, nor the network,
    nor a variable of this process.

    ``memory``: what DuckDB may use of it, for all questions together, ``256MB``.
    """

    memory: str = "512MB"

    @property
    def bytes(self) -> int:
        digits = self.memory.strip().rstrip("BbIiKkMmGgTt ")
        unit = self.memory.strip()[len(digits) :].strip().lower()
        return int(float(digits) * (1024 if "i" in unit else 1000) ** "bkmgt".index(unit[0]))

    def open(self) -> duckdb.DuckDBPyConnection:
        """Without threads: a copy of the process may go on with it. Settings can be changed until it is ``locked``."""
        return opened(self.memory)


def opened(memory: str, dialect: Mapping[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
    """The database of ``Ground``. ``dialect``: settings of DuckDB's that say what SQL means."""
    # Without a folder nothing is put on the disk: memory is the end of what a query may take.
    connection = duckdb.connect(":memory:", config={"threads": 1, "temp_directory": ""})
    for name, value in (dialect or {}).items():
        connection.execute(compose("SET GLOBAL {name} = {value}", name=name, value=f"'{value}'"))
    for name, value in {
        "memory_limit": memory, "TimeZone": "UTC", "python_enable_replacements": False, "secret_directory": "",
        "autoinstall_known_extensions": False, "autoload_known_extensions": False, "enable_external_access": False,
    }.items():  # fmt: skip
        connection.execute(compose("SET {name} = {value}", name=name, value=f"'{value}'"))
    return connection


def locked(connection: duckdb.DuckDBPyConnection, threads: int) -> duckdb.DuckDBPyConnection:
    """From here on it has threads, and no setting can be changed."""
    connection.execute(compose("SET threads = {threads}", threads=str(threads)))
    connection.execute("SET lock_configuration = true")
    return connection


def end(connection: duckdb.DuckDBPyConnection) -> None:
    """Close it. One that a thread is still at goes when the process does."""
    connection.interrupt()
    with contextlib.suppress(duckdb.Error):
        connection.close()


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
    """One SELECT as DuckDB's own parser has it. Raises ``sql.syntax``, ``sql.refused``, ``query.memory``."""
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    try:
        found: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:  # it reads 1,024 levels, and DuckDB's parser has as many as 1,000 expressions
        raise HeadraceError(
            "sql.refused", "the statement has too many expressions inside each other",
            why="a sum or a chain of || of some hundred parts is as deep as it is long",
            next="put brackets around groups of its parts, or name some of them in a subquery",
        ) from None  # fmt: skip
    if found["error"] and found["error_type"] == "parser":
        place = int(found.get("position") or 0)
        line = sql.count("\n", 0, place) + 1
        column = place - sql.rfind("\n", 0, place)
        raise HeadraceError("sql.syntax", found["error_message"], where=f"line {line}, column {column}", next=_DIALECT)
    if found["error"] and found["error_type"] == "out of memory":
        raise bounds.memory(found["error_message"])
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
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], limits: Limits,
    deadline: Deadline | None = None,
) -> tuple[pa.Table, bool]:  # fmt: skip
    """(rows, whether there are more) of a SELECT, fetched as far as they are wanted.

    ``deadline``: of the question that it is a part of; without it its own seconds begin now. Raises ``query.timeout``,
    ``query.memory``, ``query.size``, ``query.failed``. DuckDB heeds the end of its time between two pieces of work, and
    a function may make a piece of any size: ``apart`` has an end that is hard.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        connection.interrupt()

    deadline = deadline or Deadline.after(limits.seconds)
    timer = threading.Timer(deadline.left, end)
    timer.start()
    try:
        reader = connection.sql(sql, params=list(parameters) or None).to_arrow_reader(min(BATCH_ROWS, limits.rows + 1))
        batches, count, size = list[pa.RecordBatch](), 0, 0
        while count <= limits.rows and (batch := next(reader, None)) is not None:
            if size + batch.nbytes > limits.bytes:
                room = fitting(batch, limits.bytes - size)
                if not limits.cut or count + room == 0:
                    raise bounds.size(limits.bytes)
                return pa.Table.from_batches([*batches, batch.slice(0, room)], reader.schema).slice(
                    0, limits.rows
                ), True
            batches.append(batch)
            count, size = count + batch.num_rows, size + batch.nbytes
        return pa.Table.from_batches(batches, reader.schema).slice(0, limits.rows), count > limits.rows
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
        raise bounds.timeout(deadline.seconds) if over.is_set() else of_duckdb(error) from None
    finally:
        timer.cancel()


def of_duckdb(error: Exception) -> HeadraceError:
    """DuckDB's message without the name of its kind; the columns that it offers are what comes next.

    While rows are fetched its errors come through Arrow, as ``OSError``.
    """
    text = str(error).split("\n\nLINE", 1)[0].split("\n\nPossible solutions", 1)[0].strip()
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException) or text.startswith("Out of Memory Error"):
        return bounds.memory(text.partition("Error: ")[2])
    if isinstance(error, pa.ArrowException):  # values deeper than it has
        return HeadraceError("query.failed", f"the answer cannot be told: {error}")
    text = text.partition(" Error: ")[2] or text
    what, _, near = text.replace("\n", " ").partition("Candidate bindings: ")
    if isinstance(error, duckdb.PermissionException):
        return HeadraceError(
            "sql.refused", "a query reads the views and tables of the project, and no file or address",
            why=what.strip(), next="bring the file in by a source of type files, and ask for its table",
        )  # fmt: skip
    hint = f"columns near to it: {near.strip()}" if near else "`--engine spark` has the functions and types of Spark"
    return HeadraceError("query.failed", what.strip(), next=hint)
