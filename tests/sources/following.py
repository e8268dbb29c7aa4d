"""Tables that are followed at a real PostgreSQL server, with a client's own reading of them as the judge."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from headrace.engine.stored import StoredRows
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch
from headrace.sources.connectors.postgres.connector import PostgresSource
from postgres_server import Replica, Shop

LOOK_SECONDS = 0.2
WAIT_SECONDS = 20.0
SEGMENT_BYTES = 64 << 10  # of a log: small, so that there are many


def counted(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """A multiset of whole rows; every NaN is one value, and lists can be counted."""
    return Counter(tuple(tuple(v) if isinstance(v, list) else "nan" if v != v else v for v in row) for row in rows)


class Followed:
    """Tables that are followed, rebuilt from what is delivered, beside a client that reads them at the server.

    With ``log``, the folder of one, what is delivered goes into it first, and the source is given rows from there.
    """

    def __init__(self, shop: Shop, *tables: str, log: Path | None = None, **options: Any) -> None:
        self.shop, self.tables = shop, tables
        self.log = LogWriter(log, segment_bytes=SEGMENT_BYTES) if log else None
        self.stored = StoredRows(self.log, LogReader(log)) if self.log and log else None
        dsn, self.base = options.pop("dsn", shop.dsn), options.pop("base", Path())
        shop.source = self.made({"dsn": dsn, **options})
        self.told: list[dict[str, Any]] = []
        self.take(shop.source)
        self.replica = Replica(shop.source)
        self.position = ""
        self.transactions = 0
        shop.source.start(frozenset(tables), None)
        self.catches_up()
        self.catches_up()  # with what was changed while it was copied
        self.transactions = 0  # since the first copy
        self.is_same()

    def made(self, options: dict[str, Any]) -> PostgresSource:
        """The source over these options; what it keeps lies in ``base``."""
        return PostgresSource(self.shop.database, {"heartbeat_seconds": LOOK_SECONDS, **options}, base=self.base)

    def at(self) -> str:
        """The LSN of the position that the log has."""
        return str(json.loads(self.position)["lsn"])

    def take(self, source: PostgresSource) -> None:
        self.shop.source = source
        source.tell = self.told.append
        if self.stored:
            source.stored = self.stored

    def does(self, *statements: str) -> None:
        """One transaction of these statements; then what was delivered is what a client reads."""
        self.runs(*statements)
        self.catches_up()
        self.is_same()

    def runs(self, *statements: str) -> None:
        with psycopg.connect(self.shop.dsn) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def catches_up(self) -> None:
        """Polls until the source has seen all that is at the server now."""
        target = self.shop.run("SELECT pg_current_wal_lsn()")[0][0]
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            batch = self.shop.source.poll(0.05)
            if batch is not None:
                self.takes_in(batch)
                self.shop.source.confirm(batch, 0)
                continue
            seen = self.shop.source.seen()
            reached = f"SELECT '{json.loads(seen)['lsn']}'::pg_lsn >= '{target}'::pg_lsn" if seen else "SELECT false"
            if self.shop.run(reached)[0][0] and self.shop.source.caught_up():
                return
            assert time.monotonic() < give_up, "the source does not catch up"

    def takes_in(self, batch: TransactionBatch) -> None:
        if self.log:
            self.log.append(batch)
        for _ in self.replica.apply(batch):
            self.applied()
        self.position = batch.origins[-1].position
        self.transactions += len(batch.origins)

    def applied(self) -> None:
        """After each transaction."""

    def loses(self, table: str) -> dict[str, str]:
        """Polls until the log is told that a table has lost something; columns with what it is told of them."""
        give_up = time.monotonic() + WAIT_SECONDS
        while not (
            found := {
                a["column"]: a["statement"] for a in self.replica.altered if a["relation"] == table and a["column"]
            }
        ):
            assert time.monotonic() < give_up, "nothing is told"
            self.catches_up()
        return found

    def copies_anew(self, table: str) -> None:
        """Polls until the source has told that it copies the table anew, and has done so."""
        give_up = time.monotonic() + WAIT_SECONDS
        while not any(e["event"] == "source.copied_anew" and table in e["tables"] for e in self.told):
            assert time.monotonic() < give_up, "nothing was told"
            self.catches_up()
        self.catches_up()
        self.told.clear()

    def is_same(self) -> None:
        for name in self.tables:
            assert counted(self.replica.contents(name)) == counted(self.held(name)), name

    def held(self, name: str) -> list[tuple[Any, ...]]:
        """The table as a client reads it; as text what the source carries as text."""
        relation = self.replica.relations[name]
        casts = {"string": "::text", "array<string>": "::text[]", "float": "::float8", "array<int>": "::int[]"}
        columns = ", ".join(f'"{c.name}"{casts.get(c.type, "")}' for c in relation.columns)
        only = (
            "ONLY " if self.shop.run(f"SELECT relkind = 'r' FROM pg_class WHERE oid = '{name}'::regclass")[0][0] else ""
        )
        return self.shop.run(f"SET timezone = 'UTC'; SELECT {columns} FROM {only}{name}")

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

    def restarts(self, **options: Any) -> None:
        """As another process would, with what the definitions and the server say then."""
        self.shop.source.close()
        relations = self.replica.relations
        source = self.made({"dsn": self.shop.dsn, **options})
        self.take(source)
        self.replica.relations = relations | {r.name: r for r in source.relations() if r.name in self.tables}
        source.start(frozenset(self.tables), self.position)
