"""The PostgreSQL source: first copy and stream of the followed tables, joined at one point without gap or overlap."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

from headrace.formats import options as option_checks
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sources.base import Source
from headrace.sources.connectors.postgres import announce, changes, introspect, setup
from headrace.sources.connectors.postgres.config import PostgresOptions
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.pgoutput import RelationMessage
from headrace.sources.connectors.postgres.snapshot import Exported, Snapshot
from headrace.sources.connectors.postgres.stream import (
    Received,
    ReplicationStream,
    lsn_given,
    lsn_number,
    lsn_text,
    parse_position,
    position_tail,
    position_text,
)

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.05  # how often a wait for the first copy looks up


@dataclass(slots=True)
class _Loading:
    """Tables whose first copy is under way; their messages are kept aside until it can be revealed."""

    snapshot: Snapshot
    oids: frozenset[int]
    messages: list[bytes] = field(default_factory=list)
    final_lsns: list[int] = field(default_factory=list)  # of each message's transaction


class PostgresSource(Source):
    """Follows tables of one PostgreSQL database through logical replication (pgoutput, version 1).

    It makes one publication and one slot there, named ``headrace_PROJECT_NAME`` unless the options say otherwise.
    """

    copies = True

    def __init__(
        self, name: str, options: Mapping[str, Any], where: str = "", project: str = "", base: Path = Path()
    ) -> None:
        """``project``: what tells the project from all others; ``base``: its folder. Connects to nothing.

        Raises ``HeadraceError`` config.unknown_key, config.invalid.
        """
        self.name = name
        self._options = option_checks.validate(PostgresOptions, options, where)
        self._where = where or f"source {name}"
        self._file, self._base = where, base
        self._slot = self._options.slot_name(name, project)
        self._publication = self._options.publication_name(name, project)
        self._side: psycopg.Connection[Any] | None = None  # for everything but the stream
        self._stream: ReplicationStream | None = None
        self._reset()

    def _reset(self) -> None:
        self._tables: dict[int, SourceTable] = {}  # followed and loading, by oid
        self._followed: dict[int, Relation] = {}
        self._loading: list[_Loading] = []
        self._start_at: int | None = None  # where the stream begins once the first copy is delivered
        self._delivered = self._confirmed = 0
        self._unconfirmed = 0
        self._refused: HeadraceError | None = None
        self._heartbeat_at = 0.0
        self._recorded: frozenset[str] = frozenset()  # the relations that the log holds by the position
        self._there = 0  # the end of the server's log when we started

    # --- what there is ----------------------------------------------------------------------------------------------

    def relations(self) -> tuple[Relation, ...]:
        with setup.told(self._where), setup.connect(self._conninfo(), self._where) as connection:
            return tuple(table.relation for table in introspect.tables(connection, self._options).values())

    def warnings(self, tables: frozenset[str]) -> tuple[str, ...]:
        """What following these tables means for the database and its users; one sentence or two each."""
        with setup.told(self._where), setup.connect(self._conninfo(), self._where) as connection:
            chosen = introspect.choose(introspect.tables(connection, self._options), tables, self._where)
            found = [text for table in chosen for text in announce.warnings(table)]
            try:
                setup.check_server(connection, self._where)
                setup.check_rights(connection, chosen, self._where)
            except HeadraceError as error:
                found.append(f"{error.what}: {error.next or error.why}")
        return tuple(found)

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

    def _start(self, tables: frozenset[str], position: str | None) -> None:
        side = self._connect_side()
        setup.check_server(side, self._where)
        chosen = introspect.choose(introspect.tables(side, self._options), tables, self._where)
        setup.check_rights(side, chosen, self._where)
        publication = setup.Publication(side, self._publication, self._where)
        self._there = lsn_number(setup.log_end(side))
        if position is None:
            self._start_anew(side, publication, chosen)
            return
        lsn, self._recorded = parse_position(position)
        self._check_resumable(side, publication, lsn)
        # One that is not published any more was left out for a while, or made anew: it is copied again.
        members = publication.members()
        known = [table for table in chosen if table.relation.name in self._recorded and table.oid in members]
        publication.check_form(known)
        publication.keep_only(known)
        self._follow(known)
        self._delivered = self._confirmed = lsn
        self._open_stream().start(self._slot, self._publication, lsn)
        self.add(tables - {table.relation.name for table in known})

    def _start_anew(
        self, side: psycopg.Connection[Any], publication: setup.Publication, chosen: list[SourceTable]
    ) -> None:
        # A slot without a position is left over from a start whose first copy never reached the log.
        setup.drop_slot(side, self._slot, self._where)
        publication.create(chosen)  # before the slot: the server reads it as of each change
        exported = Exported(*self._open_stream().create_slot(self._slot))
        self._start_at = self._delivered = exported.point
        self._load(chosen, exported)

    def _check_resumable(self, side: psycopg.Connection[Any], publication: setup.Publication, lsn: int) -> None:
        state = setup.usable_slot(side, self._slot, self._where)
        why = ""
        if state is None:
            why = f"the replication slot {self._slot} is gone"
        elif state.wal_status == "lost":
            why = f"the server has dropped the log that the slot {self._slot} kept (max_slot_wal_keep_size)"
        elif not publication.exists():
            why = f"the publication {self._publication} is gone"
        if why:
            raise HeadraceError(
                "source.setup",
                f"changes after LSN {lsn_text(lsn)} may be lost: the source cannot go on where it stopped",
                where=self._where,
                why=why,
                next=f"`headrace stop`, `headrace drop --source {self.name}`, then `headrace up`: "
                "its tables are copied anew and take the place of what was there",
            )

    def add(self, tables: frozenset[str]) -> None:
        """See ``Source.add``. Returns at once; the copy runs beside the stream."""
        present = {table.relation.name for table in self._tables.values()}
        wanted = tables - present
        if not wanted:
            return
        with setup.told(self._where):
            side = self._connect_side()
            chosen = introspect.choose(introspect.tables(side, self._options), wanted, self._where)
            setup.check_rights(side, chosen, self._where)
            publication = setup.Publication(side, self._publication, self._where)
            publication.check_form(chosen)
            members = publication.members()
            # First the publication, then the copy's own slot, which waits for every transaction that is open by now:
            # all later ones are published, all earlier ones are in the copy.
            publication.add([table for table in chosen if table.oid not in members])
        self._load(chosen, None)

    def close(self) -> None:
        for loading in self._loading:
            loading.snapshot.stop()
        self._loading = []
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._side is not None:
            self._side.close()
            self._side = None

    def drop(self) -> None:
        """Remove slot and publication, whether started or not. Raises ``HeadraceError`` when that fails."""
        self.close()
        with setup.told(self._where), setup.connect(self._conninfo(), self._where) as connection:
            setup.drop_slot(connection, self._slot, self._where)
            setup.Publication(connection, self._publication, self._where).drop()

    # --- reading ----------------------------------------------------------------------------------------------------

    def poll(self, wait_s: float) -> TransactionBatch | None:
        """See ``Source.poll``. At most about 200,000 rows or 5,000 transactions, but never a part of one.

        Raises ``HeadraceError`` source.connect (call ``start`` again with the last logged position), source.row,
        source.schema, source.no_identity (every transaction before the offending one was returned earlier).
        """
        if self._refused is not None:
            raise self._refused
        give_up = time.monotonic() + wait_s
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
        lsn = lsn_given(point)

        def holds(position: str) -> bool:
            reached, recorded = parse_position(position)
            return reached >= lsn and tables <= recorded

        return holds

    def seen(self) -> str | None:
        """See ``Source.seen``: also where others' transactions, or none, brought the server's log that far."""
        if self._start_at is not None or self._refused is not None:
            return None  # nothing has been streamed yet, or some of it will never be in the log
        stream = self._running()
        stream.ask()  # by itself a server that is busy with others' tables may be silent for long
        return position_text(stream.reached, self._position_tail())

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None:
        self._confirmed, _ = parse_position(batch.origins[-1].position)
        self._unconfirmed -= 1
        if self._start_at is None:
            self._running().feedback(self._confirmed)

    def _next(self, wait_s: float) -> TransactionBatch | None:
        """The next transactions that touch a followed table."""
        stream = self._running()
        stream.stop_at = min((load.snapshot.point for load in self._loading if load.snapshot.done), default=None)
        received = stream.read(min(wait_s, self._options.heartbeat_seconds))
        batch = self._batch(received) if received.counts else None
        if received.counts:
            self._delivered = received.end_lsns[-1]
        if batch is None and self._unconfirmed == 0:
            # All that was read is in the log, the rest was others' business: an idle database must not hoard WAL.
            stream.feedback(stream.reached)
        self._heartbeat(stream)
        return batch

    def _batch(self, received: Received) -> TransactionBatch | None:
        counts = np.asarray(received.counts, dtype=np.int64)
        ordinals = np.repeat(np.arange(len(counts)), counts)
        messages = received.messages
        if self._loading:
            messages, ordinals = self._set_aside(messages, ordinals, received.final_lsns)
        decoded: dict[str, pa.Table] = {}
        while len(messages):
            try:
                decoded = changes.decode(
                    messages, ordinals, self._followed, lambda ordinal: lsn_text(received.final_lsns[ordinal])
                )
                break
            except changes.RefusedTransaction as refused:  # what came before it is delivered first
                self._refused = refused.error
                end = int(np.searchsorted(ordinals, refused.ordinal))
                messages, ordinals = messages[:end], ordinals[:end]
        if not decoded:
            if self._refused is not None:
                raise self._refused
            return None
        return self._number(decoded, received)

    def _number(self, decoded: dict[str, pa.Table], received: Received) -> TransactionBatch:
        """Drop the transactions that touched nothing followed, and number the others from 0."""
        kept = np.unique(np.concatenate([table["_t"].to_numpy() for table in decoded.values()]))
        tables = {}
        for name, table in decoded.items():
            ordinals = np.searchsorted(kept, table["_t"].to_numpy()).astype(np.int32)
            tables[name] = table.set_column(0, table.schema.field(0), pa.array(ordinals))
        tail = self._position_tail()
        origins = tuple(
            TransactionOrigin(self.name, position_text(end, tail), committed)
            for end, committed in (
                (received.end_lsns[ordinal], received.committed_us[ordinal]) for ordinal in kept.tolist()
            )
        )
        return TransactionBatch(origins, tables)

    def _heartbeat(self, stream: ReplicationStream) -> None:
        """A small message of our own in an idle database: its slot moves on, a dead connection shows."""
        now = time.monotonic()
        quiet_since = max(stream.last_heard, self._heartbeat_at)
        if now - quiet_since < self._options.heartbeat_seconds:
            return
        self._heartbeat_at = now
        try:
            self._connect_side().execute("SELECT pg_logical_emit_message(true, 'headrace', '')")
        except (psycopg.Error, HeadraceError) as error:
            log.warning("%s: the heartbeat failed: %s", self._where, error)

    # --- the first copy of tables -----------------------------------------------------------------------------------

    def _load(self, tables: list[SourceTable], exported: Exported | None) -> None:
        self._tables |= {table.oid: table for table in tables}
        snapshot = Snapshot(self._conninfo(), tables, self._where, exported)
        self._loading.append(_Loading(snapshot, frozenset(table.oid for table in tables)))

    def _set_aside(
        self, messages: list[bytes], ordinals: np.ndarray[Any, np.dtype[np.int64]], final_lsns: list[int]
    ) -> tuple[list[bytes], np.ndarray[Any, np.dtype[np.int64]]]:
        """Keep the messages of loading tables for their reveal; the others are returned."""
        at = changes.HEADER + 1
        target = {oid.to_bytes(4, "big"): loading for loading in self._loading for oid in loading.oids}
        rest = []
        for number, message in enumerate(messages):
            loading = target.get(message[at : at + 4])
            if loading is None:
                rest.append(number)
            else:
                loading.messages.append(message)
                loading.final_lsns.append(final_lsns[ordinals[number]])
        return [messages[number] for number in rest], ordinals[rest]

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
            self._follow(loading.snapshot.tables)
            batch = self._revealed(loading, point, contents)
            if self._start_at is not None:
                start_at, self._start_at = self._start_at, None
                self._running().start(self._slot, self._publication, start_at)
            if contents:
                return batch
        return None

    def _give_up(self, loading: _Loading) -> None:
        """A table that cannot be copied does not hold up those that are followed already."""
        if self._start_at is None:
            self._loading.remove(loading)
            for oid in loading.oids:
                del self._tables[oid]
            with setup.told(self._where):
                publication = setup.Publication(self._connect_side(), self._publication, self._where)
                publication.keep_only(list(self._tables.values()))

    def _revealed(self, loading: _Loading, point: int, contents: dict[str, pa.Table]) -> TransactionBatch:
        self._delivered = max(self._delivered, point)
        relations = {table.oid: table.relation for table in loading.snapshot.tables}
        held = self.held | self._recorded
        tables = {
            relation.name: changes.inserts(relation, contents[relation.name], emptied=relation.name in held)
            for relation in relations.values()
        }
        later = [m for m, lsn in zip(loading.messages, loading.final_lsns, strict=True) if lsn >= point]
        if later:
            lsns = [lsn for lsn in loading.final_lsns if lsn >= point]
            try:
                ordinals = np.arange(len(later))  # only to name the LSN in an error
                since = changes.decode(later, ordinals, relations, lambda number: lsn_text(lsns[number]))
            except changes.RefusedTransaction as refused:
                raise refused.error from refused
            for name, table in since.items():
                zeros = pa.array(np.zeros(table.num_rows, dtype=np.int32))
                numbered = table.set_column(0, table.schema.field(0), zeros)
                tables[name] = pa.concat_tables([tables[name], numbered], promote_options="default")
        position = position_text(self._delivered, self._position_tail())
        return TransactionBatch((TransactionOrigin(self.name, position, time.time_ns() // 1000),), tables)

    def _follow(self, tables: Iterable[SourceTable]) -> None:
        for table in tables:
            self._tables[table.oid] = table
            self._followed[table.oid] = table.relation

    def _position_tail(self) -> str:
        return position_tail(relation.name for relation in self._followed.values())

    def _check_relation(self, message: RelationMessage) -> None:
        table = self._tables.get(message.oid)
        if table is not None:
            announce.check_unchanged(table, message, self._where)

    # --- connections ------------------------------------------------------------------------------------------------

    def _conninfo(self) -> str:
        return self._options.conninfo(self._file, self._base)

    def _connect_side(self) -> psycopg.Connection[Any]:
        if self._side is None or self._side.closed:
            self._side = setup.connect(self._conninfo(), self._where)
        return self._side

    def _open_stream(self) -> ReplicationStream:
        self._stream = ReplicationStream(self._conninfo(), self._where)
        self._stream.on_relation = self._check_relation
        return self._stream

    def _running(self) -> ReplicationStream:
        if self._stream is None:
            raise HeadraceError("internal", "the source is not started", where=self._where)
        return self._stream
