"""What must be so at the PostgreSQL server before a table can be followed, and the two objects made there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.postgres.introspect import SourceTable

VERSION_MIN = 130_000  # publish_via_partition_root
INACTIVE_SECONDS_MAX = 10.0  # how long the server may take to notice that an earlier reader is gone

ONLY = "ONLY "  # a table's inheritance children are tables of their own; a partitioned root publishes its partitions

_AUTHENTICATION = ("password authentication failed", "no password supplied", "authentication failed", "pg_hba.conf")


def connect(conninfo: str, where: str, **more: Any) -> psycopg.Connection[Any]:
    """A connection in autocommit. Raises ``HeadraceError`` source.connect, source.auth, source.rights."""
    try:
        return psycopg.connect(conninfo, autocommit=True, **more)
    except psycopg.Error as error:
        raise failure(error, where) from None  # the driver's exception may hold the connection string


@contextmanager
def told(where: str) -> Iterator[None]:
    """A driver's error inside becomes the user's."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(error, where) from error


def failure(error: psycopg.Error, where: str) -> HeadraceError:
    """A driver's error as one that says what to do."""
    text = "; ".join(" ".join(line.split()) for line in str(error).splitlines() if line.strip())
    state = error.sqlstate or ""
    role_missing = 'role "' in text and "does not exist" in text and not state
    if state.startswith("28") or role_missing or any(mark in text for mark in _AUTHENTICATION):
        return HeadraceError(
            "source.auth",
            "PostgreSQL refuses the user or the password",
            where=where,
            why=text,
            next="check user and password (a secret reference: env:NAME or file:PATH) and the server's pg_hba.conf",
        )
    if state == "42501" or "replication role" in text or "REPLICATION attribute" in text:
        return HeadraceError("source.rights", "the role lacks a right", where=where, why=text)
    if state and not state.startswith(("08", "57", "3D")):
        return HeadraceError("source.setup", "PostgreSQL refuses a command", where=where, why=text)
    what, hint = "PostgreSQL cannot be reached", "check host, port and database, and that the server runs"
    if "does not match host name" in text:
        what = "PostgreSQL cannot be trusted: its certificate is for another host"
        hint = "give as host a name that is in the certificate; or have a certificate made for the name you use"
    elif "certificate" in text or "SSL" in text:
        what = "PostgreSQL cannot be trusted: its certificate is not accepted"
        hint = "give the authority that signed the server's certificate as sslrootcert; sslmode says how strict to be"
    return HeadraceError("source.connect", what, where=where, why=text, next=hint)


def check_server(connection: psycopg.Connection[Any], where: str) -> None:
    """Raises ``HeadraceError`` source.setup when the server cannot replicate."""
    if connection.info.server_version < VERSION_MIN:
        raise HeadraceError(
            "source.setup",
            f"PostgreSQL {connection.info.server_version // 10_000} is too old",
            where=where,
            next="use PostgreSQL 13 or later",
        )
    wal_level = _one(connection, "SHOW wal_level")
    if wal_level != "logical":
        raise HeadraceError(
            "source.setup",
            f"wal_level is '{wal_level}', not 'logical'",
            where=where,
            why="PostgreSQL then does not write what logical replication needs",
            next="ALTER SYSTEM SET wal_level = 'logical'; then restart the server (a reload is not enough)",
        )


def log_end(connection: psycopg.Connection[Any]) -> str:
    """The LSN behind everything that has been written so far."""
    return str(
        _one(
            connection,
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END",
        )
    )


def check_rights(connection: psycopg.Connection[Any], tables: Iterable[SourceTable], where: str) -> None:
    """Raises ``HeadraceError`` source.rights with the statements that give what is missing."""
    role = sql.Identifier(_one(connection, "SELECT current_user"))
    missing: list[sql.Composed] = []
    if not may_replicate(connection):
        missing.append(sql.SQL("ALTER ROLE {} WITH REPLICATION").format(role))
    tables = list(tables)
    for schema in sorted({table.schema for table in tables if not table.may_use_schema}):
        missing.append(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), role))
    unreadable = [table for table in tables if not table.may_select]
    if unreadable:
        missing.append(sql.SQL("GRANT SELECT ON {} TO {}").format(listing(unreadable), role))
    if missing:
        raise HeadraceError(
            "source.rights",
            "the role lacks rights: " + _lacking(connection, tables),
            where=where,
            next="as a superuser: " + "; ".join(statement.as_string(connection) for statement in missing),
        )


def lacking(connection: psycopg.Connection[Any], tables: Iterable[SourceTable], where: str) -> list[str]:
    """What following the tables would end with first, as one text, or nothing."""
    try:
        check_server(connection, where)
        check_rights(connection, tables, where)
    except HeadraceError as error:
        return [f"{error.what}: {error.next or error.why}"]
    return []


def _lacking(connection: psycopg.Connection[Any], tables: list[SourceTable]) -> str:
    parts = [] if may_replicate(connection) else ["REPLICATION"]
    parts += sorted({f"USAGE on schema {table.schema}" for table in tables if not table.may_use_schema})
    parts += [f"SELECT on {table.qualified}" for table in tables if not table.may_select]
    return ", ".join(parts)


def may_replicate(connection: psycopg.Connection[Any]) -> bool:
    """Superuser, REPLICATION, or a member of the role by which hosted servers grant it."""
    return bool(
        _one(
            connection,
            "SELECT bool_or(rolsuper OR rolreplication OR rolname = 'rds_replication') FROM pg_roles "
            "WHERE rolname = current_user OR (rolname = 'rds_replication' AND pg_has_role(oid, 'MEMBER'))",
        )
    )


def listing(tables: Sequence[SourceTable], prefix: str = "") -> sql.Composed:
    """The tables as SQL writes them, each after ``prefix``."""
    names = (sql.Identifier(table.schema, table.table) for table in tables)
    return sql.SQL(", ").join(sql.SQL("{}{}").format(sql.SQL(prefix), name) for name in names)


# --- publication ----------------------------------------------------------------------------------------------------


class Publication:
    """The publication: which tables' changes the server sends.

    One that someone else made is used as it is when it covers what is wanted; it is never altered or dropped
    without the right to.
    """

    def __init__(self, connection: psycopg.Connection[Any], name: str, where: str) -> None:
        self._connection, self.name, self._where = connection, name, where
        self._identifier = sql.Identifier(name)

    def exists(self) -> bool:
        return bool(_one(self._connection, "SELECT count(*) FROM pg_publication WHERE pubname = %s", self.name))

    def members(self) -> frozenset[int]:
        """The oids of the tables in it."""
        rows = self._connection.execute(
            "SELECT c.oid FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname "
            "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename WHERE t.pubname = %s",
            (self.name,),
        )
        return frozenset(oid for (oid,) in rows)

    def create(self, tables: Sequence[SourceTable]) -> None:
        """Make it for exactly these tables, or bring the one there to them."""
        if self.exists():
            members = self.members()
            self.check_form(tables)
            self.add([table for table in tables if table.oid not in members])
            self.keep_only(tables)
            return
        self._run(self._creation(tables))

    def add(self, tables: Sequence[SourceTable]) -> None:
        if tables:
            self._run(self._addition(tables))

    def creating(self, tables: Sequence[SourceTable]) -> str:
        """The statement that makes it."""
        return self._creation(tables).as_string(self._connection)

    def adding(self, tables: Sequence[SourceTable]) -> str:
        """The statement that adds the tables to it."""
        return self._addition(tables).as_string(self._connection)

    def is_ours(self) -> bool:
        """Whether the role may change it."""
        query = "SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %s"
        return bool(_one(self._connection, query, self.name))

    def _creation(self, tables: Sequence[SourceTable]) -> sql.Composed:
        clause = sql.SQL(" FOR TABLE {}").format(listing(tables, ONLY)) if tables else sql.SQL("")
        return sql.SQL("CREATE PUBLICATION {}{} WITH (publish_via_partition_root = true)").format(
            self._identifier, clause
        )

    def _addition(self, tables: Sequence[SourceTable]) -> sql.Composed:
        return sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(self._identifier, listing(tables, ONLY))

    def keep_only(self, tables: Sequence[SourceTable]) -> None:
        """Take every other table out; a publication FOR ALL TABLES or of another owner stays as it is."""
        wanted = {table.oid for table in tables}
        rows = self._connection.execute(
            "SELECT n.nspname, c.relname, c.oid FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid "
            "JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE p.pubname = %s AND pg_has_role(p.pubowner, 'USAGE')",
            (self.name,),
        )
        extra = [sql.SQL(ONLY) + sql.Identifier(schema, table) for schema, table, oid in rows if oid not in wanted]
        if extra:
            self._run(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(self._identifier, sql.SQL(", ").join(extra)))

    def check_form(self, tables: Sequence[SourceTable]) -> None:
        """Raises ``HeadraceError`` source.setup when it would leave changes of the tables out."""
        whole, via_root = self._connection.execute(
            "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot "
            "FROM pg_publication WHERE pubname = %s",
            (self.name,),
        ).fetchone() or (True, True)
        why = ""
        if not whole:
            why = "it does not publish insert, update, delete and truncate"
        elif not via_root and any(table.partitioned for table in tables):
            why = "it does not publish partitioned tables by their root"
        elif self._connection.info.server_version >= 150_000 and _one(
            self._connection,
            "SELECT count(*) FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid "
            "WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)",
            self.name,
        ):
            why = "it has row filters or column lists"
        if why:
            raise HeadraceError(
                "source.setup",
                f"the publication {self.name} leaves changes out",
                where=self._where,
                why=why,
                next=f"DROP PUBLICATION {self._identifier.as_string(self._connection)}, or name another one in the "
                "source's option 'publication'",
            )

    def drop(self) -> None:
        """Remove it; another owner's stays."""
        if self.is_ours():
            self._run(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(self._identifier))

    def _run(self, statement: sql.Composed) -> None:
        try:
            self._connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege as error:
            raise HeadraceError(
                "source.rights",
                "the role may not make or change the publication",
                where=self._where,
                why=str(error).splitlines()[0] + " (a publication's maker must own its tables and have CREATE on the "
                "database)",
                next="as the tables' owner or a superuser: " + statement.as_string(self._connection),
            ) from error
        except psycopg.Error as error:
            raise failure(error, self._where) from error


# --- slot -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlotState:
    """A replication slot as the server shows it."""

    active_pid: int | None
    plugin: str
    database: str
    invalid: str  # why it cannot be read any more, or ""
    confirmed: str  # the LSN up to which its readers have all


def slot_state(connection: psycopg.Connection[Any], slot: str) -> SlotState | None:
    row = _one(connection, "SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s", slot)
    if row is None:
        return None
    invalid = row.get("invalidation_reason") or ("conflict with recovery" if row.get("conflicting") else "")
    if row["wal_status"] == "lost":
        invalid = invalid or "max_slot_wal_keep_size"
    confirmed = row["confirmed_flush_lsn"] or "0/0"
    return SlotState(row["active_pid"], row["plugin"] or "", row["database"] or "", invalid, confirmed)


def usable_slot(connection: psycopg.Connection[Any], slot: str, where: str) -> SlotState | None:
    """The slot once nobody reads it, or None when there is none. Raises ``HeadraceError`` source.setup."""
    give_up = time.monotonic() + INACTIVE_SECONDS_MAX
    while True:
        state = slot_state(connection, slot)
        if state is None or state.active_pid is None:
            break
        if time.monotonic() > give_up:
            raise HeadraceError(
                "source.setup",
                f"the replication slot {slot} is in use",
                where=where,
                why=f"the server's process {state.active_pid} reads it",
                next="stop the other reader, or name another slot in the source's option 'slot'",
            )
        time.sleep(0.05)
    if state and (state.plugin != "pgoutput" or state.database != connection.info.dbname):
        raise HeadraceError(
            "source.setup",
            f"the replication slot {slot} is someone else's",
            where=where,
            why=f"it belongs to the database {state.database} and the plugin {state.plugin}",
            next="name another slot in the source's option 'slot'",
        )
    return state


def drop_slot(connection: psycopg.Connection[Any], slot: str, where: str) -> None:
    """Remove the slot when it is there and free."""
    if usable_slot(connection, slot, where) is not None:
        connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


def _one(connection: psycopg.Connection[Any], query: Any, *parameters: Any) -> Any:
    row = connection.execute(query, parameters or None).fetchone()
    return row[0] if row else None
