"""Goal: connections, transactions, cursors and cancelling are as PostgreSQL's clients know them.

Method: psycopg on a served project whose steps are published by hand; what a transaction reads is compared with what was
published when it began.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pygwire.messages import Bind, CancelRequest, Execute, Flush, Parse, PasswordMessage, StartupMessage, Sync

from headrace.api.postgres.password import passwords
from headrace.api.postgres.reading import Asker
from headrace.api.postgres.server import PostgresServer
from headrace.governance.access import Access
from headrace.governance.principal import ANYONE, Principal
from headrace.governance.roles import Role
from headrace.model.errors import HeadraceError
from psql_project import Views, connect, serving

ROWS = 30_000


@pytest.fixture
def views(tmp_path: Path) -> Views:
    views = Views(tmp_path / "p")
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",), "SELECT id, sum(n) AS n FROM raw GROUP BY id")
    views.view("others", {"id": "int", "n": "bigint"}, ("id",))
    views.step(sums=[(i, i * 10, 1) for i in range(ROWS)], others=[(1, 1, 1)])
    return views


@pytest.fixture
def served(views: Views) -> Iterator[PostgresServer]:
    with serving(views) as server:
        yield server


def failing(state: str, connection: psycopg.Connection[Any], statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    assert caught.value.sqlstate == state, caught.value
    return caught.value


def move_one(views: Views, key: int, before: int, after: int) -> None:
    views.step(sums=[(key, before, -1), (key, after, 1)], others=[(1, views.commit, -1), (1, views.commit + 1, 1)])


def test_a_transaction_reads_one_commit_whatever_is_published_meanwhile(views: Views, served: PostgresServer) -> None:
    """Also of a view that it asks for only later."""
    with connect(served) as connection, connect(served, autocommit=True) as other:
        assert connection.execute("SELECT n FROM sums WHERE id = 5").fetchone() == (50,)
        move_one(views, 5, 50, 51)
        assert connection.execute("SELECT n FROM sums WHERE id = 5").fetchone() == (50,)
        assert connection.execute("SELECT n FROM others").fetchone() == (1,)
        assert other.execute("SELECT s.n, o.n FROM sums s, others o WHERE s.id = 5").fetchone() == (51, 2)
        connection.commit()
        assert connection.execute("SELECT s.n, o.n FROM sums s, others o WHERE s.id = 5").fetchone() == (51, 2)


def test_a_failed_transaction_takes_nothing_until_it_is_rolled_back(served: PostgresServer) -> None:
    with connect(served) as connection:
        failing("42P01", connection, "SELECT * FROM nope")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        failing("25P02", connection, "SELECT 1")
        connection.rollback()
        with connection.transaction():
            with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
                connection.execute("SELECT nope FROM sums")
            assert connection.execute("SELECT count(*) FROM sums").fetchone() == (ROWS,)


def test_what_would_write_is_refused_with_the_command_that_helps(served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        for statement in (
            "INSERT INTO sums VALUES (1, 2)",
            "TRUNCATE sums",
            "GRANT SELECT ON sums TO ada",
        ):
            error = failing("25006", connection, statement)
            assert str(error.diag.message_hint).startswith("CREATE, DROP and SHOW of a SOURCE, VIEW or SINK")
        failing("25006", connection, "COPY sums FROM STDIN")
        for statement in ("SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'"):
            with pytest.raises(psycopg.Error):
                connection.execute(statement.encode())
        assert failing("42P01", connection, "SELECT * FROM sum").diag.message_hint == "did you mean 'sums'?"


def test_a_result_comes_in_parts_and_a_portal_goes_on_where_it_stopped(served: PostgresServer) -> None:
    with connect(served) as connection:
        with connection.cursor("part", binary=True) as cursor:
            cursor.itersize = 7_001
            cursor.execute("SELECT id, n FROM sums WHERE id < %s ORDER BY id", (20_000,))
            assert [column.name for column in cursor.description or ()] == ["id", "n"]
            assert list(cursor) == [(i, i * 10) for i in range(20_000)]
        connection.execute("DECLARE c CURSOR FOR SELECT id FROM sums ORDER BY id")
        assert connection.execute("FETCH 2 FROM c").fetchall() == [(0,), (1,)]
        connection.execute("MOVE 3 FROM c")
        assert connection.execute("SELECT 1").fetchone() == (1,)  # another statement in between
        assert connection.execute("FETCH c").fetchall() == [(5,)]
        assert len(connection.execute("FETCH ALL FROM c").fetchall()) == ROWS - 6
        connection.execute("CLOSE c")
        failing("34000", connection, "FETCH c")
    with connect(served) as connection, connection.cursor() as cursor:
        assert sum(1 for _ in cursor.stream("SELECT * FROM sums", size=100)) == ROWS


def test_a_cursor_without_hold_ends_with_its_transaction(served: PostgresServer) -> None:
    with connect(served) as connection:
        for cursor, hold in (("plain", ""), ("without", "WITHOUT HOLD"), ("held", "WITH HOLD")):
            connection.execute(f"DECLARE {cursor} CURSOR {hold} FOR SELECT id FROM sums ORDER BY id".encode())
        connection.commit()
        assert connection.execute("FETCH 2 FROM held").fetchall() == [(0,), (1,)]
        for cursor in ("plain", "without"):
            failing("34000", connection, f"FETCH 1 FROM {cursor}")
            connection.rollback()
        connection.autocommit = True
        failing("34000", connection, "DECLARE without CURSOR WITHOUT HOLD FOR SELECT 1")


def test_a_move_passes_over_as_many_rows_as_it_says_and_ends_as_a_fetch_does(served: PostgresServer) -> None:
    with connect(served) as connection:
        connection.execute("DECLARE c CURSOR FOR SELECT id FROM sums ORDER BY id")
        for move, count in (("0", 0), ("2", 2), ("FORWARD 0", 0), ("NEXT", 1)):
            assert connection.execute(f"MOVE {move} FROM c".encode()).statusmessage == f"MOVE {count}"
        assert connection.execute("FETCH 0 FROM c").fetchall() == []
        assert connection.execute("FETCH 1 FROM c").fetchall() == [(3,)]
        assert connection.execute("MOVE ALL FROM c").statusmessage == f"MOVE {ROWS - 4}"
        connection.commit()
        for said, end in (
            ("took more than 0.3 seconds", lambda: connection.execute("SET LOCAL statement_timeout = '300ms'")),
            ("the client asked", threading.Timer(0.5, connection.cancel_safe).start),
        ):
            connection.execute("DECLARE long CURSOR FOR SELECT a.id FROM sums a, sums b")
            end()
            began = time.monotonic()
            error = failing("57014", connection, "MOVE ALL FROM long")
            assert said in f"{error} {error.diag.message_detail}" and time.monotonic() - began < 10
            connection.rollback()


def test_prepared_statements_are_kept_and_told_when_columns_have_changed(views: Views, served: PostgresServer) -> None:
    with connect(served, autocommit=True, prepare_threshold=0) as connection:
        for key in range(4):
            assert connection.execute("SELECT n FROM sums WHERE id = %s", (key,)).fetchone() == (key * 10,)
        with connection.pipeline():
            found = [connection.execute("SELECT n FROM sums WHERE id = %s", (key,)) for key in range(5)]
        assert [cursor.fetchone() for cursor in found] == [(key * 10,) for key in range(5)]


LONG = "SELECT count(*) FROM sums a, sums b, sums c WHERE a.n + b.n + c.n = 7"


def test_a_long_statement_is_cancelled_or_ends_at_its_timeout(served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        threading.Timer(1, connection.cancel_safe).start()
        began = time.monotonic()
        error = failing("57014", connection, LONG)
        assert time.monotonic() - began < 15 and "the client asked" in str(error.diag.message_detail)
        connection.execute("SET statement_timeout = '300ms'")
        assert "took more than 0.3 seconds" in str(failing("57014", connection, LONG))
        connection.execute("RESET statement_timeout")
        assert connection.execute("SELECT count(*) FROM sums").fetchone() == (ROWS,)


def test_no_statement_takes_longer_than_the_project_allows(views: Views) -> None:
    """0, which drivers set of their own accord, is the project's bound; a subscription is no statement that ends."""
    with serving(views, seconds=0.5) as served, connect(served, autocommit=True) as connection:
        for wanted, shown in (("", "500"), ("0", "500"), ("'200ms'", "200"), ("DEFAULT", "500")):
            if wanted:
                connection.execute(f"SET statement_timeout = {wanted}".encode())
            assert connection.execute("SHOW statement_timeout").fetchone() == (shown,)
        error = failing("57014", connection, LONG)
        assert "took more than 0.5 seconds" in str(error) and "query_seconds" in str(error.diag.message_hint)
        assert "at most 0.5, not 1" in str(failing("22023", connection, "SET statement_timeout = '1s'"))
        threading.Timer(0.9, views.step, kwargs={"others": [(2, 2, 1)]}).start()
        came = []
        with (
            pytest.raises(psycopg.errors.QueryCanceled, match="ended"),
            connection.cursor().copy("COPY (SUBSCRIBE others) TO STDOUT") as copy,
        ):
            for row in copy.rows():
                came.append(row[2:])
                if len(came) == 2:
                    connection.cancel_safe()
        assert came == [("1", "1"), ("2", "2")]


def test_what_needs_more_memory_than_there_is_ends_with_that_and_others_go_on(views: Views) -> None:
    """In the process that serves, where its rows are counted as it goes on, and in one of its own."""
    large = "SELECT DISTINCT 'a text of some length ' || n || ' ' || i FROM sums, range(100) r(i)"
    with (
        serving(views, memory="64MB") as served,
        connect(served, autocommit=True) as connection,
        connect(served) as other,
    ):
        other.execute("DECLARE c CURSOR FOR SELECT id FROM sums ORDER BY id")
        assert other.execute("FETCH 2 FROM c").fetchall() == [(0,), (1,)]
        for statement in (large, f"{large} ORDER BY 1", f"SELECT string_agg(t, '') FROM ({large}) l(t)"):
            error = failing("53200", connection, statement)
            assert str(error.diag.message_primary).endswith("[query.memory]")
            assert "psql.memory" in str(error.diag.message_hint)
            # DuckDB tells it where it counts, unless the process was seen to take more before.
            assert any(
                why in str(error.diag.message_detail) for why in ("MiB used", "the process that ran it has ended")
            )
            assert connection.execute("SELECT count(*) FROM sums").fetchone() == (ROWS,)
        copy = f"COPY ({large}) TO STDOUT".encode()
        with pytest.raises(psycopg.errors.OutOfMemory), connection.cursor().copy(copy) as copying:
            list(copying)
        connection.execute(f"DECLARE held CURSOR WITH HOLD FOR {large}".encode())
        failing("53200", connection, "FETCH 1 FROM held")
        failing("53200", connection, "DECLARE kept CURSOR WITH HOLD FOR SELECT repeat('x', 1500000000)")
        assert len(other.execute("FETCH ALL FROM c").fetchall()) == ROWS - 2


def test_who_does_not_know_the_secret_cancels_nothing(served: PostgresServer) -> None:
    """The statement goes on until its timeout."""
    with connect(served, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '1500ms'")
        guess = CancelRequest(process_id=connection.info.backend_pid, secret_key=b"\0\0\0\0").to_wire()

        def strike() -> None:
            with socket.create_connection(served.address) as stranger:
                stranger.sendall(guess)
                assert stranger.recv(10) == b""

        striking = threading.Timer(0.4, strike)
        striking.start()
        assert "took more than 1.5 seconds" in str(failing("57014", connection, LONG))
        striking.join()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def only(*names: str) -> Any:
    """Takes the one password, and lets these relations be read."""

    def authenticate(user: str, password: str, address: str) -> Asker:
        if password != "headrace_right":
            raise HeadraceError("psql.password", "that is no token", next="headrace token create NAME")
        return Asker(user, lambda: lambda relation: relation in names, lambda: ANYONE, address)

    return authenticate


def test_a_token_is_the_password_and_what_it_may_not_read_does_not_exist(views: Views) -> None:
    with serving(views, only("others")) as served:
        for password in ("wrong", ""):
            with pytest.raises(psycopg.OperationalError, match=r"that is no token|no password supplied"):
                connect(served, password=password)
        with connect(served, password="headrace_right", autocommit=True) as connection:
            assert connection.execute("SELECT n FROM others").fetchall() == [(1,)]
            for statement in ("SELECT * FROM sums", "COPY sums TO STDOUT", "SUBSCRIBE sums", "TABLE public.sums"):
                failing("42P01", connection, statement)
            listed = connection.execute(
                "SELECT relname FROM pg_catalog.pg_class WHERE relkind IN ('r', 'v')"
            ).fetchall()
            assert listed == [("others",)]
            shown = connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
            assert shown == [("others",)]


def test_a_password_is_compared_whole(views: Views) -> None:
    asked: list[str] = []

    def known(user: str, password: str, address: str) -> Asker:
        asked.append(password)
        return Asker(user, lambda: lambda relation: True, lambda: ANYONE, "")

    with serving(views, known) as served, socket.create_connection(served.address, timeout=20) as raw:
        raw.sendall(StartupMessage(params={"user": "ada"}).to_wire())
        raw.sendall(b"p" + (4 + len(b"x\0and more\0")).to_bytes(4, "big") + b"x\0and more\0")
        while raw.recv(1 << 16):  # until it is closed
            pass
    assert asked == []


def test_a_token_that_was_revoked_opens_nothing_more_within_its_connection(views: Views) -> None:
    revoked = threading.Event()

    def reaches() -> Any:
        if revoked.is_set():
            raise HeadraceError("psql.password", "the token was revoked")
        return lambda relation: True

    with (
        serving(views, lambda user, password, address: Asker(user, reaches, lambda: ANYONE, address)) as served,
        connect(served, password="x", autocommit=True) as connection,
        connect(served, password="x") as follower,
        connect(served, password="x", autocommit=True) as holder,
    ):
        assert connection.execute("SELECT n FROM others").fetchall() == [(1,)]
        holder.execute("DECLARE kept CURSOR WITH HOLD FOR SELECT * FROM (VALUES (1), (2), (3)) t(n)")
        assert holder.execute("FETCH 1 FROM kept").fetchall() == [(1,)]
        with follower.cursor().copy("COPY (SUBSCRIBE others) TO STDOUT") as copy:
            parts = iter(copy)
            next(parts)
            revoked.set()
            failing("28P01", connection, "SELECT n FROM others")
            failing("28P01", holder, "FETCH 1 FROM kept")
            failing("28P01", holder, "MOVE 1 IN kept")
            with pytest.raises(psycopg.Error, match="revoked"):
                list(parts)


def _revoked() -> Any:
    raise HeadraceError("access.token", "the token was revoked")


def _narrowed() -> Any:
    return lambda relation: relation != "sums"


def until(client: socket.socket, end: bytes) -> bytes:
    """What the server answers until that is in it."""
    answer = b""
    while end not in answer:
        part = client.recv(65_536)
        assert part, answer
        answer += part
    return answer


@pytest.mark.parametrize(("after", "state"), [(_revoked, "28P01"), (_narrowed, "42501")])
def test_what_was_begun_gives_no_more_rows_once_they_may_not_be_read(views: Views, after: Any, state: str) -> None:
    """A portal that is suspended, a cursor, a COPY and a subscription under way; what reads another view goes on."""
    reach: list[Any] = [lambda: lambda relation: True]
    suspended = b"s\0\0\0\x04"

    def now() -> Any:
        return reach[-1]()

    with (
        serving(views, lambda user, *_: Asker(user, now, lambda: ANYONE, "")) as served,
        socket.create_connection(served.address, timeout=20) as raw,
        connect(served, password="x", autocommit=True) as holder,
        connect(served, password="x", autocommit=True) as copier,
        connect(served, password="x", autocommit=True) as follower,
        copier.cursor().copy("COPY (SELECT n FROM sums, range(1000000)) TO STDOUT") as copying,
        follower.cursor().copy("COPY (SUBSCRIBE sums) TO STDOUT") as following,
    ):
        raw.sendall(StartupMessage(params={"user": "ada"}).to_wire() + PasswordMessage(password="x").to_wire())
        for portal, view in (("p", "sums"), ("q", "others")):
            raw.sendall(
                b"".join(
                    message.to_wire()
                    for message in (
                        Parse(statement=portal, query=f"SELECT id FROM {view}, range(3) ORDER BY id"),
                        Bind(portal=portal, statement=portal), Execute(portal=portal, max_rows=1), Flush(),
                    )
                )
            )  # fmt: skip
            assert until(raw, suspended).count(b"D\0\0\0\x0b\0\x01") == 1  # one row, of one column of one letter
        holder.execute("DECLARE kept CURSOR WITH HOLD FOR SELECT id FROM sums")
        assert len(holder.execute("FETCH 1 FROM kept").fetchall()) == 1
        next(iter(following))
        next(iter(copying))
        reach.append(after)
        began = time.monotonic()
        again = Execute(portal="p", max_rows=1).to_wire()
        if state == "42501":
            raw.sendall(Execute(portal="q", max_rows=1).to_wire() + Flush().to_wire())
            assert until(raw, suspended).startswith(b"D")
        raw.sendall(again + Sync().to_wire())
        answer = until(raw, b"Z\0\0\0\x05")
        assert answer.startswith(b"E") and f"C{state}\0".encode() in answer and b"D\0\0\0\x0b" not in answer
        failing(state, holder, "FETCH 1 FROM kept")
        failing(state, holder, "MOVE 1 IN kept")
        for copy in (following, copying):
            with pytest.raises(psycopg.Error) as ended:
                for _ in copy:
                    pass
            assert ended.value.sqlstate == state
        assert time.monotonic() - began < 6


def test_there_are_so_many_connections_and_no_more(views: Views) -> None:
    full = pytest.raises(psycopg.OperationalError, match="2 connections, and no more")
    with serving(views, connections=2) as served:
        with connect(served), connect(served), full:
            connect(served)
        while served.connections:
            time.sleep(0.01)
        connect(served).close()


def test_a_view_that_is_behind_is_told_of_in_a_notice(views: Views, served: PostgresServer) -> None:
    views.fail("others", "Division by zero")
    notices: list[str] = []
    with connect(served, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute("SELECT * FROM others")
        limited = Principal("dashboard", Role.VIEWER, ("others",))
        with (
            serving(views, lambda user, *_: Asker(user, lambda: limited.reaches, lambda: limited, "")) as narrow,
            connect(narrow, password="x", autocommit=True) as other,
        ):
            other.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
            other.execute("SELECT * FROM others")
            told = other.execute("SELECT description FROM pg_catalog.pg_description").fetchall()
    assert notices == ["view others is behind: Division by zero", "view others is behind: it has failed"]
    assert told == [("stale: it has failed",)]


def test_a_view_that_had_failed_is_read_all_along_a_transaction(views: Views, served: PostgresServer) -> None:
    """As it stands since, also by a statement that is answered apart; with what is published meanwhile or without."""
    views.fail("others", "Division by zero")
    views.step(sums=[(5, 50, -1), (5, 51, 1)])
    notices: list[str] = []
    with connect(served) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        for published in (False, True):
            assert connection.execute("SELECT n FROM sums WHERE id = 5").fetchone() == (51,)
            if published:
                views.step(sums=[(5, 51, -1), (5, 52, 1)])
            assert connection.execute("SELECT n FROM others").fetchone() == (1,)
            assert connection.execute("SELECT string_agg(n::text, ',') FROM others").fetchone() == ("1",)
            assert connection.execute("SELECT s.n, o.n FROM sums s, others o WHERE s.id = 5").fetchone() == (51, 1)
            connection.commit()
    assert notices == ["view others is behind: Division by zero"] * 2


def test_a_limited_token_hears_of_no_view_that_it_does_not_reach(views: Views) -> None:
    access = Access(views.state)
    try:
        password = access.tokens.create("other", Role.VIEWER, ["others"])[1]
        with (
            serving(views, passwords(access)) as served,
            connect(served, password=password, autocommit=True) as connection,
            connect(served, password=access.tokens.owners(), autocommit=True) as owner,
        ):
            for asked, hint in ((owner, "did you mean 'sums'?"), (connection, "this token reaches: others")):
                assert failing("42P01", asked, "SELECT * FROM sum").diag.message_hint == hint
            with connection.cursor().copy("COPY (SUBSCRIBE others) TO STDOUT") as copy:
                assert next(copy.rows()) == ("1", "1", "1", "1")
                views.catalog.drop_view("others", views.commit)
                views.step(sums=[(5, 50, -1), (5, 51, 1)])
                with pytest.raises(psycopg.errors.UndefinedTable, match="there is no view 'others'") as gone:
                    list(copy.rows())
            assert gone.value.diag.message_hint == "this token reaches: others"
    finally:
        access.close()


def test_one_token_leaves_connections_to_others(views: Views) -> None:
    access = Access(views.state)
    try:
        greedy, other = (access.tokens.create(name, Role.VIEWER)[1] for name in ("greedy", "other"))
        with serving(views, passwords(access), connections=8) as served:
            held = [connect(served, password=greedy) for _ in range(7)]
            with pytest.raises(psycopg.OperationalError, match="7 connections by this token"):
                connect(served, password=greedy)
            with connect(served, password=other, autocommit=True) as connection:
                assert connection.execute("SELECT 1").fetchall() == [(1,)]
            held.pop().close()
            until = time.monotonic() + 5
            while served.connections > 6:
                assert time.monotonic() < until
                time.sleep(0.01)
            connect(served, password=greedy).close()
            for each in held:
                each.close()
    finally:
        access.close()


def test_a_stopped_server_ends_its_connections(views: Views) -> None:
    with serving(views) as served:
        connection = connect(served, autocommit=True)
        errors: list[Exception] = []

        def run() -> None:
            try:
                connection.execute(LONG.encode())
            except psycopg.Error as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.3)
        began = time.monotonic()
    thread.join(10)
    assert time.monotonic() - began < 5 and len(errors) == 1
    connection.close()
