"""Goal: a client cannot tell what it reads here from what PostgreSQL itself would have answered.

Method: the same rows in a real PostgreSQL; each statement of corpus.sql through psycopg on both, as text and in binary
form, with the types and names of the columns.
"""

from __future__ import annotations

import datetime as dt
import math
import socket
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import DiagnosticField, ExecStatus
from pygwire import BackendMessageDecoder, ConnectionPhase
from pygwire.messages import (
    Describe,
    ErrorResponse,
    ParameterDescription,
    Parse,
    ReadyForQuery,
    StartupMessage,
    Sync,
)

from headrace.formats.types.postgres import from_spark
from headrace.testing.postgres import PostgresServer
from psql_project import Views, connect, serving

CORPUS = (Path(__file__).with_name("corpus.sql")).read_text().split("\n\n")[1:]
COLUMNS = {
    "id": "int", "flag": "boolean", "small": "smallint", "whole": "int", "large": "bigint", "single": "float",
    "twofold": "double", "amount": "decimal(12,2)", "label": "string", "day": "date", "moment": "timestamp",
    "clock": "timestamp_ntz", "bytes": "binary", "words": "array<string>", "numbers": "array<int>",
}  # fmt: skip
UTC = dt.UTC
ROWS: list[tuple[Any, ...]] = [
    (1, True, 1, 7, 2**62, 0.5, 1e-7, Decimal("12.50"), "plain", dt.date(2024, 2, 29),
     dt.datetime(2024, 2, 29, 23, 59, 59, 999999, UTC), dt.datetime(2024, 1, 1), b"\x00\xff\\", ["a b", ""], [1, 2]),
    (2, False, -1, -7, -(2**62), 1e20, 123456789012345680.0, Decimal("-0.01"), 'b"q,\\ {}\t\n\r\b\f\v|;', dt.date(1969, 7, 20),
     dt.datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC), dt.datetime(2024, 1, 1, 1, 2, 3, 500000), b"", ["NULL", None], []),
    (3, None, 0, 0, 0, 1.1, 0.1, Decimal("0.00"), "", dt.date(9999, 12, 31), dt.datetime(2000, 1, 1, tzinfo=UTC),
     dt.datetime(1900, 1, 1), b"a", ['q"\\', "{x}"], [None, -3]),
    (4, True, 32767, 2147483647, 9, math.inf, math.nan, Decimal("9999999999.99"), "häß 🦆", dt.date(2000, 1, 1),
     dt.datetime(2030, 6, 1, 12, tzinfo=UTC), dt.datetime(2030, 6, 1, 12, 0, 0, 1), b"x" * 300, [], [7]),
    (5, *[None] * 14),
]  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    """(to Headrace, to PostgreSQL)"""
    views = Views(tmp_path_factory.mktemp("like") / "p")
    views.view("kinds", COLUMNS, ("id",))
    views.step(kinds=[(*row, 1) for row in ROWS])
    with PostgresServer() as server, serving(views) as served:
        server.psql("CREATE ROLE ada LOGIN SUPERUSER")
        server.create_database("shop")
        with psycopg.connect(server.dsn_for("shop", "ada"), autocommit=True) as there:
            there.execute("SET default_transaction_isolation = 'repeatable read'")
            kinds = ", ".join(f"{name} {from_spark(kind)}" for name, kind in COLUMNS.items())
            there.execute(f"CREATE TABLE kinds ({kinds})".encode())
            marks = sql.SQL(", ").join(sql.Placeholder() * len(COLUMNS))
            there.cursor().executemany(sql.SQL("INSERT INTO kinds VALUES ({})").format(marks), ROWS)
            with connect(served, autocommit=True) as here:
                yield here, there


def answered(connection: psycopg.Connection[Any], statement: str, *, binary: bool, parameters: Any = None) -> Any:
    cursor = connection.cursor(binary=binary)
    cursor.execute(statement.encode(), parameters)
    assert cursor.description is not None
    return [(c.name, c.type_code) for c in cursor.description], [
        tuple(map(comparable, row)) for row in cursor.fetchall()
    ]


def comparable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.postgres
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("statement", CORPUS, ids=range(len(CORPUS)))
def test_a_statement_gives_what_postgresql_gives(both: Any, statement: str, binary: bool) -> None:
    here, there = (answered(connection, statement, binary=binary) for connection in both)
    assert here == there


PARAMETERS: list[tuple[str, tuple[Any, ...]]] = [
    ("SELECT id FROM kinds WHERE id = %s", (2,)),
    ("SELECT id FROM kinds WHERE label = %s", ("plain",)),
    ("SELECT id FROM kinds WHERE id > %s AND flag = %s ORDER BY id", (1, True)),
    ("SELECT id FROM kinds WHERE amount = %s", (Decimal("12.50"),)),
    ("SELECT id FROM kinds WHERE day = %s", (dt.date(2024, 2, 29),)),
    ("SELECT id FROM kinds WHERE day = %s", ("2024-02-29",)),
    ("SELECT id FROM kinds WHERE moment < %s ORDER BY id", (dt.datetime(2001, 1, 1, tzinfo=UTC),)),
    ("SELECT id FROM kinds WHERE clock = %s", (dt.datetime(2024, 1, 1),)),
    ("SELECT id FROM kinds WHERE bytes = %s", (b"\x00\xff\\",)),
    ("SELECT id FROM kinds WHERE id = ANY(%s) ORDER BY id", ([1, 3],)),
    ("SELECT id FROM kinds WHERE twofold > %s ORDER BY id", (0.01,)),
    ("SELECT %s::int + 1, %s::text, %s::numeric", (1, "a'b", Decimal("1.25"))),
    ("SELECT id FROM kinds WHERE flag = %s OR flag = %s OR flag = %s ORDER BY id", ("TRUE", "1", " Yes ")),
    ("SELECT id FROM kinds WHERE flag = %s OR flag = ANY(%s) ORDER BY id", ("0", "{T, on}")),
    ("SELECT id FROM kinds WHERE day = %s OR day = %s", ("2024-02-29 +01", "1969-07-20T00:00:00.000+00:00")),
    (
        "SELECT id FROM kinds WHERE id = ANY(CAST(%s AS int[])) AND id >= CAST(%s AS integer) ORDER BY id",
        ('{1, "2",3 }', "2"),
    ),
    ("SELECT %s::timestamp with time zone, CAST(%s AS timestamp with time zone)", ("2024-01-01 00:00:00+01",) * 2),
    ("SELECT CAST(%s AS jsonb) ->> 'a', %s::jsonb ->> 'b'", ('{"a": 1}', '{"b": [true]}')),
    (
        "SELECT relname::text FROM pg_catalog.pg_class WHERE relkind = ANY(%s) AND relname = ANY(%s)",
        ("{r, v, i}", "{kinds, none}"),
    ),
    ("SELECT id FROM kinds WHERE label = %s OR %s::text IS NULL ORDER BY id LIMIT %s", ("x", None, 2)),
]


@pytest.mark.postgres
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(("statement", "parameters"), PARAMETERS, ids=range(len(PARAMETERS)))
def test_parameters_are_bound_as_postgresql_binds_them(
    both: Any, statement: str, parameters: tuple[Any, ...], binary: bool
) -> None:
    here, there = (answered(each, statement, binary=binary, parameters=parameters) for each in both)
    assert here == there


UNDECLARED = [
    "SELECT label FROM kinds WHERE id = $1 AND amount > $2", "SELECT id FROM kinds WHERE day BETWEEN $1 AND $2",
    "SELECT id FROM kinds WHERE large IN ($1, $2) LIMIT $3 OFFSET $4", "SELECT $1::date, $2::text, $3::float8",
    "SELECT id FROM kinds k WHERE EXISTS (SELECT 1 FROM kinds i WHERE i.twofold = $1 AND i.moment < $2 AND flag = $3)",
]  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize("statement", UNDECLARED)
def test_parameters_without_a_type_get_that_of_postgresql(both: Any, statement: str) -> None:
    """Drivers that ask first, as pgx and asyncpg, send values by these types."""
    found = [types_told(connection.info.port, statement) for connection in both]
    assert found[0] == found[1] and all(found[0])


def types_told(port: int, statement: str) -> list[int]:
    """Of the parameters of a statement that is prepared and described, by messages of our own."""
    decoder = BackendMessageDecoder()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(StartupMessage(params={"user": "ada", "database": "shop"}).to_wire())
        decoder.phase = ConnectionPhase.INITIALIZATION
        asked = (Parse(query=statement), Describe(kind="S"), Sync())
        while True:
            decoder.feed(client.recv(65_536))
            for message in decoder:
                if isinstance(message, ReadyForQuery) and asked:
                    client.sendall(b"".join(each.to_wire() for each in asked))
                    asked, decoder.phase = (), ConnectionPhase.EXTENDED_QUERY
                elif isinstance(message, ParameterDescription):
                    return message.type_oids
                assert not isinstance(message, ErrorResponse), message


COPIES = [
    "COPY (SELECT * FROM kinds ORDER BY id) TO STDOUT",
    "COPY (SELECT * FROM kinds ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER)",
    "COPY (SELECT * FROM kinds ORDER BY id) TO STDOUT WITH (FORMAT csv, NULL 'none', DELIMITER ';')",
    "COPY (SELECT id, label FROM kinds ORDER BY id) TO STDOUT (DELIMITER '|')",
    "COPY (SELECT id, large, label, day, moment, bytes, amount, numbers FROM kinds ORDER BY id) TO STDOUT (FORMAT binary)",
    "COPY (SELECT id FROM kinds WHERE id > 9) TO STDOUT (FORMAT binary)",
]


@pytest.mark.postgres
@pytest.mark.parametrize("statement", COPIES, ids=range(len(COPIES)))
def test_copy_gives_the_bytes_that_postgresql_gives(both: Any, statement: str) -> None:
    found = []
    for connection in both:
        with connection.cursor().copy(statement) as copy:
            found.append([bytes(part) for part in copy])
    assert found[0] == found[1]  # message by message


ERRORS = {
    "SELECT nope FROM kinds": "42703", "SELECT * FROM nope": "42P01", "SELEC 1": "42601", "SELECT 'x'::int": "22P02",
    "SELECT nope(1)": "42883", "SELECT (SELECT id FROM kinds)": "21000", "SELECT 9223372036854775807 + id FROM kinds": "22003",
    "SHOW nope": "42704", "FETCH nope": "34000",
}  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize(("statement", "state"), list(ERRORS.items()))
def test_an_error_has_the_sqlstate_that_postgresql_has(both: Any, statement: str, state: str) -> None:
    states = []
    for connection in both:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.encode())
        states.append(caught.value.sqlstate)
    assert states == [state, state]


@pytest.mark.postgres
def test_a_statement_that_is_only_prepared_is_told_its_error(both: Any) -> None:
    """A driver that waits for it, as pg8000 does, sends no more of that statement."""
    for connection in both:
        failed = connection.pgconn.prepare(b"wrong", b"SELECT nope FROM kinds")
        assert failed.error_field(DiagnosticField.SQLSTATE) == b"42703"
        assert connection.pgconn.prepare(b"wrong", b"SELECT id FROM kinds").status == ExecStatus.COMMAND_OK
        connection.execute("DEALLOCATE wrong")


@pytest.mark.postgres
def test_commands_have_the_tags_of_postgresql(both: Any) -> None:
    for statement, tag in (
        ("SHOW server_version", "SHOW"),
        ("EXPLAIN VERBOSE SELECT id FROM kinds", "EXPLAIN"),
        ("SELECT 1", "SELECT 1"),
    ):
        assert [each.execute(statement).statusmessage for each in both] == [tag, tag]
