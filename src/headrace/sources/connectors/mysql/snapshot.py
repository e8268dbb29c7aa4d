"""The contents of some tables at one consistent place of the log, copied in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pymysql.converters import conversions
from pymysql.cursors import SSCursor
from pymysql.err import MySQLError

from headrace.formats import values
from headrace.formats.types import arrow as arrow_types
from headrace.model.errors import HeadraceError
from headrace.model.pace import Copying, Pace
from headrace.sources.connectors.mysql import columns, setup
from headrace.sources.connectors.mysql.introspect import SourceTable, quoted
from headrace.sources.connectors.mysql.position import Place

ROWS = 50_000  # read and converted at a time
LOCK_WAIT_S = 10  # so long writers may be held up by a lock that waits for others
_ALTERED = (1412, 1146, 1054)  # the table, or its columns, are not those that it had when the snapshot was opened


class _Stopped(Exception):
    """The snapshot was given up."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that sees what was committed before ``place``, whose GTIDs are ``gtid``, and no more."""

    connection: Any
    place: Place
    gtid: str

    def close(self) -> None:
        with suppress(MySQLError, OSError):
            self.connection._force_close()  # unread rows of a copy that ends early are not waited for


def opened(arguments: Mapping[str, Any], where: str) -> Opened:
    """A session with a consistent snapshot and the place of the log that belongs to it.

    MariaDB tells the place together with the snapshot. MySQL does not: there all writers wait for the moment between.
    """
    # Every value as the bytes that the server sends; its text form is what ``columns.from_text`` reads.
    written = {kind: encoder for kind, encoder in conversions.items() if not isinstance(kind, int)}
    connection = setup.connect(arguments, where, conv=written, use_unicode=False, cursorclass=SSCursor)
    try:
        setup.rows(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if setup.is_mariadb(connection):
            return _of_mariadb(connection)
        return _behind_a_lock(connection)
    except BaseException:
        connection.close()
        raise


def _of_mariadb(connection: Any) -> Opened:
    setup.rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    found = dict(setup.rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
    place = Place.of(found[b"Binlog_snapshot_file"].decode(), int(found[b"Binlog_snapshot_position"]))
    return Opened(connection, place, setup.gtids_at(connection, place))


def _behind_a_lock(connection: Any) -> Opened:
    setup.rows(connection, f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
    setup.rows(connection, "FLUSH TABLES WITH READ LOCK")
    try:
        setup.rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        place = setup.log_end(connection)
        gtids = setup.gtids_at(connection, place) if setup.is_mariadb(connection) else setup.gtids_executed(connection)
    finally:
        setup.rows(connection, "UNLOCK TABLES")
    setup.rows(connection, "SET SESSION lock_wait_timeout = DEFAULT")  # the copy itself holds up nobody
    return Opened(connection, place, gtids)


class Snapshot:
    """Copies ``tables``, as they were found after ``start`` was opened, as of ``start``.

    Starts at once. ``result`` is there when ``done``. The rows are kept in memory as Arrow.
    """

    def __init__(self, tables: Sequence[SourceTable], start: Opened, where: str) -> None:
        self.tables = tuple(tables)
        self._opened, self._where = start, where
        self.point, self.gtid = start.place, start.gtid
        self._stop = threading.Event()
        self._contents: dict[str, pa.Table] = {}
        self._error: Exception | None = None
        self.copying: Copying | None = None  # the table at hand
        self._thread = threading.Thread(target=self._run, name=f"snapshot {where}", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after at most so many seconds."""
        self._thread.join(seconds)
        return self.done

    def result(self) -> dict[str, pa.Table]:
        """Contents by relation name, once done. Raises what went wrong, as ``HeadraceError``."""
        if isinstance(self._error, MySQLError) and setup.number(self._error) in _ALTERED:
            raise HeadraceError(
                "source.connect",
                "a table was altered while it was copied",
                where=self._where,
                why=str(self._error.args[-1]),
                next="nothing: the copy begins again",
            )
        if isinstance(self._error, (MySQLError, OSError)):
            raise setup.failure(self._error, self._where) from self._error
        if self._error is not None:
            raise self._error
        return self._contents

    def stop(self) -> None:
        """Give it up; returns when its connection is closed."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._contents = {table.relation.name: self._copy(table) for table in self.tables}
        except Exception as error:
            self._error = error
        finally:
            self.copying = None
            self._opened.close()

    def _copy(self, table: SourceTable) -> pa.Table:
        there = [column for column in table.columns if column.column_type]
        chosen = ", ".join(columns.selected(column, quoted(column.name)) for column in there) or "1"
        pieces = []
        pace = Pace(self._estimated(table))
        self.copying = Copying(table.relation.name, pace)
        with self._opened.connection.cursor() as cursor:
            cursor.execute(f"SELECT {chosen} FROM {table.quoted}")  # noqa: S608 - quoted names
            while rows := cursor.fetchmany(ROWS):
                pieces.append(self._parse(rows, table))
                pace.done += len(rows)
                if self._stop.is_set():
                    raise _Stopped
        schema = arrow_types.schema(table.relation.columns)
        return pa.concat_tables(pieces) if pieces else schema.empty_table()

    def _estimated(self, table: SourceTable) -> int | None:
        """The rows that the optimizer takes the table to have: what information_schema tells may be a day old."""
        with self._opened.connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN SELECT 1 FROM {table.quoted}")  # noqa: S608 - quoted names
            rows = [name for name, *_ in cursor.description].index("rows")
            found = cursor.fetchall()
        return int(found[0][rows]) if found and found[0][rows] is not None else None

    def _parse(self, rows: Sequence[tuple[bytes | None, ...]], table: SourceTable) -> pa.Table:
        """Rows as the server printed them -> the relation's columns."""
        texts = iter(zip(*rows, strict=True))
        arrays = []
        for column, announced in zip(table.columns, table.relation.columns, strict=True):
            if not column.column_type:
                arrays.append(pa.nulls(len(rows), arrow_types.to_arrow(announced.type)))
                continue
            try:
                arrays.append(columns.from_text(pa.array(next(texts), pa.binary()), column, announced.type))
            except values.UnfitValue as error:
                raise HeadraceError(
                    "source.row",
                    f"table {table.relation.name}: column {column.name}: the value {error.text!r} cannot be carried",
                    where=f"{self.point}, in the first copy of the table",
                    why=error.why,
                    next="correct the row, or " + values.remedy(table.relation.name, column.name),
                ) from error
        return pa.Table.from_arrays(arrays, schema=arrow_types.schema(table.relation.columns))
