"""Real PostgreSQL servers for tests: one cluster a session, a database a test, and a replica to check sources by."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from headrace.model import transaction as model
from headrace.model.altered import ALTERED
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch
from headrace.sources.base import Source
from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.testing.postgres import PostgresServer

QUIET_SECONDS = 0.4


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One cluster with wal_level logical for the whole session; use a database of one's own in it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a fresh database, dropped afterwards."""
    name = f"t_{abs(hash(request.node.nodeid)) % 10**12}_{time.monotonic_ns() % 10**6}"
    postgres_server.create_database(name)
    yield name
    for (slot,) in postgres_server.psql(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{name}'"):
        freed(postgres_server.psql, slot)
        postgres_server.psql(
            f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{slot}'"
        )
    postgres_server.psql(f"DROP DATABASE {name} WITH (FORCE)")


def freed(run: Callable[[str], Any], slot: str) -> None:
    """Returns once no session reads from the slot: the server ends one some time after its client has gone."""
    run(
        f"SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"
    )


def drain(
    source: Source, *, at_least: int = 1, quiet_s: float = QUIET_SECONDS, limit_s: float = 30.0
) -> list[TransactionBatch]:
    """Poll and confirm until there are ``at_least`` batches and nothing more has come for ``quiet_s`` seconds."""
    batches: list[TransactionBatch] = []
    give_up = time.monotonic() + limit_s
    while time.monotonic() < give_up:
        batch = source.poll(quiet_s)
        if batch is not None:
            source.confirm(batch, len(batches))
            batches.append(batch)
        elif len(batches) >= at_least:
            return batches
    raise AssertionError(f"{len(batches)} batches within {limit_s} s")


def changes(batches: Sequence[TransactionBatch | None], name: str) -> list[dict[str, Any]]:
    """The rows of one relation, as they came."""
    return [row for batch in batches if batch for row in batch.changes.get(name, pa.table({})).to_pylist()]


def fails(code: str, call: Any, *arguments: Any) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        call(*arguments)
    assert caught.value.code == code, caught.value
    return caught.value


class Replica:
    """The contents of relations, from their changes. Keyed: key -> row; without a key: a multiset."""

    def __init__(self, source: PostgresSource) -> None:
        self.relations = {relation.name: relation for relation in source.relations()}
        self.rows: dict[str, dict[Any, dict[str, Any]]] = {}
        self.bags: dict[str, Counter[tuple[Any, ...]]] = {}
        self.altered: list[dict[str, Any]] = []  # what was told of tables themselves

    def apply(self, batch: TransactionBatch) -> Iterator[int]:
        """Applies one transaction after the other, yielding the ordinal after each."""
        changes = {name: table.to_pylist() for name, table in batch.changes.items()}
        self.altered += changes.pop(ALTERED.name, [])
        for ordinal in range(len(batch.origins)):
            for name, rows in changes.items():
                for row in rows:
                    if row[model.ORDINAL] == ordinal:
                        self._change(self.relations[name], row)
            yield ordinal

    def apply_all(self, batches: list[TransactionBatch]) -> None:
        for batch in batches:
            list(self.apply(batch))

    def contents(self, name: str) -> list[tuple[Any, ...]]:
        if self.relations[name].key:
            return sorted((tuple(row.values()) for row in self.rows.get(name, {}).values()), key=repr)
        return sorted(self.bags.get(name, Counter()).elements(), key=repr)

    def _change(self, relation: Relation, row: dict[str, Any]) -> None:
        operation = row[model.OPERATION]
        values = {name: row[name] for name in relation.names}
        rows, bag = self.rows.setdefault(relation.name, {}), self.bags.setdefault(relation.name, Counter())
        key = tuple(values[name] for name in relation.key)
        if operation == model.TRUNCATE:
            rows.clear()
            bag.clear()
        elif not relation.key:
            bag[tuple(values.values())] += 1 if operation == model.INSERT else -1
            assert bag[tuple(values.values())] >= 0
        elif operation == model.DELETE:
            del rows[key]
        else:
            bitmap = row.get(model.UNCHANGED) or bytes(16)
            for place, name in enumerate(relation.names):
                if bitmap[place // 8] >> (place % 8) & 1:
                    values[name] = rows[key][name]
            assert (key in rows) == (operation == model.UPDATE)
            rows[key] = values


class Shop:
    """A database and a source on it."""

    def __init__(self, server: PostgresServer, database: str, **options: Any) -> None:
        self.server, self.database = server, database
        self.dsn = server.dsn_for(database)
        self.source = PostgresSource(database, {"dsn": self.dsn, **options})

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.psql(statement, self.database)

    def held(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(self.run(f"SELECT * FROM {table}"), key=repr)

    def begin(self, *tables: str) -> list[TransactionBatch]:
        """Start anew and take the first copy."""
        self.source.start(frozenset(tables), None)
        return drain(self.source)

    def slot(self, column: str) -> Any:
        return self.run(f"SELECT {column} FROM pg_replication_slots WHERE slot_name = 'headrace_{self.database}'")[0][0]


@pytest.fixture
def shop(postgres_server: PostgresServer, database: str) -> Iterator[Shop]:
    shop = Shop(postgres_server, database)
    yield shop
    shop.source.close()
