"""A source that takes pushes, a thread that plays the engine (poll, keep, confirm), and a client: for the tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from headrace.model.transaction import TransactionBatch
from headrace.sources.connectors.http.connector import HttpSource

ORDERS = {
    "columns": {
        "id": "bigint",
        "total": "decimal(12,2)",
        "note": "string",
        "at": "timestamp",
        "tag": "string not null",
    },
    "key": "id",
}
TABLES: dict[str, Any] = {"orders": ORDERS, "clicks": {"columns": {"page": "string", "n": "int"}}, "events": None}


class Engine:
    """Polls in a thread as the engine does; ``kept`` holds (commit, batch) in order, ``refuse`` rejects instead."""

    def __init__(self, source: HttpSource) -> None:
        self.source, self.kept, self.commit = source, list[tuple[int, TransactionBatch]](), 1
        self.refuse: Exception | None = None
        self.paused, self.rests, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.stopped.is_set():
            if self.paused.is_set():
                self.rests.set()
                time.sleep(0.005)
                continue
            batch = self.source.poll(0.02)
            if batch is None:
                continue
            if self.refuse is not None:
                self.source.reject(batch, self.refuse)
                continue
            self.kept.append((self.commit, batch))
            self.commit += len(batch.origins)
            self.source.confirm(batch, self.commit - len(batch.origins))

    def pause(self) -> None:
        """Takes nothing from now on, until ``paused`` is cleared."""
        self.rests.clear()
        self.paused.set()
        assert self.rests.wait(10)

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Every row kept of a table, with its commit number in place of ``_t``."""
        found = []
        for first, batch in self.kept:
            for row in batch.changes[table].to_pylist() if table in batch.changes else []:
                found.append({"commit": first + row.pop("_t"), **row})
        return found

    @property
    def positions(self) -> list[str]:
        return [origin.position for _, batch in self.kept for origin in batch.origins]


class Running:
    """A source that listens, its engine and a client that sends the token."""

    def __init__(self, base: Path, position: str | None = None, **options: Any) -> None:
        self.source = HttpSource("shop", {"port": 0, "tables": TABLES, **options}, "sources/shop.yaml", base)
        self.source.start(frozenset({"orders"}), position)
        self.engine = Engine(self.source)
        token = self.source.token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.source.port}", headers=headers, timeout=20)

    def push(self, content: Any, **headers: str) -> httpx.Response:
        return self.client.post("/transactions", json=content, headers=headers)

    def close(self) -> None:
        self.client.close()
        self.engine.stop()
        self.source.close()


Start = Callable[..., Running]


@contextmanager
def starting(base: Path) -> Iterator[Start]:
    """Gives a function that starts sources, all of which are closed at the end."""
    made: list[Running] = []

    def one(folder: Path = base, position: str | None = None, **options: Any) -> Running:
        made.append(Running(folder, position, **options))
        return made[-1]

    try:
        yield one
    finally:
        for running in made:
            running.close()


def order(id_: Any, **values: Any) -> dict[str, Any]:
    return {"id": id_, "tag": "t", **values}


def insert(table: str, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"changes": [{"table": table, "op": "insert", "row": row} for row in rows]}
