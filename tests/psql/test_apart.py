"""Goal: a statement that is answered in a process of its own is answered as any other, and ends when it is to end.

Method: the corpora of this folder both ways, as nothing is held to be plain the second time; cursors, parameters, COPY, and
steps that are published meanwhile, by value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import psutil
import psycopg
import pytest
from test_like_postgresql import COLUMNS, COPIES, CORPUS, ERRORS, PARAMETERS, ROWS, UNDECLARED, answered, types_told

from headrace.api.postgres import apart, reading
from headrace.api.postgres.server import PostgresServer
from processes import runs
from psql_project import Views, connect, serving

CLIENTS = [text.partition("\n")[2] for text in Path(__file__).with_name("clients.sql").read_text().split("\n\n")[1:]]
COUNT = 20_000


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Views:
    views = Views(tmp_path_factory.mktemp("apart") / "p")
    views.view("kinds", COLUMNS, ("id",))
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",))
    views.relation("keyed", {"area": "int", "n": "bigint", "id": "int"}, ("area", "id"))
    views.step(kinds=[(*row, 1) for row in ROWS], sums=[(i, i, 1) for i in range(COUNT)])
    return views


@pytest.fixture(scope="module")
def served(views: Views) -> Iterator[PostgresServer]:
    with serving(views) as server:
        yield server


@pytest.fixture
def connection(served: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with connect(served, autocommit=True) as connection:
        yield connection


def tried(work: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What it gives, or what a client is told of why not."""
    try:
        return work(*given, **named)
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_detail, error.diag.message_hint


def copied(connection: psycopg.Connection[Any], statement: str) -> bytes:
    with connection.cursor().copy(statement) as copy:
        return b"".join(bytes(part) for part in copy)


def test_a_statement_is_answered_apart_as_it_is_beside_the_others(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, names and types of columns, text and binary, bytes of COPY, plans, and errors with all that they say."""
    port = connection.info.port

    def story() -> Iterator[Any]:
        for statement in (*CORPUS, *CLIENTS):
            for binary in (False, True):
                yield statement, tried(answered, connection, statement, binary=binary)
        for statement, parameters in PARAMETERS:
            for binary in (False, True):
                yield statement, answered(connection, statement, binary=binary, parameters=parameters)
        for statement in UNDECLARED:
            yield statement, types_told(port, statement)
        for statement in COPIES:
            yield statement, copied(connection, statement)
        for statement in (
            *ERRORS,
            "SELECT n FROM sum",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT nope(n) FROM sums",
        ):
            yield statement, tried(answered, connection, statement, binary=False)
        yield "plan", connection.execute("EXPLAIN VERBOSE SELECT n FROM sums WHERE id > 3").fetchall()

    beside = list(story())
    asked = list[str]()
    monkeypatch.setattr(reading, "plain", lambda *given: asked.append(""))
    for one, other in zip(beside, story(), strict=True):
        assert one == other
    assert len(asked) > 150


def test_statements_apart_read_the_transaction_s_commit(views: Views, served: PostgresServer) -> None:
    many = "SELECT n, string_agg('x', '') FROM sums WHERE id = 5 GROUP BY n"
    with connect(served) as connection, connect(served, autocommit=True) as other:
        assert connection.execute(many).fetchone() == (5, "x")
        connection.execute("DECLARE c CURSOR FOR SELECT repeat('x', 1), n FROM sums WHERE id < 7 ORDER BY id")
        views.step(sums=[(5, 5, -1), (5, 50, 1)])
        assert connection.execute(many).fetchone() == (5, "x")
        assert connection.execute("SELECT n FROM sums WHERE id = 5").fetchone() == (5,)
        assert other.execute(many).fetchone() == (50, "x")
        assert connection.execute("FETCH 2 FROM c").fetchall() == [("x", 0), ("x", 1)]
        assert connection.execute("FETCH ALL FROM c").fetchall()[-2:] == [("x", 5), ("x", 6)]
        connection.rollback()
        views.step(sums=[(5, 50, -1), (5, 5, 1)])
        assert connection.execute(many).fetchone() == (5, "x")


def test_rows_from_apart_are_fetched_as_any_others(connection: psycopg.Connection[Any]) -> None:
    """In parts, in both forms, by a portal; parameters are bound, and a statement is described before it is."""
    expected = [(i, [i], "ab" * (i % 3)) for i in range(COUNT)]
    statement = "SELECT id, [id] AS ids, repeat(%s, id %% 3) AS t FROM sums ORDER BY id"
    with connection.transaction(), connection.cursor("part", binary=True) as part:
        part.itersize = 7_001
        part.execute(statement, ("ab",))
        assert list(part) == expected
    with connection.cursor() as cursor:
        assert list(cursor.stream(statement, ("ab",), size=100)) == expected
        cursor.execute(statement, ("ab",), prepare=True)
        assert [(c.name, c.type_code) for c in cursor.description or ()] == [("id", 23), ("ids", 1007), ("t", 25)]
        assert cursor.fetchall() == expected
    with connection.transaction():
        connection.execute(
            "DECLARE c CURSOR FOR SELECT id, [id] AS ids, repeat('ab', id % 3) AS t FROM sums ORDER BY id"
        )
        assert connection.cursor(binary=True).execute("FETCH 7 FROM c").fetchall() == expected[:7]
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="all as text or all in binary"):
            connection.execute("FETCH 1 FROM c")
    assert (
        copied(connection, "COPY (SELECT repeat('a', id) FROM sums WHERE id < 3 ORDER BY id) TO STDOUT") == b"\na\naa\n"
    )
    large = connection.execute("SELECT repeat('a', 9000000), id FROM sums WHERE id < 2 ORDER BY id").fetchall()
    assert large == [("a" * 9_000_000, 0), ("a" * 9_000_000, 1)]
    mixed = connection.execute(
        "SELECT CASE WHEN id % 3 > 0 THEN repeat('é', id * 100) END FROM sums WHERE id < 50 ORDER BY id"
    )
    assert mixed.fetchall() == [("é" * i * 100 if i % 3 else None,) for i in range(50)]
    long = "SELECT id FROM sums WHERE id IN (" + ", ".join(map(str, range(0, COUNT, 2))) + ") ORDER BY id"
    assert connection.execute(long.encode()).fetchall() == [(i,) for i in range(0, COUNT, 2)]


def copies() -> list[psutil.Process]:
    """The processes of statements that run."""
    answering = [each for each in psutil.Process().children() if "headrace.serve.asking" in " ".join(each.cmdline())]
    return [copy for each in answering for copy in each.children() if runs(copy)]


def test_a_statement_apart_ends_with_its_time_or_when_it_is_cancelled(
    served: PostgresServer, connection: psycopg.Connection[Any]
) -> None:
    endless = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT 1 - n FROM r) SELECT sum(n) FROM r"
    assert connection.execute("SELECT repeat('x', 3)").fetchone() == ("xxx",)  # it is at work

    def gone() -> None:
        end = time.monotonic() + 10
        while copies() and time.monotonic() < end:
            time.sleep(0.01)
        assert not copies()

    Timer(2, connection.cancel_safe).start()
    began = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled) as ended:
        connection.execute(endless)
    assert time.monotonic() - began < 20 and "the client asked" in str(ended.value.diag.message_detail)
    gone()
    connection.execute("SET statement_timeout = '3s'")
    with pytest.raises(psycopg.errors.QueryCanceled, match=r"took more than 3 seconds"):
        connection.execute(endless)
    gone()
    connection.execute("RESET statement_timeout")
    assert connection.execute("SELECT repeat('x', 3)").fetchone() == ("xxx",)


def test_an_answer_has_an_end_and_all_that_wait_have_one_together(
    served: PostgresServer, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "SELECT repeat('x', 1000) FROM sums"
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=r"more than 256 MiB"):
        connection.execute("SELECT repeat('x', 15000) FROM sums")
    with pytest.raises(psycopg.errors.OutOfMemory):
        connection.execute(("SELECT 1" + ", 1" * 250_000).encode())
    reader = served._reader
    assert reader is not None
    monkeypatch.setattr(reader, "held", apart.Held(30 << 20))
    with connect(served) as other:
        other.execute(f"DECLARE c CURSOR FOR {statement}".encode())
        with pytest.raises(psycopg.errors.OutOfMemory) as ended:
            connection.execute(statement.encode())
        assert ended.value.diag.message_detail == "answers of 19 MiB wait to be fetched already"
        assert len(other.execute("FETCH ALL FROM c").fetchall()) == COUNT
        other.commit()
        assert len(connection.execute(statement.encode()).fetchall()) == COUNT
