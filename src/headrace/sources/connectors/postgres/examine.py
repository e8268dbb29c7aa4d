"""Everything that a PostgreSQL server and a role lack for a source, at once, each with the statement that gives it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg

from headrace.model.errors import HeadraceError
from headrace.model.finding import MISSING, OK, WARNING, Finding
from headrace.sources.connectors.postgres import announce, introspect, setup, watch
from headrace.sources.connectors.postgres.config import PostgresOptions
from headrace.sources.connectors.postgres.introspect import SourceTable
from headrace.sources.connectors.postgres.stream import ReplicationStream

_SENDERS = 2  # the stream, and beside it the copy of a table that is added
_CLOCKS_APART_S = 5.0  # more than that between two machines is no delay of the network
_RESTART = "then restart the server (a reload is not enough)"


def examine(
    options: PostgresOptions, conninfo: str, slot: str, publication: str, where: str, wanted: Callable[[str], bool]
) -> Iterator[Finding]:
    """Changes nothing. ``wanted``: whether views read the table of that name.

    Raises ``HeadraceError`` source.connect, source.auth, config.secret, source.no_table, which end it.
    """
    with setup.told(where), setup.connect(conninfo, where) as side:
        info = side.info
        yield Finding(
            OK, f"connects to {info.dbname} at {info.host}:{info.port}, PostgreSQL {info.server_version // 10_000}"
        )
        tables = [t for name, t in sorted(introspect.tables(side, options).items()) if wanted(name)]
        yield from _tried(lambda: setup.check_server(side, where), "wal_level is logical")
        yield from _tried(
            lambda: setup.check_rights(side, tables, where), f"the role may replicate and read {len(tables)} tables"
        )
        if setup.may_replicate(side):
            yield from _tried(lambda: _replicates(conninfo, where), "a replication connection is let in")
        yield from _clock(side)
        yield from _room(side, slot)
        yield from _published(side, setup.Publication(side, publication, where), tables)
        yield from _slot(side, slot, options.wal_held_max)
        for table in tables:
            yield from announce.examined(table)


def _tried(work: Callable[[], object], what: str) -> Iterator[Finding]:
    try:
        work()
    except HeadraceError as error:
        yield Finding.of(error)
    else:
        yield Finding(OK, what)


def _replicates(conninfo: str, where: str) -> None:
    stream = ReplicationStream(conninfo, where)
    try:
        stream.server()
    finally:
        stream.close()


def _clock(side: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Views with now() go by this machine's clock, and the times in rows by the server's."""
    asked = time.time()
    ahead = float(_one(side, "SELECT extract(epoch FROM clock_timestamp())")) - (asked + time.time()) / 2
    if abs(ahead) > _CLOCKS_APART_S:
        yield Finding(
            WARNING,
            f"the server's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's",
            "on the machine whose clock is wrong: timedatectl set-ntp true",
            why="views with now() go by this machine's clock, and the times in rows mostly by the server's",
        )


def _room(side: psycopg.Connection[Any], slot: str) -> Iterator[Finding]:
    """Room for our slot and our sessions."""
    slots, ours, senders, most_slots, most_senders = side.execute(
        "SELECT count(*), count(*) FILTER (WHERE slot_name = %s), (SELECT count(*) FROM pg_stat_get_wal_senders()), "
        "current_setting('max_replication_slots')::int, current_setting('max_wal_senders')::int "
        "FROM pg_replication_slots",
        (slot,),
    ).fetchone() or (0, 0, 0, 0, 0)
    for name, used, most, needed in (
        ("max_replication_slots", slots, most_slots, 2 - ours),
        ("max_wal_senders", senders, most_senders, _SENDERS - min(ours, senders)),
    ):
        if most - used < needed:
            more = f"ALTER SYSTEM SET {name} = {most + max(needed, 5)}; {_RESTART}"
            yield Finding(MISSING, f"{name} is {most}, of which {used} are in use; {needed} more are needed", more)
        else:
            yield Finding(OK, f"{name} is {most}, of which {used} are in use")


def _published(
    side: psycopg.Connection[Any], publication: setup.Publication, tables: Sequence[SourceTable]
) -> Iterator[Finding]:
    owned = all(table.is_owner for table in tables)
    if not publication.exists():
        may_create = _one(side, "SELECT has_database_privilege(current_database(), 'CREATE')")
        if owned and may_create:
            yield Finding(OK, f"the publication {publication.name} can be made, and is by `headrace up`")
        else:
            what = f"there is no publication {publication.name}, and the role may not make it"
            yield Finding(MISSING, what, "as the tables' owner or a superuser: " + publication.creating(tables))
        return
    yield from _tried(lambda: publication.check_form(tables), f"the publication {publication.name} sends all changes")
    members = publication.members()
    left = [table for table in tables if table.oid not in members]
    if left and not (owned and publication.is_ours()):
        names = ", ".join(table.qualified for table in left)
        what = f"the publication {publication.name} lacks {names}, and the role may not add to it"
        yield Finding(MISSING, what, "as the tables' owner or a superuser: " + publication.adding(left))


def _slot(side: psycopg.Connection[Any], slot: str, held_max: int) -> Iterator[Finding]:
    state = setup.slot_state(side, slot)
    if state is None:
        yield Finding(OK, f"there is no slot {slot} yet; `headrace up` makes it")
    elif state.plugin != "pgoutput" or state.database != side.info.dbname:
        what = f"the slot {slot} belongs to the database {state.database} and the plugin {state.plugin}"
        yield Finding(MISSING, what, "name another slot in the source's option 'slot'")
    elif state.invalid:
        what = (
            f"the slot {slot} is lost ({state.invalid}); `headrace up` copies its tables anew, and what differs flows"
        )
        yield Finding(WARNING, what)
    else:
        held = watch.held(side, slot)
        warning = watch.held_warning(held, slot, held_max)
        kept = f", and holds back {watch.size(held.size)} of log" if held else ""
        yield Finding(WARNING, warning) if warning else Finding(OK, f"the slot {slot} is there{kept}")
    if _one(side, "SELECT setting FROM pg_settings WHERE name = 'max_slot_wal_keep_size'") == "-1":
        yield Finding(
            WARNING,
            "max_slot_wal_keep_size is unlimited: while a slot is not read, the server's disk fills",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf()",
        )


def _one(side: psycopg.Connection[Any], query: str) -> Any:
    row = side.execute(query.encode()).fetchone()
    return row[0] if row else None
