"""What a server must have and allow, and connections to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.err import MySQLError

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.mysql.introspect import SourceTable, quoted
from headrace.sources.connectors.mysql.position import Place

_AUTHENTICATION = (1045, 1698, 1251, 1820, 2059)
_RIGHTS = (1044, 1142, 1143, 1227)
_UNREACHED = (1040, 1049, 1053, 1130, 1203, 1927)
_WAITED = 1205  # as long as a lock may be waited for

Connection = pymysql.connections.Connection


def connect(arguments: Mapping[str, Any], where: str, **more: Any) -> Any:
    """A connection in autocommit. Raises ``HeadraceError`` source.connect, source.auth, source.rights."""
    try:
        return pymysql.connect(**{"autocommit": True, **arguments, **more})
    except (MySQLError, OSError, RuntimeError) as error:
        raise failure(error, where) from None  # the driver's exception may hold what it was called with


@contextmanager
def told(where: str) -> Iterator[None]:
    """A driver's error inside becomes the user's."""
    try:
        yield
    except (MySQLError, OSError) as error:
        raise failure(error, where) from error


def number(error: BaseException) -> int:
    """The server's or driver's number of an error, or 0."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def failure(error: BaseException, where: str) -> HeadraceError:
    """A driver's error as one that says what to do."""
    code = number(error)
    why = str(error.args[1]) if len(error.args) > 1 else str(error)
    if code in _AUTHENTICATION:
        return HeadraceError(
            "source.auth",
            "the server refuses the user or the password",
            where=where,
            why=why,
            next="check user and password (a secret reference: env:NAME or file:PATH) and from which hosts the user "
            "may connect",
        )
    if code in _RIGHTS:
        return HeadraceError("source.rights", "the user lacks a right", where=where, why=why)
    if code == _WAITED:
        return HeadraceError(
            "source.setup",
            "the first copy does not get the lock that it needs for a moment",
            where=where,
            why="a long statement, or a session with LOCK TABLES, is in the way; for longer no writer is held up",
            next="it is tried again by itself; SHOW FULL PROCESSLIST tells which it is: wait for it, or KILL it",
        )
    if 1000 <= code < 2000 and code not in _UNREACHED:
        return HeadraceError("source.setup", "the server refuses a command", where=where, why=f"{code}: {why}")
    if "cryptography" in why:  # what the driver says when MySQL's way to check a password needs it
        what = "the password cannot be sent without TLS"
        hint = "`tls: require`, or pip install 'headrace[mysql]'"
        return HeadraceError("source.connect", what, where=where, why=why, next=hint)
    what, hint = "the server cannot be reached", "check host, port and database, and that the server runs"
    if "support" in why and "SSL" in why:
        what = "the server cannot be trusted: it has no TLS"
        hint = "give the server a certificate; `tls: off` sends everything, the password's proof too, for all to read"
    elif "certificate" in why or "SSL" in why or "TLS" in why:
        what = "the server cannot be trusted: its certificate is not accepted"
        hint = "give the authority that signed the server's certificate as tls_ca; tls says how strict to be"
    return HeadraceError("source.connect", what, where=where, why=why, next=hint)


def rows(connection: Any, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def is_mariadb(connection: Any) -> bool:
    return "MariaDB" in connection.get_server_info()


def version(connection: Any) -> str:
    """``MariaDB 10.11.19`` or ``MySQL 8.4.2``."""
    number = connection.get_server_info().removeprefix("5.5.5-").partition("-")[0]
    return f"{'MariaDB' if is_mariadb(connection) else 'MySQL'} {number}"


def server(connection: Any) -> str:
    """Which server this is: of MySQL its uuid; MariaDB has its number alone, so its GTIDs are looked at too."""
    if is_mariadb(connection):
        return f"mariadb/{rows(connection, 'SELECT @@server_id')[0][0]}"
    return f"mysql/{rows(connection, 'SELECT @@server_uuid')[0][0]}"


def gtids_at(connection: Any, place: Place) -> str:
    """MariaDB's GTIDs at a place of its log, one a domain."""
    found = rows(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (place.file, place.offset))[0][0] or ""
    return found.decode() if isinstance(found, bytes) else str(found)


def gtids_executed(connection: Any) -> str:
    """MySQL's GTIDs of all that was committed."""
    found = rows(connection, "SELECT @@GLOBAL.gtid_executed")[0][0] or ""
    return "".join((found.decode() if isinstance(found, bytes) else str(found)).split()).lower()


def variables(connection: Any) -> dict[str, str]:
    """The server's settings that concern the binary log."""
    found = rows(
        connection, "SHOW GLOBAL VARIABLES WHERE Variable_name LIKE '%log_bin%' OR Variable_name LIKE 'binlog%'"
    )
    return {name.lower(): value for name, value in found}


def log_end(connection: Any) -> Place:
    """The place behind everything that has been written so far."""
    return _master_status(connection)[0]


def _master_status(connection: Any) -> tuple[Place, str, str]:
    """(end of the log, databases it is restricted to, databases left out)"""
    try:
        found = rows(connection, "SHOW MASTER STATUS")
    except pymysql.err.ProgrammingError:  # MySQL 8.4 has it no more
        found = rows(connection, "SHOW BINARY LOG STATUS")
    if not found:
        raise HeadraceError("source.setup", "the server writes no binary log", next=_RESTART.format("log_bin = binlog"))
    file, offset, only, without = (v.decode() if isinstance(v, bytes) else v for v in found[0][:4])
    return Place.of(file, int(offset)), only or "", without or ""


_RESTART = "in the server's configuration, under [mysqld]: {}; then restart the server"


def check_server(connection: Any, databases: Iterable[str], where: str) -> None:
    """Raises ``HeadraceError`` source.setup when the server's binary log does not hold all changes of rows."""
    for what, why, hint in wrong(connection, databases):
        raise HeadraceError("source.setup", what, where=where, why=why, next=hint)


def wrong(connection: Any, databases: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(what, why, what to do) of each setting that a source cannot do with."""
    found = variables(connection)
    if found.get("log_bin") != "ON":
        yield "log_bin is off", "the server writes no binary log", _RESTART.format("log_bin = binlog, server_id = 1")
        return
    wanted = (
        ("binlog_format", "ROW", "statements are written instead of the rows that they change"),
        ("binlog_row_image", "FULL", "columns that a change leaves alone are left out"),
        ("binlog_row_value_options", "", "changed parts of JSON values are written instead of the values"),
        ("binlog_transaction_compression", "OFF", "compressed transactions cannot be read"),
        ("log_bin_compress", "OFF", "compressed changes cannot be read"),
    )
    for name, value, why in wanted:
        if found.get(name, value).upper() != value:
            shown = f"'{value}'" if not value or name == "binlog_format" else value
            hint = f"SET GLOBAL {name} = {shown}; sessions that are connected keep theirs, so end them too"
            yield (
                f"{name} is {found[name]}, not {value or 'empty'}",
                why,
                f"{hint} ({_RESTART.format(f'{name} = {value}')})",
            )
    _, only, without = _master_status(connection)
    for database in databases:
        if (only and database not in only.split(",")) or database in without.split(","):
            yield (
                f"the binary log leaves the database {database} out",
                "binlog_do_db or binlog_ignore_db is set",
                _RESTART.format("neither of the two"),
            )


def names_are_written(connection: Any) -> bool:
    """Whether changes carry the names of their columns; else these are taken from the catalogue."""
    return variables(connection).get("binlog_row_metadata", "").upper() == "FULL"


def check_rights(connection: Any, tables: Iterable[SourceTable], where: str) -> None:
    """Raises ``HeadraceError`` source.rights with the statements that give what is missing."""
    missing = lacking_rights(connection, tables)
    if missing:
        raise HeadraceError(
            "source.rights",
            "the user lacks rights: " + ", ".join(right for right, _ in missing),
            where=where,
            next="as an administrator: " + "; ".join(statement for _, statement in missing),
        )


def lacking_rights(connection: Any, tables: Iterable[SourceTable]) -> list[tuple[str, str]]:
    """(right, the statement that gives it)"""
    user = _grantee(connection)
    everywhere = _global_rights(connection)
    if "ALL PRIVILEGES" in everywhere:
        return []
    monitor = "BINLOG MONITOR" if is_mariadb(connection) else "REPLICATION CLIENT"
    needed = ["REPLICATION SLAVE", monitor] if is_mariadb(connection) else ["REPLICATION SLAVE", monitor, "RELOAD"]
    alike = {
        "REPLICATION SLAVE": {"REPLICATION SLAVE", "REPLICATION REPLICA"},
        "RELOAD": {"RELOAD", "FLUSH_TABLES"},
    }
    missing = [
        (right, f"GRANT {right} ON *.* TO {user}") for right in needed if not everywhere & alike.get(right, {right})
    ]
    for table in tables:
        try:
            rows(connection, f"SELECT 1 FROM {table.quoted} LIMIT 0")  # noqa: S608 - a quoted name
        except MySQLError as error:
            if number(error) not in _RIGHTS:
                raise
            missing.append((f"SELECT on {table.qualified}", f"GRANT SELECT ON {table.quoted} TO {user}"))
    return missing


def _grantee(connection: Any) -> str:
    name, _, host = str(rows(connection, "SELECT CURRENT_USER()")[0][0]).rpartition("@")
    return f"{quoted(name)}@{quoted(host)}"


def _global_rights(connection: Any) -> frozenset[str]:
    """The rights on everything, the user's own and those of its active roles."""
    statements = ["SHOW GRANTS"]
    role = rows(connection, "SELECT CURRENT_ROLE()")[0][0]
    if role and role != "NONE":
        statements = ["SHOW GRANTS", "SHOW GRANTS FOR CURRENT_ROLE"]
        if not is_mariadb(connection):
            statements = [f"SHOW GRANTS FOR CURRENT_USER() USING {role}"]
    found: set[str] = set()
    for statement in statements:
        for (text,) in rows(connection, statement):
            rights, on, _ = text.removeprefix("GRANT ").partition(" ON *.* TO ")
            found |= {right.strip() for right in rights.split(",")} if on else set()
    return frozenset(found)


def lacking(connection: Any, tables: Iterable[SourceTable], where: str) -> list[str]:
    """What following the tables would end with first, as one text, or nothing."""
    tables = list(tables)
    try:
        check_rights(connection, tables, where)
        check_server(connection, {table.database for table in tables}, where)
    except HeadraceError as error:
        return [f"{error.what}: {error.next or error.why}"]
    return []
