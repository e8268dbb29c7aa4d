"""Processes that follow a PostgreSQL into a log, as the product does, until they are killed; and what a log then holds.

No Spark: the real source, the engine's own thread for it and the real log.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psycopg
from forked import FORKED

from headrace.engine.ingest import Ingest
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model import transaction as model
from headrace.sources.connectors.postgres.connector import PostgresSource

SOURCE = "bank"
WAIT_S = 60.0


def follow(folder: str, dsn: str, tables: Sequence[str], options: dict[str, Any]) -> None:
    """The process: follows ``tables`` until it is killed, and writes what is told to ``events`` in the folder."""
    events = (Path(folder) / "events").open("a", buffering=1)
    log = LogWriter(Path(folder) / "log")
    source = PostgresSource(SOURCE, {"dsn": dsn, "heartbeat_seconds": 0.5, **options})
    source.held = frozenset(tables)  # as it is at every start but the first
    source.tell = lambda event: print(json.dumps(event), file=events)
    ingest = Ingest(source, log, frozenset(tables), source.tell)
    ingest.start()
    ingest.join()


class Followed:
    """A folder with a log, the tables that are followed into it, and the process at work, if any."""

    def __init__(self, folder: Path, dsn: str, **options: Any) -> None:
        self.folder, self.dsn, self.options = folder, dsn, options
        self.reader = LogReader(folder / "log")
        self.process: ForkServerProcess | None = None

    def start(self, tables: Sequence[str]) -> None:
        self.process = FORKED.Process(target=follow, args=(str(self.folder), self.dsn, tables, self.options))
        self.process.start()

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    @property
    def end(self) -> int:
        return self.reader.end if (self.folder / "log").exists() else 0

    def position(self) -> dict[str, Any]:
        """Of the last transaction in the log; ``tables``: of which it says that it holds them by then."""
        end = self.end
        for _, origin in self.reader.origins(end - 1, end) if end else ():
            found: dict[str, Any] = json.loads(origin.position)
            return found
        return {"lsn": "0/0", "tables": []}

    def holds(self, tables: Sequence[str]) -> bool:
        return set(tables) <= set(self.position()["tables"])

    def wait_for(self, what: Any, wait_s: float = WAIT_S) -> float:
        """Until ``what()`` is true; how many seconds that took."""
        began = time.monotonic()
        while not what():
            assert time.monotonic() - began < wait_s, f"still not after {wait_s} s; told: {self.told()[-3:]}"
            time.sleep(0.005)
        return time.monotonic() - began

    def reaches(self, lsn: str, tables: Sequence[str]) -> bool:
        at = self.position()
        return set(tables) <= set(at["tables"]) and number(at["lsn"]) >= number(lsn)

    def told(self) -> list[dict[str, Any]]:
        """All events, of all processes."""
        file = self.folder / "events"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def contents(self, tables: dict[str, str], total: int) -> tuple[dict[str, Counter[tuple[Any, ...]]], list[str]]:
        """What the log adds up to, and what is wrong on the way, in words.

        ``tables``: each with its key's column, or "" for a multiset of rows. Whenever the log says that it holds all
        of them, the column ``n`` of the keyed ones must add up to ``total``.
        """
        end, wrong = self.end, list[str]()
        changes: list[tuple[int, str, dict[str, Any]]] = []
        refs = self.reader.refs(0, end)
        for name in tables:
            for batch in self.reader.read(refs, name, 0, end):
                changes += [(row.pop("_c"), name, row) for row in batch.to_pylist()]
        changes.sort(key=lambda change: change[0])  # stable: each table's in their order
        held: dict[str, Any] = {name: {} if key else Counter() for name, key in tables.items()}
        sums = dict.fromkeys(tables, 0)
        at, before = 0, 0
        for commit, origin in self.reader.origins(0, end):
            while at < len(changes) and changes[at][0] == commit:
                _, name, row = changes[at]
                if problem := applied(held[name], sums, name, tables[name], row):
                    wrong.append(f"commit {commit}: table {name}: {problem}")
                at += 1
            place = json.loads(origin.position)
            if number(place["lsn"]) < before:
                wrong.append(f"commit {commit} is of LSN {place['lsn']}, an earlier one")
            before = number(place["lsn"])
            together = sum(sums[name] for name, key in tables.items() if key)
            if set(tables) <= set(place["tables"]) and together != total:
                wrong.append(f"commit {commit}: the tables add up to {together}, not {total}")
        whole = {
            name: rows if isinstance(rows, Counter) else Counter(tuple(row) for row in rows.values())
            for name, rows in held.items()
        }
        return {name: +rows for name, rows in whole.items()}, wrong


def applied(rows: Any, sums: dict[str, int], name: str, key: str, row: dict[str, Any]) -> str:
    """Apply a change to what is held; what is wrong with it."""
    operation = row.pop("_op")
    row.pop("_unchanged", None)  # no value here is long enough to be left out
    values = tuple(row.values())
    if operation == model.TRUNCATE:
        rows.clear()
        sums[name] = 0
        return ""
    if not key:
        rows[values] += 1 if operation == model.INSERT else -1
        return "a row goes that is not there" if rows[values] < 0 else ""
    there = rows.pop(row[key], None)
    sums[name] -= dict(zip(row, there, strict=True))["n"] if there else 0
    if operation != model.DELETE:
        rows[row[key]] = values
        sums[name] += row["n"]
    expected = operation != model.INSERT
    return "" if (there is not None) == expected else f"{operation} of {row}, before {there}"


def number(lsn: str) -> int:
    high, _, low = lsn.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def source_rows(dsn: str, tables: Sequence[str]) -> dict[str, Counter[tuple[Any, ...]]]:
    """What a client reads at the source."""
    with psycopg.connect(dsn) as connection:
        return {name: Counter(connection.execute(f"SELECT * FROM {name}".encode()).fetchall()) for name in tables}
