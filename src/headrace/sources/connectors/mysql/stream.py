"""The binary log as a replica gets it: events read in a thread of its own, grouped into whole transactions."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.err import MySQLError
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication import event as events
from pymysqlreplication.constants import BINLOG
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import (
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    RowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.mysql import changes, setup, statements
from headrace.sources.connectors.mysql.images import Field
from headrace.sources.connectors.mysql.position import START, Place
from headrace.sources.connectors.mysql.statements import Does, Statement

logging.getLogger("pymysqlreplication").setLevel(logging.CRITICAL)  # it warns of what we end or tell ourselves

# One read ends at the first commit after any of these; a transaction is never cut.
BYTES_MAX = 32 << 20
TRANSACTIONS_MAX = 5_000
AHEAD_BYTES_MAX = 96 << 20  # whole transactions that wait to be polled
HEARTBEATS_MISSED = 3
LOST_NUMBER = 1236  # the server cannot send the log from there, or not to us any more

_STANDALONE, _PREPARED_XA = 1, 64  # flags of MariaDB's GTID events
_IGNORABLE = 0x80
_HARMLESS = frozenset(
    {BINLOG.ANONYMOUS_GTID_LOG_EVENT, BINLOG.IGNORABLE_LOG_EVENT, BINLOG.PREVIOUS_GTIDS_LOG_EVENT, 0x2A}
)  # the last: a tagged GTID
# With it MySQL's files begin. It is heard for its end alone: the library cannot read it where GTIDs have tags.
BinLogPacketWrapper._BinLogPacketWrapper__event_map[BINLOG.PREVIOUS_GTIDS_LOG_EVENT] = events.NotImplementedEvent
_INSIDE = (events.HeartbeatLogEvent, events.GtidEvent)  # where they end nobody can go on
_KINDS = ((WriteRowsEvent, changes.WRITE), (UpdateRowsEvent, changes.UPDATE), (DeleteRowsEvent, changes.DELETE))
_EVENTS = (
    events.ExecuteLoadQueryEvent,
    events.FormatDescriptionEvent,
    events.GtidEvent,
    events.HeartbeatLogEvent,
    events.MariadbBinLogCheckPointEvent,
    events.MariadbGtidEvent,
    events.MariadbGtidListEvent,
    events.NotImplementedEvent,
    events.QueryEvent,
    events.RotateEvent,
    events.StopEvent,
    events.XAPrepareEvent,
    events.XidEvent,
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)


@dataclass(slots=True)
class Transaction:
    """What one transaction did, in order. ``end``: where a reader that has it resumes."""

    gtid: str = ""
    rows: list[changes.Rows] = field(default_factory=list)
    altered: list[Statement] = field(default_factory=list)
    size: int = 0
    end: Place = START
    committed_us: int = 0


class Followed:
    """The names of the tables whose rows are read, grown and shrunk while the stream runs."""

    def __init__(self) -> None:
        self.databases: set[str] = set()
        self.tables: set[str] = set()

    def set(self, places: Collection[tuple[str, str]]) -> None:
        self.databases.update(database for database, _ in places)
        self.tables.update(table for _, table in places)


class BinlogStream:
    """One replica's connection.

    ``reached``: all that is before this place has been handed out by ``read``.
    """

    def __init__(self, arguments: Mapping[str, Any], server_id: int, heartbeat_s: float, where: str) -> None:
        self._arguments, self._server_id, self._where = dict(arguments), server_id, where
        self._heartbeat_s = heartbeat_s
        self._reader: BinLogStreamReader | None = None
        self._connections: list[Any] = []
        self._changed = threading.Condition()
        self._whole: deque[Transaction] = deque()  # this and the next five: under _changed
        self._whole_bytes = 0
        self._heard = START  # the end of all that was read, when no transaction is open
        self._error: HeadraceError | None = None
        self._closing = False
        self._thread: threading.Thread | None = None
        self._open: Transaction | None = None  # this and the next: of the thread
        self._gtid, self._standalone = "", False
        self._file = ""
        self._fields: dict[int, tuple[Field, ...]] = {}
        self.followed = Followed()
        self.reached = START
        self.last_heard = time.monotonic()
        self.stop_at: Place | None = None  # a read ends before the first transaction that ends after this place

    def start(self, place: Place) -> None:
        """Stream every transaction that ends after ``place``. Raises ``HeadraceError`` source.connect and others."""
        self.reached = self._heard = place
        self._file = place.file
        timeout = max(30.0, HEARTBEATS_MISSED * self._heartbeat_s)
        self._reader = BinLogStreamReader(
            {**self._arguments, "read_timeout": timeout},
            server_id=self._server_id,
            # With blocking=False the library starts again from the first place when the log ends.
            blocking=True,
            slave_heartbeat=self._heartbeat_s,
            resume_stream=True,
            log_file=place.file,
            log_pos=place.offset,
            freeze_schema=True,  # a table is described once for its number, and has another one when it was altered
            only_events=_EVENTS,
            filter_non_implemented_events=False,
            only_schemas=self.followed.databases,
            only_tables=self.followed.tables,
            pymysql_wrapper=self._connect_once,
            enable_logging=False,
        )
        self._thread = threading.Thread(target=self._run, name=f"binlog {self._where}", daemon=True)
        self._thread.start()

    def read(self, wait_s: float) -> list[Transaction]:
        """Whole transactions that are here; waits up to ``wait_s`` for the first. Empty when none came.

        Ends after a transaction that altered something. Raises ``HeadraceError`` source.connect when the connection is
        lost, source.setup for what cannot be read; all before it was handed out then.
        """
        found: list[Transaction] = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._whole or self._error, wait_s)
            while self._whole and size < BYTES_MAX and len(found) < TRANSACTIONS_MAX:
                if self.stop_at is not None and self._whole[0].end > self.stop_at:
                    self.reached = max(self.reached, self.stop_at)
                    break
                found.append(self._whole.popleft())
                size += found[-1].size
                self.reached = found[-1].end
                if found[-1].altered:
                    break
            self._whole_bytes -= size
            if not self._whole:
                self.reached = max(self.reached, self._heard)
            self._changed.notify_all()
            if not found and not self._whole and self._error is not None:
                raise self._error
        return found

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for connection in self._connections:
            with suppress(OSError, AttributeError):
                connection._sock.shutdown(socket.SHUT_RDWR)  # ends the thread's wait
        if self._thread is not None:
            self._thread.join()
        for connection in self._connections:
            with suppress(MySQLError, OSError):
                connection._force_close()

    # --- in the thread ----------------------------------------------------------------------------------------------

    def _connect_once(self, **arguments: Any) -> Any:
        """The library's connections: one for the log and one for questions. It must not make the former again.

        By itself it would go on from the event it saw last, in the middle of a transaction.
        """
        if self._closing or len(self._connections) >= 2:
            raise self._lost("the server closed it")
        connection = pymysql.connect(**arguments)
        self._connections.append(connection)
        return connection

    def _run(self) -> None:
        try:
            while not self._closing:
                event = self._reader.fetchone()  # type: ignore[union-attr]
                if event is None:
                    raise self._lost("the server ended the stream")
                self.last_heard = time.monotonic()
                self._take(event)
        except Exception as error:
            with self._changed:
                self._error = self._told(error)
                self._changed.notify_all()

    def _told(self, error: Exception) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error
        if isinstance(error, (MySQLError, OSError)):
            if setup.number(error) == LOST_NUMBER:
                return self._lost(str(error.args[-1]))
            return setup.failure(error, self._where)
        return HeadraceError(
            "source.setup",
            "the binary log cannot be read",
            where=f"{self._where}, {self._heard}",
            why=f"{type(error).__name__}: {error}",
            next="nothing before it is lost; tell the maintainers, and leave out the table that was changed there",
        )

    def _take(self, event: Any) -> None:
        if isinstance(event, events.RotateEvent):
            if event.next_binlog != self._file:  # the server may have restarted, and numbers of tables begun anew
                self._fields.clear()
                self._reader.table_map.clear()  # type: ignore[union-attr]
            self._file = event.next_binlog
            self._hear(Place.of(self._file, event.position))
            return
        if isinstance(event, TableMapEvent):
            self._describe(event)
        elif isinstance(event, RowsEvent):
            self._rows(event)
        elif isinstance(event, events.QueryEvent):
            self._query(event)
        elif isinstance(event, events.XidEvent):
            self._finish(event)
        elif isinstance(event, events.MariadbGtidEvent):
            self._standalone = bool(event.flags & _STANDALONE)
            self._gtid, self._open = event.gtid, Transaction(event.gtid)
        elif isinstance(event, events.GtidEvent):
            self._gtid = event.gtid
        elif isinstance(event, events.XAPrepareEvent):
            self._prepare(event)
        elif isinstance(event, events.ExecuteLoadQueryEvent):
            what = "rows were loaded into a table by a statement (LOAD DATA)"
            raise self._unreadable(event, what, "a session has a binlog_format other than ROW")
        elif isinstance(event, events.NotImplementedEvent):
            self._unknown(event)
        if self._open is None and event.packet.log_pos and not isinstance(event, _INSIDE):
            self._hear(Place.of(self._file, event.packet.log_pos))

    def _describe(self, event: TableMapEvent) -> None:
        names = event.optional_metadata.column_name_list
        for number, column in enumerate(event.columns):
            column.name = names[number] if names else ""
        self._fields[event.table_id] = tuple(Field.of(column) for column in event.columns)

    def _rows(self, event: RowsEvent) -> None:
        kind = next((kind for cls, kind in _KINDS if type(event) is cls), None)
        bitmaps = [getattr(event, name, None) for name in ("columns_present_bitmap", "columns_present_bitmap2")]
        fields = self._fields[event.table_id]
        if kind is None or any(bits is not None and not _complete(bits, len(fields)) for bits in bitmaps):
            raise HeadraceError(
                "source.setup",
                f"table {event.table}: a row came without all of its columns",
                where=f"{self._where}, {Place.of(self._file, event.packet.log_pos)}",
                why="a session has another binlog_row_image, or binlog_row_value_options, than the server should have",
                next="SET GLOBAL binlog_row_image = FULL, end the sessions that are connected, then `headrace drop "
                "--source` with the source's name and `headrace up`: its tables are copied anew",
            )
        body = event.packet.read(event.event_size - event.packet.read_bytes)
        if self._open is None:
            self._open = Transaction(self._gtid)
        self._open.rows.append(changes.Rows((event.schema, event.table), kind, fields, bytes(body)))
        self._open.size += len(body)

    def _query(self, event: events.QueryEvent) -> None:
        database = event.schema.decode() if isinstance(event.schema, bytes) else event.schema
        statement = statements.parse(event.query, database)
        does = statement.does
        if does is Does.BEGINS:
            self._open, self._standalone = self._open or Transaction(self._gtid), False
        elif does is Does.COMMITS:
            self._finish(event)
        elif does is Does.ROLLS_BACK:
            self._rolled_back(event)
        elif does is Does.XA:
            self._finish(event)  # what was prepared with rows of ours has stopped the source by then
        else:
            if self._open is None:
                self._open, self._standalone = Transaction(self._gtid), True
            if does is Does.EMPTIES:
                self._open.rows += [changes.Rows(place, changes.EMPTY) for place in statement.tables]
            elif statement.tables or does is Does.WRITES:
                self._open.altered.append(statement)
            if self._standalone:
                self._finish(event)

    def _rolled_back(self, event: events.QueryEvent) -> None:
        if self._open is not None and self._open.rows:
            raise self._unreadable(
                event,
                "a transaction was rolled back after it had changed a table that has no transactions",
                "which of its changes stay cannot be told",
            )
        if not event.query.upper().lstrip().startswith("ROLLBACK TO"):
            self._finish(event)

    def _prepare(self, event: events.XAPrepareEvent) -> None:
        if not event.one_phase and self._open is not None and self._open.rows:
            what = "a followed table was changed in a distributed transaction (XA PREPARE)"
            raise self._unreadable(event, what, "whether it commits is not known by then")
        self._finish(event)

    def _unreadable(self, event: Any, what: str, why: str) -> HeadraceError:
        return HeadraceError(
            "source.setup",
            what,
            where=f"{self._where}, {Place.of(self._file, event.packet.log_pos)}",
            why=why,
            next="`headrace drop --source` with the source's name, then `headrace up`: its tables are copied anew",
        )

    def _unknown(self, event: events.NotImplementedEvent) -> None:
        kind = event.event_type
        if kind in _HARMLESS or event.packet.flags & _IGNORABLE:
            return
        why = {
            0x1A: "the server says that changes are missing in its log (an incident event)",
            0x28: "binlog_transaction_compression is on",
            0xA5: "log_bin_compress is on",
            **dict.fromkeys(range(0xA6, 0xAC), "log_bin_compress is on"),
        }.get(kind, f"events of type {kind} are not known")
        if kind == BINLOG.INTVAR_EVENT:
            return  # belongs to a statement, which is looked at itself
        raise self._unreadable(event, "the binary log holds what cannot be read", why)

    def _finish(self, event: Any) -> None:
        done, self._open = self._open or Transaction(self._gtid), None
        self._gtid, self._standalone = "", False
        done.end = Place.of(self._file, event.packet.log_pos)
        done.committed_us = event.timestamp * 1_000_000
        with self._changed:
            self._whole.append(done)
            self._whole_bytes += done.size
            self._heard = done.end
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._whole_bytes < AHEAD_BYTES_MAX or self._closing)

    def _hear(self, place: Place) -> None:
        with self._changed:
            self._heard = max(self._heard, place)
            self._changed.notify_all()

    def _lost(self, why: str) -> HeadraceError:
        return HeadraceError(
            "source.connect",
            "the replication connection was lost",
            where=self._where,
            why=why,
            next="nothing is lost: the source goes on from its position once the server is back",
        )


def _complete(bitmap: bytes, columns: int) -> bool:
    return int.from_bytes(bitmap, "little") & ((1 << columns) - 1) == (1 << columns) - 1
