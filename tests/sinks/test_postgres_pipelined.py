"""A server that dies under statements that are on their way: what failed is raised, and nothing is printed."""

from __future__ import annotations

import psycopg
import pytest
from sink_stores import PostgresStore

from headrace.sinks.connectors.postgres.pipelined import pipelined

pytestmark = pytest.mark.postgres


def test_a_lost_server_is_raised_and_not_printed(
    postgres_store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    for wait in (True, False):  # for an answer inside, or at the end
        with psycopg.connect(postgres_store.dsn, autocommit=True) as connection:
            process = connection.info.backend_pid
            with pytest.raises(psycopg.OperationalError), pipelined(connection):
                connection.execute("SELECT 1").fetchone()
                postgres_store.query(f"SELECT pg_terminate_backend({process}, 5000)")
                cursor = connection.execute("SELECT 2")
                if wait:
                    cursor.fetchone()
            assert connection.broken
    assert not caplog.records


def test_what_a_statement_is_refused_for_is_raised(
    postgres_store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(postgres_store.dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero), pipelined(connection):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(ZeroDivisionError), pipelined(connection):
            connection.execute("SELECT 1")
            raise ZeroDivisionError
        with pipelined(connection):
            cursor = connection.execute("SELECT 7")
        assert cursor.fetchone() == (7,)
    assert not caplog.records
