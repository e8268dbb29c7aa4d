"""Goal: while tables are copied for the first time it is told how many rows have come, of about how many, and how long
it takes still; what is told holds.

Method: a real PostgreSQL behind a slow line, a proxy that hands on only so many bytes a second; what was foretold in
the middle of the copy is held against the time that it took.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow.compute as pc
import pytest

from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.testing.postgres import PostgresServer
from postgres_server import database, postgres_server

__all__ = ["database", "postgres_server"]  # fixtures
ROWS = 60_000
PIECE_BYTES, PAUSE_S = 1 << 15, 0.012


@contextmanager
def slow_line(port: int) -> Iterator[int]:
    """A port that leads to ``port``; what comes back is slow."""
    listener = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = [listener]

    def hand_on(taken: socket.socket, given: socket.socket, pause_s: float) -> None:
        with suppress(OSError):
            while piece := taken.recv(PIECE_BYTES):
                given.sendall(piece)
                time.sleep(pause_s)
        for end in (taken, given):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
                ends.extend((client, server))
                threading.Thread(target=hand_on, args=(client, server, 0), daemon=True).start()
                threading.Thread(target=hand_on, args=(server, client, PAUSE_S), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for end in ends:
            end.close()


@pytest.mark.postgres
def test_of_a_slow_copy_it_is_told_how_far_it_is(postgres_server: PostgresServer, database: str) -> None:
    postgres_server.psql(
        "CREATE TABLE orders (id int PRIMARY KEY, note text);"
        f"INSERT INTO orders SELECT n, repeat('x', 80) FROM generate_series(1, {ROWS}) n; ANALYZE orders", database,
    )  # fmt: skip
    with slow_line(postgres_server.port) as port:
        dsn = postgres_server.dsn_for(database).replace(f":{postgres_server.port}/", f":{port}/")
        source = PostgresSource("shop", {"dsn": dsn})
        try:
            source.start(frozenset({"orders"}), None)
            told: list[tuple[float, dict[str, Any]]] = []
            batch = None
            while batch is None:
                batch = source.poll(0.02)
                told += [(time.monotonic(), one.shown()) for one in source.copying()]
            ended = time.monotonic()
            assert source.copying() == []
            orders = batch.changes["orders"]
            assert orders.num_rows == ROWS and pc.sum(orders["id"]).as_py() == ROWS * (ROWS + 1) // 2
        finally:
            source.close()
            source.drop()
    done = [one["done"] for _, one in told]
    assert done == sorted(done) and len(set(done)) > 10 and done[-1] > ROWS * 0.8
    assert {(one["table"], one["total"]) for _, one in told} == {("orders", ROWS)}
    middle, foretold = next((at, one) for at, one in told if one["done"] > ROWS / 2)
    assert foretold["left_s"] * foretold["per_s"] == pytest.approx(ROWS - foretold["done"], rel=0.05)
    assert (ended - middle) / 20 < foretold["left_s"] < (ended - middle) * 3  # other work may slow the machine


@pytest.mark.postgres
def test_a_table_that_was_never_analysed_is_estimated_by_its_size(
    postgres_server: PostgresServer, database: str
) -> None:
    postgres_server.psql(
        "CREATE TABLE orders (id int PRIMARY KEY, note text) WITH (autovacuum_enabled = off);"
        f"INSERT INTO orders SELECT n, repeat('x', 80) FROM generate_series(1, {ROWS}) n", database,
    )  # fmt: skip
    with slow_line(postgres_server.port) as port:
        dsn = postgres_server.dsn_for(database).replace(f":{postgres_server.port}/", f":{port}/")
        source = PostgresSource("shop", {"dsn": dsn})
        try:
            source.start(frozenset({"orders"}), None)
            while not source.copying():
                assert source.poll(0.02) is None
            assert ROWS / 3 < (source.copying()[0].pace.total or 0) < ROWS * 3
        finally:
            source.close()
            source.drop()
