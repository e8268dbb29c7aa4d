"""The control plane from real servers to real servers, without Spark: sources, log, coordinator, delivery, sinks.

Every thread is the product's own; only what Spark would compute is a stand-in (``control_plane``). A process of this
works until it is killed.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from bank import KEPT, SOURCE
from control_plane import recovered, without_spark
from forked import FORKED

from headrace.catalog.store import Catalog
from headrace.engine.deliver import Deliver
from headrace.engine.ingest import Ingest
from headrace.log.append import LogWriter
from headrace.sinks.base import Sink
from headrace.sinks.connectors.duckdb.connector import DuckdbSink
from headrace.sinks.connectors.postgres.connector import PostgresSink
from headrace.sources.connectors.postgres.connector import PostgresSource

MOVE_S = 90.0  # on a machine that is shared


def work(folder: str, source: str, sinks: Mapping[str, str], each: bool) -> None:
    """The process. ``sinks``: name -> URL of a PostgreSQL, or path of a DuckDB file. Events go to ``events``."""
    without_spark()
    events = (Path(folder) / "events").open("a", buffering=1)

    def tell(event: dict[str, Any]) -> None:
        print(json.dumps({"at": time.time(), **event}), file=events)

    log = LogWriter(Path(folder) / "log")
    catalog = Catalog(Path(folder) / "catalog.db")
    engine = recovered(Path(folder), catalog, log, each=each)
    delivers = [Deliver(sink(name, where), None, catalog, engine.reader, tell) for name, where in sinks.items()]
    for deliver in delivers:
        deliver.start()
    Ingest(PostgresSource(SOURCE, {"dsn": source, "heartbeat_seconds": 1}), log, frozenset(KEPT), tell).start()
    while True:
        if engine.step() is None:
            log.wait(engine.frontier, 0.05)
            engine.tidy()
        else:
            for deliver in delivers:
                deliver.wake()


def sink(name: str, where: str) -> Sink:
    if where.startswith("postgresql:"):
        return PostgresSink(name, {"dsn": where, "schema": name}, {})
    return DuckdbSink(name, {"path": where}, {})


class Plane:
    """A folder, what it follows and writes, and the process at work on it, if any."""

    def __init__(self, folder: Path, source: str, sinks: Mapping[str, str], *, each: bool) -> None:
        self.folder, self.source, self.sinks, self.each = folder, source, sinks, each
        self.process: ForkServerProcess | None = None

    def start(self) -> None:
        self.process = FORKED.Process(target=work, args=(str(self.folder), self.source, dict(self.sinks), self.each))
        self.process.start()

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def told(self, event: str = "") -> list[dict[str, Any]]:
        """Events, of all processes; of one kind, or all."""
        file = self.folder / "events"
        found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [each for each in found if event in ("", each["event"])]

    def frontiers(self) -> dict[str, int]:
        """The commit that each sink has reached, as the catalogue's file says."""
        if not (self.folder / "catalog.db").exists():
            return {}
        connection = sqlite3.connect(self.folder / "catalog.db")
        try:
            return dict(connection.execute("SELECT name, frontier FROM sink").fetchall())
        except sqlite3.OperationalError:  # not made yet
            return {}
        finally:
            connection.close()


def until(what: Callable[[], bool], plane: Plane) -> None:
    """Waits until ``what()`` is true; fails when the process ends or too long nothing comes of it."""
    give_up = time.monotonic() + MOVE_S
    while not what():
        assert plane.alive, plane.told()[-5:]
        assert time.monotonic() < give_up, f"nothing moves: {plane.frontiers()}; told: {plane.told()[-5:]}"
        time.sleep(0.005)
