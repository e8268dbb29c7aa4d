"""The MySQL and MariaDB source: first copy and stream of the followed tables, joined without gap or overlap."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.formats import options as option_checks
from headrace.model.errors import HeadraceError
from headrace.model.finding import Finding
from headrace.model.pace import Copying
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sources import change_tables
from headrace.sources.altered import Loss
from headrace.sources.base import Source
from headrace.sources.connectors.mysql import (
    altered,
    announce,
    changes,
    gtids,
    introspect,
    loading,
    position,
    setup,
    snapshot,
    watch,
)
from headrace.sources.connectors.mysql.altered import Altered
from headrace.sources.connectors.mysql.charsets import Charsets
from headrace.sources.connectors.mysql.config import MysqlOptions
from headrace.sources.connectors.mysql.examine import examine
from headrace.sources.connectors.mysql.introspect import SourceTable
from headrace.sources.connectors.mysql.loading import Loading
from headrace.sources.connectors.mysql.position import START, Place
from headrace.sources.connectors.mysql.snapshot import Snapshot
from headrace.sources.connectors.mysql.statements import Does, Statement
from headrace.sources.connectors.mysql.stream import BinlogStream, Transaction

_TICK_SECONDS = 0.05  # how often a wait for the first copy looks up
Table = tuple[str, str]  # (database, table)


class MysqlSource(Source):
    """Follows tables of one MySQL or MariaDB server through its row-based binary log. It makes nothing there."""

    copies = True

    def __init__(
        self, name: str, options: Mapping[str, Any], where: str = "", project: str = "", base: Path = Path()
    ) -> None:
        """``project``: what tells the project from all others; ``base``: its folder. Connects to nothing.

        Raises ``HeadraceError`` config.unknown_key, config.invalid.
        """
        self.name = name
        self._options = option_checks.validate(MysqlOptions, options, where)
        self.named = self._options.tables
        self._where = where or f"source {name}"
        self._file, self._base = where, base
        self._reader_id = self._options.reader_id(name, project)
        self._side: Any = None  # a connection for everything but the stream
        self._stream: BinlogStream | None = None
        self._announced: dict[str, Relation] = {}  # what the engine was told last, and goes by
        self._altered = Altered(self._say_altered)
        self._decoder = changes.Decoder(Charsets(self._connect_side), self._where)
        self._reset()

    def _reset(self) -> None:
        self._followed: dict[Table, SourceTable] = {}
        self._loading: list[Loading] = []
        self._start_at: Place | None = None  # where the stream begins once the first copy is delivered
        self._gtid = ""  # after all that was read
        self._server = ""
        self._names_written = True
        self._refused: HeadraceError | None = None
        self._untold = False  # whether the log may not know what tables have lost
        self._recorded: frozenset[str] = frozenset()  # the relations that the log holds by the position
        self._there = START  # the end of the server's log when we started
        self._logged = START  # the last position that was handed out, and so is in the log by the next poll

    # --- what there is ----------------------------------------------------------------------------------------------

    def relations(self) -> tuple[Relation, ...]:
        """Tables that are followed are as they were when that began, less the columns that are gone since."""
        with setup.told(self._where), setup.connect(self._arguments(), self._where) as connection:
            found = introspect.tables(connection, self._options)
        followed = {table.relation.name for table in self._all()}
        for name, table in found.items():
            if name not in followed:
                self._announced[name] = table.relation
        return tuple(self._altered.left(self._announced[name]) for name in found)

    def altered(self) -> bool:
        return bool(self._altered)

    def warnings(self, tables: frozenset[str]) -> tuple[str, ...]:
        """What following these tables means for the database and its users; one sentence or two each."""
        with setup.told(self._where), setup.connect(self._arguments(), self._where) as connection:
            chosen = introspect.choose(introspect.tables(connection, self._options), tables, self._where)
            for table in chosen:
                announce.check_readable(table, self._options.cascades, self._where)
            found = [text for table in chosen for text in announce.warnings(table)]
            found += setup.lacking(connection, chosen, self._where)
        return tuple(found)

    def examine(self, wanted: Callable[[str], bool]) -> Iterator[Finding]:
        return examine(self._options, self._arguments(), self._reader_id, self._where, wanted)

    # --- start and stop ---------------------------------------------------------------------------------------------

    def start(self, tables: frozenset[str], position: str | None) -> None:
        """See ``Source.start``. Raises ``HeadraceError`` source.connect, .auth, .setup, .rights, .no_table."""
        self.close()
        self._reset()
        try:
            with setup.told(self._where):
                self._start(tables, position)
        except Exception:
            self.close()
            raise

    def _start(self, tables: frozenset[str], position_text: str | None) -> None:
        side = self._connect_side()
        chosen = self._choose(side, tables)
        setup.check_server(side, {table.database for table in chosen}, self._where)
        self._server = setup.server(side)
        self._names_written = setup.names_are_written(side)
        self._there = setup.log_end(side)
        self._stream = BinlogStream(self._arguments(), self._reader_id, self._options.heartbeat_seconds, self._where)
        if position_text is None:
            self._start_anew(tables)
            return
        at = position.parse(position_text)
        self._recorded = at.tables
        if why := watch.why_lost(side, at, self._server):
            self._say("source.copied_anew", watch.may_be_lost(at), why, tables=sorted(tables))
            self._start_anew(tables)
            return
        known = [table for table in chosen if self._goes_on(table, at.forms)]
        self._follow(known)
        self._gtid, self._untold, self._logged = at.gtid, True, at.place
        self._running().start(at.place)
        self.add(tables - {table.relation.name for table in known})

    def _goes_on(self, table: SourceTable, before: Mapping[str, str]) -> bool:
        """Whether all that has happened to the table since its form ``before`` is in the stream."""
        name = table.relation.name
        if name not in before:
            return False
        if before[name] != table.form:
            self._say_copied(table, "it was altered, or its copy was not finished")
            return False
        return True

    def _choose(self, side: Any, wanted: Iterable[str], by: str = "") -> list[SourceTable]:
        """The tables as they were announced, but for those that cannot be followed as such any more."""
        offered = introspect.tables(side, self._options, gone=True)
        names = sorted(wanted)
        found = introspect.choose(
            offered, [name for name in names if name in offered or name not in self._announced], self._where
        )
        setup.check_rights(side, found, self._where)
        for table in found:
            announce.check_readable(table, self._options.cascades, self._where)
            self._announced.setdefault(table.relation.name, table.relation)
        return self._altered.fitted(names, offered, self._announced, by)

    def _start_anew(self, tables: Iterable[str]) -> None:
        self._load(tables)
        self._start_at, self._gtid = self._loading[0].snapshot.point, self._loading[0].snapshot.gtid

    def add(self, tables: frozenset[str]) -> None:
        """See ``Source.add``. Returns when the copy has begun; it runs beside the stream."""
        wanted = tables - {table.relation.name for table in self._all()}
        if wanted:
            with setup.told(self._where):
                self._load(wanted)

    def copying(self) -> list[Copying]:
        return [one.snapshot.copying for one in self._loading if one.snapshot.copying]

    def close(self) -> None:
        for one in self._loading:
            one.snapshot.stop()
        self._loading = []
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._side is not None:
            self._side.close()
            self._side = None

    # --- reading ----------------------------------------------------------------------------------------------------

    def poll(self, wait_s: float) -> TransactionBatch | None:
        """See ``Source.poll``. At most some 32 MB of the log or 5,000 transactions, but never a part of one.

        Raises ``HeadraceError`` source.connect (call ``start`` again with the last logged position), source.row,
        source.schema, source.setup (every transaction before the offending one was returned earlier).
        """
        if self._refused is not None:
            raise self._refused
        give_up = time.monotonic() + wait_s
        while True:
            batch = self._reveal()
            left = max(0.0, give_up - time.monotonic())
            if batch is None and self._start_at is None:
                batch = self._next(min(left, _TICK_SECONDS) if self._loading else left)
            elif batch is None:
                self._loading[0].snapshot.wait(min(_TICK_SECONDS, left))
            if batch is not None:
                return batch
            if time.monotonic() >= give_up:
                return None

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None:
        """The server keeps its log for as long as it is told to, whoever has read it: there is nothing to tell it."""

    def caught_up(self) -> bool:
        return not self._loading and self._start_at is None and self._running().reached >= self._there

    def holding(self, point: str, tables: frozenset[str]) -> Callable[[str], bool]:
        """See ``Source.holding``; ``point`` is a set of GTIDs, or a place of the log."""
        wanted = position.given(point)

        def holds(reached: str) -> bool:
            at = position.parse(reached)
            return position.reaches(at, wanted) and tables <= at.tables

        return holds

    def seen(self) -> str | None:
        """See ``Source.seen``: also where others' transactions, or none, brought the server's log that far."""
        if self._start_at is not None or self._refused is not None:
            return None  # nothing has been streamed yet, or some of it will never be in the log
        return position.text(self._running().reached, self._gtid, self._tail())

    def _next(self, wait_s: float) -> TransactionBatch | None:
        """The next transactions that touch a followed table."""
        if self._untold:
            self._untold = False
            if rows := dict(altered.rows(self._altered.losses, 0)):
                return self._alone(rows)
        stream = self._running()
        stream.stop_at = min((one.snapshot.point for one in self._loading if one.snapshot.done), default=None)
        read = stream.read(wait_s)
        if not read:
            self._note()
            return None
        reached = []
        for transaction in read:
            self._gtid = gtids.advanced(self._gtid, transaction.gtid)
            reached.append(self._gtid)
        decoded = self._decoded(read)
        if self._refused is None and read[-1].altered:
            try:
                decoded |= altered.rows(self._alter(read[-1]), len(read) - 1)
            except HeadraceError as error:
                self._refused = error
        if not decoded:
            if self._refused is not None:
                raise self._refused
            return None
        kept, tables = change_tables.numbered(decoded)
        tail = self._tail()
        self._logged = read[kept[-1]].end
        at = ((position.text(read[n].end, reached[n], tail), read[n].committed_us) for n in kept)
        return TransactionBatch(tuple(TransactionOrigin(self.name, *each) for each in at), tables)

    def _decoded(self, read: list[Transaction]) -> dict[str, pa.Table]:
        silent = {place for one in self._loading for place in one.tables} - self._followed.keys()
        rows, ordinals = loading.set_aside(self._loading, silent, read)
        while rows:
            try:
                return self._decoder.decode(rows, ordinals, self._followed, lambda ordinal: str(read[ordinal].end))
            except changes.RefusedTransaction as refused:
                if any(refused.table.place in one.tables for one in self._loading):
                    del self._followed[refused.table.place]  # its copy, which is under way, brings what it holds
                    continue
                self._refused = refused.error  # what came before it is delivered first
                end = sum(ordinal < refused.ordinal for ordinal in ordinals)
                rows, ordinals = rows[:end], ordinals[:end]
        return {}

    def _note(self) -> None:
        """Once for each file of the server's log, though nothing in it was for us: the server may purge it now."""
        reached = self._running().reached
        if reached.number > self._logged.number and not self._loading:
            self._logged = reached
            self.note(position.text(reached, self._gtid, self._tail()))

    def _alone(self, tables: dict[str, pa.Table]) -> TransactionBatch:
        """A transaction that is none at the server, where the stream has got to."""
        self._logged = self._running().reached
        here = position.text(self._logged, self._gtid, self._tail())
        return TransactionBatch((TransactionOrigin(self.name, here, time.time_ns() // 1000),), tables)

    # --- what no row tells ------------------------------------------------------------------------------------------

    def _alter(self, transaction: Transaction) -> list[Loss]:
        """Tables that a statement has changed otherwise than by rows are copied anew; what they have lost."""
        by: dict[str, str] = {}
        later = {place for one in self._loading if one.snapshot.point >= transaction.end for place in one.tables}
        for statement in transaction.altered:
            for table in [table for table in self._all() if statement.concerns(table.place)]:
                name = table.relation.name
                if table.place in later:
                    continue  # its copy, which is under way, shows it as it is after that
                if statement.does is Does.WRITES:
                    raise self._by_statement(table, statement, transaction.end)
                if statement.does is Does.ALTERS or not self._names_written:
                    by[name] = _shown(statement)
                else:
                    self._altered.new.add(name)
        if not by:
            return []
        known = set(self._altered.losses)
        side = self._connect_side()
        with setup.told(self._where):
            fitted = {table.place: table for name, why in by.items() for table in self._choose(side, [name], why)}
        again = set()
        for table in [table for table in self._all() if table.relation.name in by]:
            if table.place in fitted:
                self._say_copied(table, by[table.relation.name])
                again.add(table.relation.name)
                if table.place in self._followed:
                    self._followed[table.place] = fitted[table.place]
            else:
                self._followed.pop(table.place, None)
        for one in [one for one in self._loading if set(by) & {t.relation.name for t in one.snapshot.tables}]:
            one.snapshot.stop()  # it began before the statement
            self._loading.remove(one)
            again |= {table.relation.name for table in one.snapshot.tables} - set(by)
        if again:
            with setup.told(self._where):
                self._load(again)
        return [loss for loss in self._altered.of(by.keys()) if loss not in known]

    def _say_altered(self, loss: Loss) -> None:
        self._say("source.altered", f"{loss.text}; views that use it stop, all else goes on", table=loss.table)

    def _by_statement(self, table: SourceTable, statement: Statement, end: Place) -> HeadraceError:
        return HeadraceError(
            "source.setup",
            f"table {table.relation.name} may have been changed by a statement whose rows are not in the log",
            where=f"{self._where}, {end}",
            why=f"a session has a binlog_format other than ROW: {_shown(statement)}",
            next="have that session use binlog_format = ROW; then `headrace stop`, `headrace drop --source` with the "
            "source's name, `headrace up`: its tables are copied anew",
        )

    def _say_copied(self, table: SourceTable, why: str) -> None:
        name = table.relation.name
        what = f"table {name} has changed otherwise than by rows: it is copied anew, and what differs flows"
        self._say("source.copied_anew", what, why, tables=[name])

    def _say(self, event: str, what: str, why: str = "", **more: Any) -> None:
        text = f"source {self.name}: {what}" + (f" ({why})" if why else "")
        self.tell({"event": event, "source": self.name, "text": text, "why": why, **more})

    # --- the first copy of tables -----------------------------------------------------------------------------------

    def _load(self, names: Iterable[str]) -> None:
        """Begin to copy these tables. Their rows are read from before the copy's place; their columns, after it."""
        side = self._connect_side()
        stream = self._running()
        stream.followed.set([table.place for table in self._choose(side, names)])
        start = snapshot.opened(self._arguments(), self._where)
        try:
            tables = self._choose(side, names)
        except BaseException:
            start.close()
            raise
        self._loading.append(Loading(Snapshot(tables, start, self._where)))

    def _reveal(self) -> TransactionBatch | None:
        """A finished copy, with what its tables got since, as one transaction; once the stream has come that far.

        Everything of the other tables before it has been delivered, so all tables agree from here on.
        """
        for one in self._loading:
            copy = one.snapshot
            if not copy.done or (self._start_at is None and self._running().reached < copy.point):
                continue
            self._loading.remove(one)
            contents = copy.result()
            held = self.held | self._recorded | {table.relation.name for table in self._followed.values()}
            self._follow(copy.tables)
            if self._start_at is not None:
                start_at, self._start_at = self._start_at, None
                self._running().start(start_at)
            tables = {
                t.relation.name: change_tables.inserts(
                    t.relation, contents[t.relation.name], emptied=t.relation.name in held
                )
                for t in copy.tables
            }
            for name, table in one.since(self._decoder).items():
                tables[name] = pa.concat_tables([tables[name], table])
            return self._alone({**tables, **dict(altered.rows(self._altered.copied(tables.keys(), held), 0))})
        return None

    def _all(self) -> list[SourceTable]:
        """Followed and loading."""
        loading_now = {place: table for one in self._loading for place, table in one.tables.items()}
        return list((self._followed | loading_now).values())

    def _follow(self, tables: Iterable[SourceTable]) -> None:
        tables = list(tables)
        self._followed |= {table.place: table for table in tables}
        self._running().followed.set([table.place for table in tables])

    def _tail(self) -> str:
        """Of a table that is being copied anew no form: a start after a crash must see that it has to be copied."""
        again = {place for one in self._loading for place in one.tables}
        forms = {t.relation.name: "" if place in again else t.form for place, t in self._followed.items()}
        return position.tail(forms, self._server)

    # --- connections ------------------------------------------------------------------------------------------------

    def _arguments(self) -> dict[str, Any]:
        return self._options.arguments(self._file, self._base)

    def _connect_side(self) -> Any:
        if self._side is not None:
            try:
                self._side.ping(reconnect=False)
            except Exception:
                self._side = None
        if self._side is None:
            self._side = setup.connect(self._arguments(), self._where)
        return self._side

    def _running(self) -> BinlogStream:
        if self._stream is None:
            raise HeadraceError("internal", "the source is not started", where=self._where)
        return self._stream


def _shown(statement: Statement) -> str:
    text = " ".join(statement.text.split())
    return text if len(text) <= 120 else text[:120] + "..."
