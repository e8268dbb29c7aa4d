"""The PostgreSQL source: first copy and stream of the followed tables, joined at one point without gap or overlap."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

from headrace.formats import options as option_checks
from headrace.model.errors import HeadraceError
from headrace.model.finding import Finding
from headrace.model.pace import Copying
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sources.altered import Loss
from headrace.sources.base import Source
from headrace.sources.change_tables import numbered
from headrace.sources.connectors.postgres import announce, changes, form, introspect, position, setup, watch
from headrace.sources.connectors.postgres.altered import Altered, Notes
from headrace.sources.connectors.postgres.config import PostgresOptions
from headrace.sources.connectors.postgres.confirmed import Confirmed
from headrace.sources.connectors.postgres.examine import examine
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.layouts import Layouts
from headrace.sources.connectors.postgres.loading import Loading, picked, set_aside
from headrace.sources.connectors.postgres.pgoutput import Integers, RelationMessage
from headrace.sources.connectors.postgres.snapshot import Exported, Snapshot
from headrace.sources.connectors.postgres.stream import Received, ReplicationStream, lsn_given, lsn_number, lsn_text
from headrace.sources.connectors.postgres.streamed import Streaming

log = logging.getLogger(__name__)
_TICK_SECONDS = 0.05  # how often a wait for the first copy looks up
_LOOK_SECONDS = 2.0  # how often the catalogue is looked at for what no row tells


class PostgresSource(Source):
    """Follows tables of one PostgreSQL database through logical replication (pgoutput, version 1 or 2).

    It makes one publication and one slot there, named ``headrace_PROJECT_NAME`` unless the options say otherwise.
    """

    copies = True

    def __init__(
        self, name: str, options: Mapping[str, Any], where: str = "", project: str = "", base: Path = Path()
    ) -> None:
        """``project``: what tells the project from all others; ``base``: its folder. Connects to nothing.

        Raises ``HeadraceError`` config.unknown_key, config.invalid.
        """
        self._options = option_checks.validate(PostgresOptions, options, where)
        self.name, self.named = name, self._options.tables
        self._where = where or f"source {name}"
        self._file, self._base, self._let_go = where, base, Confirmed(base, name)
        self._streaming = Streaming(self._options.streaming, base, self._connect_side)
        self._slot = self._options.slot_name(name, project)
        self._publication = self._options.publication_name(name, project)
        self._side: psycopg.Connection[Any] | None = None  # for everything but the stream
        self._stream: ReplicationStream | None = None
        self._announced: dict[str, Relation] = {}  # what the engine was told last, and goes by
        self._altered = Altered(self._say_altered)
        self._reset()

    def _reset(self) -> None:
        self._tables: dict[int, SourceTable] = {}  # followed and loading, by oid
        self._streamed: dict[int, SourceTable] = {}  # followed, as rows that come now are read
        self._followed: dict[int, Relation] = {}
        self._altered.begin()
        self._forms: dict[int, form.Form] = {}
        self._layouts, self._server = Layouts(), ""
        self._loading: list[Loading] = []
        self._start_at: int | None = None  # where the stream begins once the first copy is delivered
        self._delivered = self._confirmed = self._unconfirmed = 0
        self._refused: HeadraceError | None = None
        self._ending: tuple[int, HeadraceError] | None = None  # it cannot go on beyond that LSN
        self._untold: int | None = None  # tables have lost something by that LSN at the latest
        self._heartbeat_at = self._look_at = 0.0
        self._recorded: frozenset[str] = frozenset()  # the relations that the log holds by the position
        self._there = 0  # the end of the server's log when we started

    # --- what there is ----------------------------------------------------------------------------------------------

    def relations(self) -> tuple[Relation, ...]:
        """Tables that are followed are as they were when that began, less the columns that are gone since."""
        with setup.told(self._where), setup.connect(self._conninfo(), self._where) as connection:
            found = introspect.tables(connection, self._options)
        followed = {table.relation.name for table in list(self._tables.values())}
        for name, table in found.items():
            if name not in followed:
                self._announced[name] = table.relation
        return tuple(self._altered.left(self._announced[name]) for name in found)

    def altered(self) -> bool:
        return bool(self._altered)

    def warnings(self, tables: frozenset[str]) -> tuple[str, ...]:
        """What following these tables means for the database and its users; one sentence or two each."""
        with setup.told(self._where), setup.connect(self._conninfo(), self._where) as connection:
            chosen = introspect.choose(introspect.tables(connection, self._options), tables, self._where)
            found = [text for table in chosen for text in announce.warnings(table)]
            found += setup.lacking(connection, chosen, self._where)
        return tuple(found)

    def examine(self, wanted: Callable[[str], bool]) -> Iterator[Finding]:
        return examine(self._options, self._conninfo(), self._slot, self._publication, self._where, wanted)

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
        setup.check_server(side, self._where)
        chosen = self._choose(side, tables)
        forms = form.forms(side, chosen)
        publication = setup.Publication(side, self._publication, self._where)
        self._there = lsn_number(setup.log_end(side))
        stream = self._open_stream()
        self._server = stream.server()
        if position_text is None:
            self._start_anew(side, publication, chosen, forms)
            return
        at = position.parse(position_text)
        self._recorded = at.tables
        state = setup.usable_slot(side, self._slot, self._where)
        why = watch.why_elsewhere(stream, at.server, self._server, at.lsn)
        why = why or watch.why_lost(state, publication, self._slot, at.lsn, self._there, self._let_go.read())
        # What is not published was left out for a while, or made anew: copied again, like what changed without rows.
        members = frozenset() if why else publication.members()
        known = [t for t in chosen if t.oid in members and self._goes_on(t, forms[t.oid], at.forms)]
        if at.tables - {table.relation.name for table in known}:
            # Soon they look as if nothing had been missed: a start after a crash must see that they had to be copied.
            tail = position.tail({t.relation.name: forms[t.oid].text for t in known}, self._server)
            self.note(position.text(at.lsn, tail))
        if why:
            self._say("source.copied_anew", watch.may_be_lost(at.lsn), why, tables=sorted(tables))
            self._start_anew(side, publication, chosen, forms)
            return
        publication.check_form(known)
        publication.keep_only(known)
        self._follow(known, forms)
        self._delivered = self._confirmed = self._untold = at.lsn
        stream.start(self._slot, self._publication, at.lsn)
        self.add(tables - {table.relation.name for table in known})

    def _goes_on(self, table: SourceTable, now: form.Form, before: Mapping[str, str]) -> bool:
        """Whether all that has happened to the table since its form ``before`` is in the stream."""
        name = table.relation.name
        if name not in before:
            return False
        if before[name] and not now.follows(before[name]):
            self._say_copied(table)
            return False
        return True

    def _choose(self, side: psycopg.Connection[Any], wanted: Iterable[str]) -> list[SourceTable]:
        """The tables as they were announced, but for those that cannot be followed as such any more."""
        offered = introspect.tables(side, self._options)
        followed = {table.relation.name: table for table in self._tables.values()}
        found = introspect.choose(offered, self._altered.there(wanted, offered, self._announced), self._where)
        setup.check_rights(side, found, self._where)
        for table in found:
            self._announced.setdefault(table.relation.name, table.relation)
        return self._altered.fitted(found, self._announced, followed)

    def _start_anew(
        self,
        side: psycopg.Connection[Any],
        publication: setup.Publication,
        chosen: list[SourceTable],
        forms: Mapping[int, form.Form],
    ) -> None:
        # A slot without a position is left over from a start whose first copy never reached the log.
        setup.drop_slot(side, self._slot, self._where)
        publication.create(chosen)  # before the slot: the server reads it as of each change
        exported = Exported(*self._running().create_slot(self._slot))
        self._start_at = self._delivered = exported.point
        self._let_go.begin(exported.point)
        self._load(chosen, exported, forms)

    def add(self, tables: frozenset[str]) -> None:
        """See ``Source.add``. Returns at once; the copy runs beside the stream."""
        present = {table.relation.name for table in self._tables.values()}
        wanted = tables - present
        if not wanted:
            return
        with setup.told(self._where):
            side = self._connect_side()
            chosen = self._choose(side, wanted)
            forms = form.forms(side, chosen)
            publication = setup.Publication(side, self._publication, self._where)
            publication.check_form(chosen)
            members = publication.members()
            # First the publication, then the copy's own slot, which waits for every transaction that is open by now:
            # all later ones are published, all earlier ones are in the copy.
            publication.add([table for table in chosen if table.oid not in members])
        self._load(chosen, None, forms)

    def copying(self) -> list[Copying]:
        return [loading.snapshot.copying for loading in self._loading if loading.snapshot.copying]

    def close(self) -> None:
        for loading in self._loading:
            loading.snapshot.stop()
        self._loading = []
        for connection in (self._stream, self._side):
            if connection is not None:
                connection.close()
        self._stream = self._side = None

    def drop(self) -> None:
        """Remove slot and publication, whether started or not. Raises ``HeadraceError`` when that fails."""
        self.close()
        with setup.told(self._where), setup.connect(self._conninfo(), self._where) as connection:
            setup.drop_slot(connection, self._slot, self._where)
            setup.Publication(connection, self._publication, self._where).drop()
        self._announced, self._altered = {}, Altered(self._say_altered)

    # --- reading ----------------------------------------------------------------------------------------------------

    def poll(self, wait_s: float) -> TransactionBatch | None:
        """See ``Source.poll``. At most about 200,000 rows or 5,000 transactions, but never a part of one.

        Raises ``HeadraceError`` source.connect (call ``start`` again with the last logged position), source.row,
        source.schema, source.no_identity (every transaction before the offending one was returned earlier).
        """
        with setup.told(self._where):  # the server may die under any of it
            return self._polled(time.monotonic() + wait_s)

    def _polled(self, give_up: float) -> TransactionBatch | None:
        if self._refused is not None:
            raise self._refused
        while True:
            batch = self._reveal()
            if batch is None and self._start_at is None:
                batch = self._next(max(0.0, give_up - time.monotonic()))
            elif batch is None:
                self._loading[0].snapshot.wait(max(0.0, min(_TICK_SECONDS, give_up - time.monotonic())))
            if batch is not None:
                self._unconfirmed += 1
                return batch
            if time.monotonic() >= give_up:
                return None

    def caught_up(self) -> bool:
        if self._loading or self._start_at is not None:
            return False
        stream = self._running()
        if stream.reached < self._there:
            stream.ask()
            return False
        return True

    def holding(self, point: str, tables: frozenset[str]) -> Callable[[str], bool]:
        """See ``Source.holding``; ``point`` is an LSN that the server showed after a commit."""
        return position.holding(lsn_given(point), tables)

    def seen(self) -> str | None:
        """See ``Source.seen``: also where others' transactions, or none, brought the server's log that far."""
        if self._start_at is not None or self._refused is not None:
            return None  # nothing has been streamed yet, or some of it will never be in the log
        stream = self._running()
        stream.ask()  # by itself a server that is busy with others' tables may be silent for long
        return position.text(stream.reached, self._position_tail())

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None:
        self._confirmed = position.parse(batch.origins[-1].position).lsn
        self._unconfirmed -= 1
        if self._start_at is None:
            self._running().feedback(self._confirmed)

    def _next(self, wait_s: float) -> TransactionBatch | None:
        """The next transactions that touch a followed table."""
        stream = self._running()
        self._look()
        stream.stop_at = min((load.snapshot.point for load in self._loading if load.snapshot.done), default=None)
        received = stream.read(min(wait_s, self._options.heartbeat_seconds))
        batch = self._batch(received) if received.counts else None
        if received.counts:
            self._delivered = received.end_lsns[-1]
        if batch is None and self._untold is not None and stream.reached >= self._untold:
            self._untold = None
            batch = self._told(stream.reached)
        if batch is None and self._ending is not None and stream.reached >= self._ending[0]:
            self._refused = self._ending[1]
            raise self._refused
        if batch is None and self._unconfirmed == 0:
            # All that was read is in the log, the rest was others' business: an idle database must not hoard WAL.
            stream.feedback(self._let_go.note(stream.reached))
        self._heartbeat(stream)
        return batch

    def _batch(self, received: Received) -> TransactionBatch | None:
        counts = np.asarray(received.counts, dtype=np.int64)
        ordinals = np.repeat(np.arange(len(counts)), counts)
        messages = received.messages
        epochs = self._layouts.epochs(received.described, len(messages))
        if self._loading:
            rest = set_aside(self._loading, self._followed.keys(), messages, ordinals, epochs, received.final_lsns)
            messages, ordinals, epochs = picked(messages, rest), ordinals[rest], epochs[rest]
        decoded: dict[str, pa.Table] = {}
        notes: Notes = {}
        while messages:
            try:
                decoded = changes.decode(
                    messages,
                    ordinals,
                    self._followed,
                    lambda ordinal: lsn_text(received.final_lsns[ordinal]),
                    self._layout(epochs, ordinals, notes),
                    self.stored,
                )
                break
            except changes.RefusedTransaction as refused:  # what came before it is delivered first
                self._refused = refused.error
                end = int(np.searchsorted(ordinals, refused.ordinal))
                messages, ordinals, epochs = messages[:end], ordinals[:end], epochs[:end]
                notes.clear()  # one of the refused transaction would move the position behind it
        decoded |= self._altered.rows(notes)
        if not decoded:
            if self._refused is not None:
                raise self._refused
            return None
        kept, tables = numbered(decoded)
        tail = self._position_tail()
        at = ((position.text(received.end_lsns[number], tail), received.committed_us[number]) for number in kept)
        return TransactionBatch(tuple(TransactionOrigin(self.name, *each) for each in at), tables)

    def _told(self, reached: int) -> TransactionBatch | None:
        """What tables have lost though no row tells, as a transaction of its own."""
        rows = dict(self._altered.rows(dict.fromkeys(self._altered.losses, 0)))
        self._delivered = max(self._delivered, reached)
        return self._alone(rows) if rows else None

    def _heartbeat(self, stream: ReplicationStream) -> None:
        """A small message of our own in an idle database: its slot moves on, a dead connection shows."""
        now = time.monotonic()
        if now - max(stream.last_heard, self._heartbeat_at) < self._options.heartbeat_seconds:
            return
        self._heartbeat_at = now
        try:
            self._connect_side().execute("SELECT pg_logical_emit_message(true, 'headrace', '')")
        except (psycopg.Error, HeadraceError) as error:
            log.warning("%s: the heartbeat failed: %s", self._where, error)

    def _layout(self, epochs: Integers, ordinals: Integers, notes: Notes) -> changes.Layout:
        """How the rows of messages of these epochs, in these transactions, are laid out."""

        def places(oid: int, message: RelationMessage, number: int) -> changes.Places | None:
            return self._altered.places(self._streamed[oid], message, int(ordinals[number]), notes)

        return self._layouts.of(epochs, places)

    def _say_altered(self, loss: Loss) -> None:
        self._say("source.altered", f"{loss.text}; views that use it stop, all else goes on", table=loss.table)

    # --- what no row tells ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Tables that changed otherwise than by rows are copied anew; what cannot go on ends after all before it."""
        now = time.monotonic()
        if now < self._look_at or self._ending is not None:
            return
        self._look_at = now + min(_LOOK_SECONDS, self._options.heartbeat_seconds)
        loading = {oid for load in self._loading for oid in load.forms}
        tables = [self._tables[oid] for oid in self._followed if oid not in loading]
        try:
            side = self._connect_side()
            forms = form.forms(side, tables)
            members = setup.Publication(side, self._publication, self._where).members()
            warning = watch.held_warning(watch.held(side, self._slot), self._slot, self._options.wal_held_max)
            end = lsn_number(setup.log_end(side))
        except (psycopg.Error, HeadraceError) as error:
            log.warning("%s: the catalogue cannot be read: %s", self._where, error)
            return
        if warning and not self.notices:
            self._say("source.wal_held", warning)
        self.notices = (warning,) if warning else ()
        try:
            there = [table for table in tables if table.oid in forms]
            for table in there:
                watch.check_published(members, table, self._publication, self._where)
            changed = [table for table in there if not forms[table.oid].follows(self._forms[table.oid].text)]
            self._forms |= {oid: found for oid, found in forms.items() if self._tables[oid] not in changed}
            gone = [table for table in tables if table.oid not in forms]
            again = self._choose(side, [table.relation.name for table in (*changed, *gone)])
        except HeadraceError as error:
            self._ending = end, error
            return
        if len(again) < len(changed) + len(gone):
            self._untold = end
        if again:
            for table in again:
                self._say_copied(table)
            self._load(again, None, form.forms(side, again))

    def _say_copied(self, table: SourceTable) -> None:
        self._say("source.copied_anew", *watch.copied_anew(table), tables=[table.relation.name])

    def _say(self, event: str, what: str, why: str = "", **more: Any) -> None:
        text = f"source {self.name}: {what}" + (f" ({why})" if why else "")
        self.tell({"event": event, "source": self.name, "text": text, "why": why, **more})

    # --- the first copy of tables -----------------------------------------------------------------------------------

    def _load(self, tables: list[SourceTable], exported: Exported | None, forms: Mapping[int, form.Form]) -> None:
        self._tables |= {table.oid: table for table in tables}
        self._loading.append(Loading(Snapshot(self._conninfo(), tables, self._where, exported), forms))

    def _reveal(self) -> TransactionBatch | None:
        """A finished copy, with what its tables got since, as one transaction; once the stream has come that far.

        Everything of the other tables before it has been delivered, so all tables agree from here on.
        """
        for loading in self._loading:
            if not loading.snapshot.done:
                continue
            try:
                point, contents = loading.snapshot.result()
            except HeadraceError:
                self._give_up(loading)
                raise
            if self._start_at is None and self._running().reached < point:
                continue
            self._loading.remove(loading)
            again = self._recorded | {relation.name for relation in self._followed.values()}
            self._follow(loading.snapshot.tables, loading.forms)
            batch = self._revealed(loading, point, contents, self.held | again)
            if self._start_at is not None:
                start_at, self._start_at = max(self._start_at, point), None
                self._running().start(self._slot, self._publication, start_at)
            if contents:
                return batch
        return None

    def _give_up(self, loading: Loading) -> None:
        """A table that cannot be copied does not hold up those that are followed already."""
        if self._start_at is None:
            self._loading.remove(loading)
            for oid in loading.forms.keys() - self._followed.keys():
                del self._tables[oid]
            with setup.told(self._where):
                publication = setup.Publication(self._connect_side(), self._publication, self._where)
                publication.keep_only(list(self._tables.values()))

    def _revealed(
        self, loading: Loading, point: int, contents: dict[str, pa.Table], held: frozenset[str]
    ) -> TransactionBatch:
        self._delivered = max(self._delivered, point)
        notes = self._altered.copied(table.relation.name for table in loading.snapshot.tables)
        tables = loading.whole(
            point, contents, held, lambda epochs: self._layout(epochs, np.zeros(len(epochs), np.int64), notes)
        )
        return self._alone({**tables, **dict(self._altered.rows(notes, held))})

    def _alone(self, tables: dict[str, pa.Table]) -> TransactionBatch:
        """A transaction that is none at the server, where the stream has got to."""
        here = position.text(self._delivered, self._position_tail())
        return TransactionBatch((TransactionOrigin(self.name, here, time.time_ns() // 1000),), tables)

    def _follow(self, tables: Iterable[SourceTable], forms: Mapping[int, form.Form]) -> None:
        for table in tables:
            self._forms[table.oid] = forms[table.oid]
            self._tables[table.oid] = self._streamed[table.oid] = table
            self._followed[table.oid] = table.relation

    def _position_tail(self) -> str:
        return position.tail({r.name: self._forms[oid].text for oid, r in self._followed.items()}, self._server)

    def _conninfo(self) -> str:
        return self._options.conninfo(self._file, self._base)

    def _connect_side(self) -> psycopg.Connection[Any]:
        if self._side is None or self._side.closed:
            self._side = setup.connect(self._conninfo(), self._where)
        return self._side

    def _open_stream(self) -> ReplicationStream:
        self._stream = ReplicationStream(self._conninfo(), self._where, self._streaming)
        return self._stream

    def _running(self) -> ReplicationStream:
        if self._stream is None:
            raise HeadraceError("internal", "the source is not started", where=self._where)
        return self._stream
