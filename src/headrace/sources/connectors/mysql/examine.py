"""Everything that a server and a user lack for a source, at once, each with the statement that gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pymysql.err import MySQLError

from headrace.model.errors import HeadraceError
from headrace.model.finding import MISSING, OK, WARNING, Finding
from headrace.sources.connectors.mysql import announce, introspect, setup
from headrace.sources.connectors.mysql.config import MysqlOptions


def examine(
    options: MysqlOptions, arguments: Mapping[str, Any], reader_id: int, where: str, wanted: Callable[[str], bool]
) -> Iterator[Finding]:
    """Changes nothing. ``wanted``: whether views read the table of that name.

    Raises ``HeadraceError`` source.connect, source.auth, config.secret, source.no_table, which end it.
    """
    with setup.told(where), setup.connect(arguments, where) as side:
        yield Finding(OK, f"connects to {options.database} at {options.host}:{options.port}, {setup.version(side)}")
        tables = [t for name, t in sorted(introspect.tables(side, options).items()) if wanted(name)]
        lacking = setup.lacking_rights(side, tables)
        for right, statement in lacking:
            yield Finding(MISSING, f"the user lacks {right}", "as an administrator: " + statement)
        if not lacking:
            yield Finding(OK, f"the user may replicate and read {len(tables)} tables")
        if not any("BINLOG MONITOR" in right or "CLIENT" in right for right, _ in lacking):
            problems = list(setup.wrong(side, sorted({table.database for table in tables} or {options.database})))
            for what, why, hint in problems:
                yield Finding(MISSING, what, hint, why=why)
            if not problems:
                yield Finding(OK, "the binary log holds whole rows")
        if not setup.names_are_written(side):
            yield Finding(
                WARNING,
                "binlog_row_metadata is not FULL: columns are told apart by the catalogue, and every ALTER TABLE has "
                "its table copied anew",
                "SET GLOBAL binlog_row_metadata = FULL, and the same in the server's configuration",
            )
        yield _number(side, reader_id)
        for table in tables:
            try:
                announce.check_readable(table, options.cascades, where)
            except HeadraceError as error:
                yield Finding.of(error)
            else:
                yield from (Finding(WARNING, text) for text in announce.warnings(table))


def _number(side: Any, reader_id: int) -> Finding:
    """Whether no other replica has our number: of two with one number the server ends the first."""
    taken = {setup.rows(side, "SELECT @@server_id")[0][0]: "the server itself"}
    for statement in ("SHOW SLAVE HOSTS", "SHOW REPLICAS"):  # the former's name in MySQL 8.4
        with suppress(MySQLError):  # it takes more rights than following does
            taken |= {row[0]: f"a replica at {row[1] or 'an unknown host'}" for row in setup.rows(side, statement)}
    if reader_id in taken:
        return Finding(
            MISSING, f"the number {reader_id} belongs to {taken[reader_id]}", "give another one as 'server_id'"
        )
    return Finding(OK, f"reads as replica number {reader_id}")
