"""Goal: whatever bytes a client sends, the server goes on for all others, and keeps no more than it says.

Method: random bytes, cut and damaged messages, and lengths that lie, before and after a connection has begun; then another
client asks and must get its answer.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygwire.messages import Bind, Close, Describe, Execute, Parse, PGMessage, Query, StartupMessage, Sync

from headrace.api.descriptors import STARTING
from headrace.api.postgres import opened, patterns, startup, statements, wire
from headrace.api.postgres.rewrite import rewritten
from headrace.api.postgres.server import PostgresServer
from headrace.model.errors import HeadraceError
from headrace.sql import lexer
from psql_project import Views, connect, serving

BEGIN = StartupMessage(params={"user": "ada", "database": "shop"}).to_wire()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    views = Views(tmp_path_factory.mktemp("hostile") / "p")
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",))
    views.step(sums=[(i, i, 1) for i in range(10)])
    with serving(views) as server:
        yield server


def sent(server: PostgresServer, *parts: bytes, until: bytes = b"") -> bytes:
    """What the server answers: to its end, or with ``until`` as soon as that is in it, else until 0.1 s of silence."""
    answer = b""
    with socket.create_connection(server.address, timeout=20) as client:
        with contextlib.suppress(OSError):
            for part in parts:
                client.sendall(part)
        client.settimeout(20 if until else 0.1)
        with contextlib.suppress(OSError):
            while not (until and until in answer) and (part := client.recv(65_536)):
                answer += part
    return answer


def well(server: PostgresServer) -> None:
    with connect(server, autocommit=True) as connection:
        assert connection.execute("SELECT sum(n) FROM sums").fetchone() == (45,)


def test_a_system_without_threads_refuses_a_connection_and_no_later_one(
    served: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Thread.start, list[str]()

    def without(thread: threading.Thread) -> None:
        if thread.name == "psql connection" and len(refused) < 3:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", without)
    for _ in range(3):
        assert sent(served, BEGIN, until=b"-") == b""  # its end
    assert len(refused) == 3
    well(served)


@settings(max_examples=25)
@given(st.binary(max_size=200))
def test_random_first_bytes_do_no_harm(served: PostgresServer, content: bytes) -> None:
    sent(served, content)


def test_random_first_bytes_were_harmless(served: PostgresServer) -> None:
    well(served)


MESSAGES: list[PGMessage] = [
    Query(query_string="SELECT n FROM sums WHERE id = 1"),
    Parse(statement="a", query="SELECT n FROM sums WHERE id = $1", param_types=[23]),
    Bind(portal="p", statement="a", param_formats=[1], param_values=[b"\0\0\0\1"], result_formats=[0]),
    Describe(kind="P", name="p"), Describe(kind="S", name="a"), Execute(portal="p", max_rows=1),
    Close(kind="P", name="p"), Sync(),
]  # fmt: skip


def test_damaged_messages_end_at_most_their_own_connection(served: PostgresServer) -> None:
    rng = random.Random(7)
    for _ in range(30):
        content = bytearray(b"".join(rng.choice(MESSAGES).to_wire() for _ in range(rng.randrange(1, 6))))
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        sent(served, BEGIN, bytes(content[: rng.randrange(1, len(content) + 1)]))
    well(served)
    for _ in range(100):
        if not served.connections:
            return
        time.sleep(0.05)
    raise AssertionError("connections are left")


def test_a_length_that_lies_takes_no_memory(served: PostgresServer) -> None:
    before = psutil.Process().memory_info().rss
    answer = sent(served, BEGIN, b"Q" + struct.pack("!I", 2**31 - 1), b"x" * 1000, until=b"psql.protocol")
    assert b"2,147,483,647 bytes; at most" in answer and b"08P01" in answer
    assert b"08P01" in sent(served, struct.pack("!I", 2**30) + b"\0" * 100, until=b"psql.protocol")
    assert b"08P01" in sent(served, BEGIN, b"Q" + struct.pack("!I", 3), until=b"psql.protocol")
    assert psutil.Process().memory_info().rss - before < 64 << 20
    well(served)


def test_statements_and_portals_of_one_connection_are_bounded(served: PostgresServer) -> None:
    parts = [Parse(statement=f"s{number}", query="SELECT 1").to_wire() for number in range(1_100)]
    answer = sent(served, BEGIN, *parts, Sync().to_wire(), until=b"psql.busy")
    assert answer.count(b"1\0\0\0\x04") >= 1_000 and b"1,000 prepared statements" in answer


def test_what_was_bound_before_a_transaction_failed_is_not_executed(served: PostgresServer) -> None:
    parts: list[PGMessage] = [
        Query(query_string="BEGIN"), Parse(statement="a", query="SET app.n = '2'"), Bind(portal="p", statement="a"),
        Query(query_string="SELECT nothing FROM nowhere"), Execute(portal="p"), Sync(),
    ]  # fmt: skip
    answer = sent(served, BEGIN, *(part.to_wire() for part in parts), until=b"25P02")
    assert b"42P01" in answer and answer.count(b"C25P02") == 1


def test_what_one_connection_keeps_is_bounded_by_its_characters(
    served: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements, values and settings together; what takes the place of another, or is closed, makes room."""
    monkeypatch.setattr(opened, "CHARS", 50_000)
    large = f"SELECT /* {'x' * 15_000} */ 1"
    whole = Bind(statement="small", param_values=[b"y" * 20_000])
    setting = Query(query_string=f"SET app.note = '{'z' * 15_000}'")
    with socket.create_connection(served.address, timeout=20) as client:

        def states(*messages: PGMessage) -> list[bytes]:
            """The SQLSTATE of each error."""
            client.sendall(b"".join(message.to_wire() for message in messages))
            answer = b""
            while not answer.endswith(b"Z\0\0\0\x05I"):
                part = client.recv(65_536)
                assert part, answer
                answer += part
            return re.findall(rb"C(\w{5})\0M[^\0]*\[psql\.full\]\0", answer)

        def parsed(*names: str) -> list[PGMessage]:
            return [Parse(statement=name, query=large) for name in names]

        client.sendall(BEGIN)
        assert states() == []
        for _ in range(5):
            assert states(*parsed(""), Bind(), Execute(), Bind(), Execute(), Sync()) == []
        assert states(*parsed("s0", "s1", "s2"), Sync()) == [b"54000"]
        assert states(Parse(statement="small", query="SELECT length($1)", param_types=[25]), Sync()) == []
        assert states(whole, Execute(), Sync()) == [b"54000"]
        assert states(setting) == [b"54000"]
        assert states(Close(kind="S", name="s0"), Close(kind="S", name="s1"), Sync()) == []
        assert states(whole, Execute(), whole, Execute(), Sync()) == []
        assert states(setting) == []
        assert states(*parsed("s0", "s1"), Sync()) == [b"54000"]
        assert states(Query(query_string="DISCARD ALL")) == []
        assert states(*parsed("s0", "s1", "s2"), Sync()) == []
    well(served)


def test_a_client_that_says_nothing_is_dropped(served: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that says a byte now and then, and one that asks again and again for TLS."""
    monkeypatch.setattr(startup, "STARTUP_S", 0.5)
    request = struct.pack("!II", 8, 80877103)
    for begin, then in ((b"", b""), (BEGIN[:5], BEGIN[5:6]), (request, request)):
        began = time.monotonic()
        with socket.create_connection(served.address, timeout=8) as client, contextlib.suppress(OSError):
            client.sendall(begin)
            client.settimeout(0.1)
            while time.monotonic() - began < 8:
                with contextlib.suppress(TimeoutError):
                    if client.recv(10) == b"":
                        break
                client.sendall(then)
        assert time.monotonic() - began < 6
    well(served)


def test_clients_that_say_nothing_make_room_for_one_that_does(served: PostgresServer) -> None:
    with contextlib.ExitStack() as held:
        silent = [held.enter_context(socket.create_connection(served.address, timeout=5)) for _ in range(STARTING)]
        began = time.monotonic()
        well(served)
        assert time.monotonic() - began < 2
        assert silent[0].recv(1) == b""
        silent[-1].sendall(BEGIN)
        assert silent[-1].recv(1) == b"R"


def test_a_client_that_takes_nothing_is_dropped(served: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SEND_S", 0.5)
    with socket.create_connection(served.address, timeout=5) as client:
        client.sendall(BEGIN + Query(query_string="SELECT range, now()::text FROM range(10000000)").to_wire())
        for _ in range(100):
            time.sleep(0.1)
            if not served.connections:
                break
        assert not served.connections
    well(served)


def test_a_client_that_takes_some_now_and_then_is_sent_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than its socket holds, over a longer time than one may have that takes nothing."""
    monkeypatch.setattr(wire, "SEND_S", 1.5)
    rng, began = random.Random(3), time.monotonic()
    content = rng.randbytes(4_000_000)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        taken = bytearray()

        def take() -> None:
            while part := client.recv(32_768):
                taken.extend(part)
                time.sleep(0.02)

        reader, sending = threading.Thread(target=take), wire.Wire(accepted)
        reader.start()
        try:
            sending.write(content)
        finally:
            sending.close()
            reader.join()
    assert bytes(taken) == content and time.monotonic() - began > wire.SEND_S


def test_the_system_finds_out_within_two_minutes_that_a_client_has_vanished() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        kept = wire.Wire(accepted)
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle, every, times = (accepted.getsockopt(socket.IPPROTO_TCP, option) for option in options)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert 0 < idle + every * times <= 120
        kept.close()


@given(st.text(max_size=80) | st.lists(st.sampled_from(
    ["'", '"', "$1", "$$", "/*", "*/", "--", "\n", "(", ")", "::", "regclass", "operator", "collate", ".", "pg_catalog",
     "public", "copy", "to", "stdout", "select", "declare", "cursor", "for", "fetch", "with", ",", "set", "=", "x", "1",
     "shop", "any", "all", "<", ">", "'{1,2}'", "'{'", "from", "unnest", "string_to_array", "as", "text", "[", "]"]
    ), max_size=14).map(" ".join))  # fmt: skip
def test_any_text_is_read_or_refused_and_nothing_of_it_is_lost(text: str) -> None:
    try:
        tokens = lexer.tokens(text)
    except HeadraceError as error:
        assert error.code == "sql.syntax"
        return
    assert "".join(token.text for token in tokens) == text
    for statement in lexer.split(text):
        with contextlib.suppress(HeadraceError):
            statements.read(statement)
        rewritten(statement, {"user": "'u'"}, (), "shop")


@pytest.mark.parametrize(
    "pattern", ["-a" * 5_000 + "YYYY", "- " * 5_000 + "YYYY", "YYYY" * 500 + '"' * 500, "\\" * 9_999]
)
def test_a_long_pattern_takes_the_time_of_its_length(pattern: str) -> None:
    began = time.thread_time()
    for text in ("-a" * 20_000 + "x", "- " * 20_000, "2024" * 5_000):
        with contextlib.suppress(ValueError):
            patterns.to_timestamp(text, pattern)
    patterns.to_char("TIMESTAMP", "2024-01-01 00:00:00", pattern)
    patterns.to_char("INTEGER", "7", "9" * 20_000)
    assert time.thread_time() - began < 5


def test_a_long_text_is_read_in_the_time_of_its_length(served: PostgresServer) -> None:
    for text in (
        "operator(" * 20_000,
        "cast(" * 20_000,
        "'" * 300_001,
        "((" * 20_000,
        "/*" * 100_000,
        "a." * 20_000,
        "$1::regclass " * 10_000,
        "public." * 20_000 + "x::regclass",
        "select " + "unnest(x), " * 20_000,
        "select x from " + "(unnest(" * 10_000,
        "select 1 = any ('{" + "1," * 50_000 + "2}')",
    ):
        began = time.thread_time()
        with contextlib.suppress(HeadraceError):
            for statement in lexer.split(text):
                rewritten(statement, {}, (), "shop")
        with contextlib.suppress(HeadraceError):
            statements.read(lexer.split("COPY (" + text)[0])
        assert time.thread_time() - began < 5, text[:20]
    nested = "SELECT " + "(" * 2_000 + "1" + ")" * 2_000
    answer = sent(served, BEGIN, Query(query_string=nested).to_wire(), until=b"sql.syntax")
    assert b"expression depth" in answer
    answer = sent(served, BEGIN, Query(query_string="SELECT " + "1+" * 600 + "1").to_wire(), until=b"sql.refused")
    assert b"too many expressions inside each other" in answer
    answer = sent(served, BEGIN, Query(query_string="SELECT 1" + ", 1" * 700_000).to_wire(), until=b"sql.refused")
    assert b"a text of 2,100,008 characters is not read" in answer
    well(served)
