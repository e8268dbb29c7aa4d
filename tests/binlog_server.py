"""Real servers of MariaDB and MySQL for tests: one a session, a database a test, and a client's own reading as judge."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch
from headrace.testing import mariadb, mysql
from headrace.testing.mysqld import Mysqld

LOOK_SECONDS = 0.5
WAIT_SECONDS = 30.0
KINDS: dict[str, type[Mysqld]] = {"MariaDB": mariadb.MariadbServer, "MySQL": mysql.MysqlServer}


def _skip_without_server() -> None:
    """Continuous integration has to have it; elsewhere the tests tell why they are left out."""
    try:
        import pymysqlreplication  # noqa: F401

        mariadb.find_binaries()
    except (ImportError, RuntimeError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{error} (make setup test-deps)", allow_module_level=True)


_skip_without_server()

from headrace.sources.connectors.mysql.connector import MysqlSource  # noqa: E402 - needs the library
from postgres_server import Replica, drain  # noqa: E402


@pytest.fixture(scope="session", params=KINDS)
def server_kind(request: pytest.FixtureRequest) -> type[Mysqld]:
    """Of MariaDB or of MySQL, where that can be had."""
    kind = KINDS[request.param]
    if kind is mysql.MysqlServer:
        try:
            mysql.find_program()
        except RuntimeError as error:
            pytest.skip(str(error))
    return kind


@pytest.fixture(scope="session")
def binlog_server(server_kind: type[Mysqld]) -> Iterator[Mysqld]:
    """One server for the whole session; use a database of one's own in it."""
    with server_kind() as server:
        yield server


@pytest.fixture
def followed(binlog_server: Mysqld, request: pytest.FixtureRequest) -> Iterator[Followed]:
    """A fresh database and what follows it, dropped afterwards."""
    name = f"t_{abs(hash(request.node.nodeid)) % 10**12}_{time.monotonic_ns() % 10**6}"
    binlog_server.sql(f"CREATE DATABASE {name}")
    one = Followed(binlog_server, name)
    yield one
    one.close()
    binlog_server.sql(f"DROP DATABASE {name}")


def numbers(server: Mysqld, last: int) -> str:
    """What a FROM takes for the numbers from 1 to ``last``, as the column ``seq``."""
    if isinstance(server, mariadb.MariadbServer):
        return f"seq_1_to_{last}"
    counting = f"SELECT 1 UNION ALL SELECT seq + 1 FROM counted WHERE seq < {last}"
    return f"(WITH RECURSIVE counted (seq) AS ({counting}) SELECT seq FROM counted) AS numbers"


def counted(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """A multiset of whole rows; -0.0 is not 0.0."""
    return Counter(tuple(repr(v) if isinstance(v, float) else v for v in row) for row in rows)


class Followed:
    """Tables that are followed, rebuilt from what is delivered, beside an ordinary client that reads them."""

    def __init__(self, server: Mysqld, database: str) -> None:
        self.server, self.database = server, database
        self.is_mariadb = isinstance(server, mariadb.MariadbServer)
        self.client = server.connect(database)
        self.run("SET time_zone = '+00:00', sql_mode = ''")
        self.told: list[dict[str, Any]] = []
        self.position, self.transactions = "", 0
        self.tables: tuple[str, ...] = ()
        self.batches: list[TransactionBatch] = []
        self.source = self.made()

    def made(self, **options: Any) -> MysqlSource:
        """A source as another process would make it."""
        settings = self.server.options(self.database, heartbeat_seconds=LOOK_SECONDS, **options)
        source = MysqlSource(self.database, settings)
        source.tell = self.told.append
        return source

    def close(self) -> None:
        self.source.close()
        self.client.close()

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Statements of one client in autocommit; the rows of the last."""
        with self.client.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def numbers(self, last: int) -> str:
        return numbers(self.server, last)

    def last_gtid(self) -> str:
        """By which the last commit of the client can be waited for."""
        return str(self.run(f"SELECT {'@@last_gtid' if self.is_mariadb else '@@GLOBAL.gtid_executed'}")[0][0])

    def names_written(self, yes: bool) -> None:
        """Whether the server writes the names of columns to its log."""
        less = "NO_LOG" if self.is_mariadb else "MINIMAL"
        self.server.sql(f"SET GLOBAL binlog_row_metadata = '{'FULL' if yes else less}'")

    def begin(self, *tables: str, **options: Any) -> None:
        """Start anew and take all there is, which is what a client reads; nobody may write meanwhile."""
        self.starts(*tables, **options)
        for batch in drain(self.source, at_least=0, quiet_s=0.1):
            self.take(batch)

    def starts(self, *tables: str, **options: Any) -> None:
        """Start anew and take the first copy."""
        self.source.close()
        self.tables = tables
        self.source = self.made(**options)
        self.replica = Replica(self.source)
        self.source.start(frozenset(tables), None)
        give_up = time.monotonic() + WAIT_SECONDS
        while (batch := self.source.poll(0.1)) is None:
            assert time.monotonic() < give_up, "the first copy does not come"
        self.take(batch)

    def take(self, batch: TransactionBatch) -> None:
        self.replica.apply_all([batch])
        self.position = batch.origins[-1].position
        self.transactions += len(batch.origins)
        self.source.confirm(batch, 0)
        self.batches.append(batch)

    def does(self, *statements: str) -> None:
        """One transaction of these statements; then what was delivered is what a client reads."""
        self.run("BEGIN", *statements, "COMMIT")
        self.catches_up()
        self.is_same()

    def catches_up(self) -> None:
        """Polls until the source has seen all that is at the server now."""
        there = self.source.holding(self.end(), frozenset(self.tables))
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            batch = self.source.poll(0.05)
            if batch is not None:
                self.take(batch)
                continue
            seen = self.source.seen()
            if seen is not None and there(seen) and self.source.caught_up():
                return
            assert time.monotonic() < give_up, "the source does not catch up"

    def end(self) -> str:
        """The end of the server's log, as its users read it."""
        file, offset = self.server.sql("SHOW BINARY LOGS")[-1][:2]
        return f"{file}:{offset}"

    def restarts(self, position: str | None = None, **options: Any) -> None:
        """As another process would, with what the server says then."""
        self.source.close()
        self.source = self.made(**options)
        self.replica.relations = self.replica.relations | {r.name: r for r in self.source.relations()}
        self.source.start(frozenset(self.tables), self.position if position is None else position)

    def stops(self, code: str) -> HeadraceError:
        """The error with which the source stops."""
        give_up = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < give_up:
            try:
                self.catches_up()
            except HeadraceError as error:
                assert error.code == code, error
                assert error.next
                return error
        raise AssertionError("it did not stop")

    def copied_anew(self) -> list[str]:
        """The tables of which it was told that they are copied anew."""
        found = [name for event in self.told if event["event"] == "source.copied_anew" for name in event["tables"]]
        self.told.clear()
        return found

    def is_same(self) -> None:
        for name in self.tables:
            found, there = counted(self.replica.contents(name)), counted(self.held(name))
            assert found == there, f"{name}: found {list(found - there)[:3]}, there are {list(there - found)[:3]}"

    def held(self, name: str) -> list[tuple[Any, ...]]:
        """The table as an ordinary client reads it, in the forms that the product gives such values."""
        relation = self.replica.relations[name]
        types = {
            column: (kind, column_type)
            for column, kind, column_type in self.run(
                "SELECT column_name, data_type, column_type FROM information_schema.columns "
                f"WHERE table_schema = '{self.database}' AND table_name = '{name}'"
            )
        }
        # The client's text protocol prints six digits of a float; a time is text for us.
        spelled = {"float": "`{0}` * 1e0", "time": "CAST(`{0}` AS CHAR)"}
        chosen = [
            ("CAST(`{0}` AS CHAR)" if c.type == "string" else spelled.get(types[c.name][0], "`{0}`")).format(c.name)
            for c in relation.columns
        ]
        rows = self.run(f"SELECT {', '.join(chosen)} FROM `{name}`")
        return [tuple(_shaped(v, c.type) for v, c in zip(row, relation.columns, strict=True)) for row in rows]


def _shaped(value: Any, type_text: str) -> Any:
    """A client's value as the product hands such a one on."""
    if value is None or (isinstance(value, str) and type_text != "string"):  # pymysql's reading of what is no day
        return value
    if type_text == "boolean":
        return value == b"\1"
    if isinstance(value, bytes) and type_text in ("bigint", "decimal(20,0)"):
        return int.from_bytes(value, "big") if type_text == "bigint" else Decimal(int.from_bytes(value, "big"))
    if type_text == "decimal(20,0)":
        return Decimal(value)
    if type_text == "timestamp":
        return value.replace(tzinfo=UTC)
    assert isinstance(value, (int, float, str, bytes, date, datetime, timedelta)) or type_text.startswith("decimal")
    return value
