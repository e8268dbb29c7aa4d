"""The replication connection: slots, the stream of messages grouped into whole transactions, and feedback."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import pq, sql

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.postgres import pgoutput, setup, wire
from headrace.sources.connectors.postgres.changes import HEADER
from headrace.sources.connectors.postgres.pgoutput import RelationMessage
from headrace.sources.connectors.postgres.streamed import OnDisk, Streamed, Streaming

# One read ends at the first commit after any of these; a transaction is never cut.
ROWS_MAX = 200_000
TRANSACTIONS_MAX = 5_000
DRAIN_SECONDS_MAX = 0.2

STATUS_SECONDS = 5.0  # how often the server hears from us when nothing changed; its own limit is 60
FLUSH_SECONDS = 0.1  # how soon it hears of a new confirmed position
ASK_SECONDS = 0.2  # how often the server is asked how far it is, while somebody waits for that
SLOT_TIMEOUT = "60s"  # making a slot waits for every transaction that is open at that moment
_LOOK_EVERY = 2048  # messages between two looks at the clock

_LSN = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_XLOG_DATA, _KEEPALIVE = b"wk"
_STREAM = (pgoutput.STREAM_START, pgoutput.STREAM_STOP, pgoutput.STREAM_COMMIT, pgoutput.STREAM_ABORT)
_ROWS = (pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE)


def lsn_text(lsn: int) -> str:
    """PostgreSQL's spelling of a log position: ``16/B374D848``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_given(text: str) -> int:
    """An LSN as a user gives it. Raises ``HeadraceError``: wait.token."""
    if not _LSN.fullmatch(text.strip()):
        raise HeadraceError(
            "wait.token", f"'{text}' is no LSN", next="an LSN is what pg_current_wal_lsn() prints: 16/B374D848"
        )
    return lsn_number(text.strip())


@dataclass(slots=True)
class Received:
    """Whole transactions in commit order: their row messages end to end, and per transaction how many there are.

    One whose messages are on disk is alone.
    """

    messages: Sequence[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    final_lsns: list[int] = field(default_factory=list)
    end_lsns: list[int] = field(default_factory=list)
    committed_us: list[int] = field(default_factory=list)
    described: list[tuple[int, RelationMessage]] = field(default_factory=list)  # before which message it came


class ReplicationStream:
    """One session of PostgreSQL's replication protocol, reading pgoutput from one slot.

    ``reached``: every transaction whose commit record starts before this LSN has been read, at least its Begin.
    """

    def __init__(self, conninfo: str, where: str, streaming: Streaming | None = None) -> None:
        self._where, self._streaming = where, streaming or Streaming(False, Path())
        self._connection = setup.connect(conninfo, where, replication="database")
        self._pgconn = self._connection.pgconn
        self._whole = Received()
        self._rows: list[bytes] = []  # of the open transaction
        self._described: list[tuple[int, RelationMessage]] = []
        self._begin: pgoutput.Begin | None = None
        self._open: dict[int, Streamed] = {}  # sent in part
        self._block: Streamed | None = None  # the one of them that comes now
        self._ending: tuple[OnDisk, list[tuple[int, RelationMessage]], int] | None = None  # has committed; its end LSN
        self._flushed = self._reported = 0
        self._last_status = self._asked = 0.0
        self.reached = 0
        self.last_heard = time.monotonic()
        self.stop_at: int | None = None  # a read ends before the first transaction at or after this LSN

    @property
    def inside_transaction(self) -> bool:
        return self._begin is not None

    def create_slot(self, name: str, *, temporary: bool = False, go_on: wire.GoOn = lambda: None) -> tuple[int, str]:
        """Make a slot: (its consistent point, the name of the snapshot there).

        The snapshot can be imported until this session's next command. Waits for transactions that are open now.
        Raises ``HeadraceError`` source.setup, source.rights.
        """
        kind = sql.SQL("TEMPORARY LOGICAL" if temporary else "LOGICAL")
        text = sql.SQL("CREATE_REPLICATION_SLOT {} {} pgoutput EXPORT_SNAPSHOT").format(sql.Identifier(name), kind)
        try:
            wire.command(self._connection, f"SET lock_timeout = '{SLOT_TIMEOUT}'".encode())
            result = wire.command(self._connection, text.as_bytes(self._connection), go_on)
        except psycopg.errors.LockNotAvailable as error:
            raise HeadraceError(
                "source.setup",
                f"no consistent point was reached within {SLOT_TIMEOUT}",
                where=self._where,
                why="a transaction has stayed open all the while, and the first copy of a table must wait for it",
                next="find it with: SELECT pid, usename, xact_start, query FROM pg_stat_activity "
                "WHERE backend_xid IS NOT NULL ORDER BY xact_start; end it and start again",
            ) from error
        except psycopg.Error as error:
            raise setup.failure(error, self._where) from error
        point, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        return lsn_number((point or b"").decode()), (snapshot or b"").decode()

    def server(self) -> str:
        """``SYSTEM/TIMELINE``: which server this is, and how often another one has taken over."""
        result = self._ask("IDENTIFY_SYSTEM")
        return "/".join((result.get_value(0, column) or b"").decode() for column in (0, 1))

    def timeline_ends(self, timeline: int) -> dict[int, int]:
        """Of each timeline that ``timeline`` came from: the LSN at which it was left."""
        content = (self._ask(f"TIMELINE_HISTORY {timeline}").get_value(0, 1) or b"").decode()
        lines = (line.split() for line in content.splitlines() if line and not line.startswith("#"))
        return {int(fields[0]): lsn_number(fields[1]) for fields in lines if fields}

    def _ask(self, text: str) -> pq.abc.PGresult:
        try:
            return wire.command(self._connection, text.encode())
        except psycopg.Error as error:
            raise setup.failure(error, self._where) from error

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Stream every transaction whose commit record starts at ``lsn`` or later."""
        name = sql.Identifier(publication).as_string(self._connection)
        text = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} ({}, publication_names {})").format(
            sql.Identifier(slot),
            sql.SQL(lsn_text(lsn)),
            sql.SQL(self._streaming.protocol(self._connection.info.server_version)),
            sql.Literal(name),
        )
        try:
            wire.command(self._connection, text.as_bytes(self._connection))
        except psycopg.Error as error:
            raise setup.failure(error, self._where) from error
        self.reached = self._flushed = lsn
        self.last_heard = time.monotonic()

    def read(self, wait_s: float) -> Received:
        """Whole transactions that are here; waits up to ``wait_s`` for the first. Empty when none came.

        Raises ``HeadraceError`` source.connect when the connection is lost.
        """
        give_up = time.monotonic() + wait_s
        full_at: float | None = None
        while not self._full(full_at):
            more = self._take_messages()
            now = time.monotonic()
            self._report(now)
            if self._whole.counts:
                if not more:
                    break
                full_at = full_at or now + DRAIN_SECONDS_MAX
            elif now >= give_up:
                break
            elif not more:
                self._wait(min(give_up - now, wire.TICK_SECONDS))
        whole, self._whole = self._whole, Received()
        return whole

    def feedback(self, flush_lsn: int) -> None:
        """The log holds everything before ``flush_lsn``: the server may forget it."""
        self._flushed = max(self._flushed, flush_lsn)
        self._report(time.monotonic())

    def ask(self) -> None:
        """Have the server say how far it has sent; the answer moves ``reached`` in a later read."""
        if time.monotonic() - self._asked >= ASK_SECONDS:
            self._asked = time.monotonic()
            self._send_status(self._asked, reply=True)

    def cancel(self) -> None:
        """End a command under way at the server, which would go on without us."""
        self._connection.cancel_safe(timeout=2.0)

    def close(self) -> None:
        self._open.clear()
        self._block = self._ending = None
        if not self._connection.closed:
            if self._flushed > self._reported:
                with suppress(HeadraceError):  # a lost connection: the server resends, the position skips
                    self._send_status(time.monotonic())
            self._connection.close()

    def _full(self, full_at: float | None) -> bool:
        whole = self._whole
        if not whole.counts:
            return False
        if self._ending is not None or isinstance(whole.messages, OnDisk):
            return True
        at_limit = len(whole.messages) >= ROWS_MAX or len(whole.counts) >= TRANSACTIONS_MAX
        at_point = self._begin is not None and self.stop_at is not None and self._begin.final_lsn >= self.stop_at
        return at_limit or at_point or (full_at is not None and time.monotonic() >= full_at)

    def _take_messages(self) -> bool:
        """Take in messages that are here; False when there are none left, True after a commit or after many."""
        if self._ending is not None:
            self._end_streamed(*self._ending)
            return True
        get = self._pgconn.get_copy_data
        rows, block = self._rows, self._block
        consumed = False
        for _ in range(_LOOK_EVERY):
            try:
                size, view = get(1)
            except psycopg.Error as error:
                raise setup.failure(error, self._where) from error
            if size > 0:
                message = bytes(view)  # bytes are nothing to the garbage collector; a million views cost 1.5 s
                if message[0] == _XLOG_DATA:
                    if message[HEADER] in _ROWS:
                        if block is None:
                            rows.append(message)
                        else:
                            block.add(message)
                    elif self._control(message):
                        return True
                    else:
                        block = self._block
                elif message[0] == _KEEPALIVE:
                    self._keepalive(message)
            elif size == 0:
                if consumed:
                    return False
                self._consume()
                consumed = True
            else:
                raise self._ended()
        self.last_heard = time.monotonic()
        return True

    def _control(self, message: bytes) -> bool:
        """Take in a message that is no row; true when a caller should look whether the read is full."""
        kind = message[HEADER]
        if kind in _STREAM:
            return self._stream(kind, message)
        if self._block is not None:
            self._block_control(self._block, kind, message)
            return False
        if kind == pgoutput.BEGIN:
            self._begin = pgoutput.begin(message, HEADER)
            self.reached = max(self.reached, self._begin.final_lsn)
            return self.stop_at is not None
        if kind == pgoutput.COMMIT:
            self._commit(pgoutput.commit(message, HEADER).end_lsn)
            return True
        if kind == pgoutput.RELATION:
            self._described.append((len(self._rows), pgoutput.relation(message, HEADER)))
        elif kind == pgoutput.TRUNCATE:
            self._rows += [pgoutput.truncate_row(oid, HEADER) for oid in pgoutput.truncated(message, HEADER)]
        return False

    def _commit(self, end_lsn: int) -> None:
        begin, self._begin = self._begin, None
        if begin is None:
            raise HeadraceError("internal", "a Commit came without its Begin", where=f"LSN {lsn_text(end_lsn)}")
        whole, messages = self._whole, self._whole.messages
        assert isinstance(messages, list)
        whole.described += [(len(messages) + at, message) for at, message in self._described]
        messages += self._rows
        whole.counts.append(len(self._rows))
        whole.final_lsns.append(begin.final_lsn)
        whole.end_lsns.append(end_lsn)
        whole.committed_us.append(begin.committed_us)
        self._rows.clear()
        self._described.clear()
        self.reached = max(self.reached, end_lsn)
        self.last_heard = time.monotonic()

    def _stream(self, kind: int, message: bytes) -> bool:
        """Take in where a part of a transaction begins or ends, or what has become of it. As ``_control``."""
        if kind == pgoutput.STREAM_START:
            xid, first = pgoutput.stream_start(message, HEADER)
            if first:
                self._open[xid] = Streamed(self._streaming.folder, HEADER)
            self._block = self._open[xid]
        elif kind == pgoutput.STREAM_STOP:
            self._block = None
        elif kind == pgoutput.STREAM_ABORT:
            xid, subtransaction = pgoutput.stream_abort(message, HEADER)
            if xid == subtransaction:
                self._open.pop(xid, None)
            elif xid in self._open:
                self._open[xid].abort(subtransaction)
        else:
            xid, self._begin, commit = pgoutput.stream_commit(message, HEADER)
            self.reached = max(self.reached, self._begin.final_lsn)
            streamed = self._open.pop(xid)
            try:
                undone = self._streaming.undone(streamed.subtransactions(xid))
            except psycopg.Error as error:
                raise setup.failure(error, self._where) from error
            except LookupError as error:
                raise self._lost(str(error)) from error
            for subtransaction in undone:
                streamed.abort(subtransaction)
            self._ending = (*streamed.committed(), commit.end_lsn)
            return True
        return False

    def _block_control(self, block: Streamed, kind: int, message: bytes) -> None:
        """Take in a message that is no row, within a part of a transaction."""
        xid, at = block.xid(message), HEADER + 4
        if kind == pgoutput.RELATION:
            block.describe(xid, pgoutput.relation(message, at))
        elif kind == pgoutput.TRUNCATE:
            for oid in pgoutput.truncated(message, at):
                block.put(xid, pgoutput.truncate_row(oid, HEADER))

    def _end_streamed(self, messages: OnDisk, described: list[tuple[int, RelationMessage]], end_lsn: int) -> None:
        self._commit(end_lsn)
        self._whole.messages, self._whole.described, self._whole.counts = messages, described, [len(messages)]
        self._ending = None

    def _keepalive(self, message: bytes) -> None:
        """The server has sent all that was committed before ``wal_end``; it may ask for an answer at once."""
        wal_end, _, reply = struct.unpack_from(">QqB", message, 1)
        if self._begin is None:
            self.reached = max(self.reached, wal_end)
        if reply:
            self._send_status(time.monotonic())

    def _report(self, now: float) -> None:
        due = FLUSH_SECONDS if self._flushed > self._reported else STATUS_SECONDS
        if now - self._last_status >= due:
            self._send_status(now)

    def _send_status(self, now: float, *, reply: bool = False) -> None:
        clock = time.time_ns() // 1000 - pgoutput.EPOCH_US
        written = max(self.reached, self._flushed)
        status = struct.pack(">cQQQqB", b"r", written, self._flushed, self._flushed, clock, reply)
        try:
            self._pgconn.put_copy_data(status)
            self._pgconn.flush()
        except psycopg.Error as error:
            raise setup.failure(error, self._where) from error
        self._reported, self._last_status = self._flushed, now

    def _consume(self) -> None:
        try:
            self._pgconn.consume_input()
        except psycopg.Error as error:
            raise self._lost(str(error).strip()) from error

    def _wait(self, seconds: float) -> None:
        wire.wait_readable(self._pgconn, seconds)

    def _ended(self) -> HeadraceError:
        """The server ended the stream, or the session."""
        result = self._pgconn.get_result()
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            return self._lost("the server ended the stream")
        error = psycopg.errors.error_from_result(result)
        self._streaming.ended(error)
        return self._lost(f"the server ended the stream: {str(error).strip()}")

    def _lost(self, why: str) -> HeadraceError:
        return HeadraceError(
            "source.connect",
            "the replication connection was lost",
            where=self._where,
            why=why,
            next="nothing is lost: the source goes on from its position once the server is back",
        )
