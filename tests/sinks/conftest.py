"""One PostgreSQL server for all tests of sinks, and an empty store for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hook_sinks import Hooks
from sink_stores import DuckdbStore, PostgresStore, Store

from alert_receivers import HookReceiver
from headrace.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def sink_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("sinks") / "server") as server:
        yield server
        server.stop(immediate=True)  # nothing in it is kept


@pytest.fixture
def postgres_store(sink_server: PostgresServer) -> Iterator[PostgresStore]:
    """An empty database."""
    for (schema,) in sink_server.psql("SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|inf)'"):
        sink_server.psql(f"DROP SCHEMA {schema} CASCADE")
    sink_server.psql("CREATE SCHEMA public")
    store = PostgresStore(sink_server.dsn)
    yield store
    store.close()


@pytest.fixture
def duckdb_store(tmp_path: Path) -> Iterator[DuckdbStore]:
    """A file that does not exist yet."""
    store = DuckdbStore(tmp_path / "warehouse.duckdb")
    yield store
    store.close()


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.postgres), "duckdb"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each store in turn."""
    found: Store = request.getfixturevalue(f"{request.param}_store")
    return found


@pytest.fixture
def receiver() -> Iterator[HookReceiver]:
    """A real HTTP server that takes what it is told."""
    with HookReceiver() as server:
        yield server


@pytest.fixture
def sinks(tmp_path: Path, receiver: HookReceiver) -> Iterator[Hooks]:
    """Webhook sinks that tell the receiver."""
    found = Hooks(tmp_path, receiver.url)
    yield found
    for sink in found.made:
        sink.close()
