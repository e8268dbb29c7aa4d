"""Three places where data changes, each with a history that the judge knows, and how the product reads them.

A server with positions, like PostgreSQL: it sends again whatever it was not told is kept, and forgets what it was; its
source is a stand-in, as that protocol lives in libpq. A client that pushes each request until it hears an answer, into
the real ``HttpSource``; a folder where files appear, read by the real ``FilesSource``. A request or file may hold
several rows; ``rows_of`` tells which, of the n-th transaction of a source (from 1).
"""

from __future__ import annotations

import json
import os
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
from sim_world import World

from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sources.base import Source
from headrace.sources.connectors.files.connector import FilesSource
from headrace.sources.connectors.http.connector import HttpSource

COLUMNS = {"id": "bigint", "amount": "bigint"}
TABLES = {"bank": ("orders", "lines"), "pushed": ("pushed",), "files": ("files",)}
Change = tuple[str, int, int, int]  # table, id, amount, +1 or -1


def rows_of(source: str, number: int) -> list[Change]:
    """What transaction ``number`` of a source changes."""
    amount = number * 7 % 11 - 3
    if source == "bank":
        made: list[Change] = [(table, number, amount, 1) for table in TABLES["bank"]]
        if number % 3 == 0:  # two tables lose what was made two transactions before
            made += [(table, number - 2, (number - 2) * 7 % 11 - 3, -1) for table in TABLES["bank"]]
        return made
    return [(source, 10 * number + part, amount + part, 1) for part in range(1 + number % 2)]


class Server:
    """A database with a log of its own: ``committed`` transactions; those up to ``confirmed`` are forgotten."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.committed = self.confirmed = self.told = 0

    def commit(self) -> None:
        self.committed += 1
        self.world.say("bank commits", self.committed)

    def hears(self, number: int) -> None:
        self.confirmed = max(self.confirmed, number)
        self.world.say("bank hears", self.confirmed)


class Followed(Source):
    """The server's transactions after a position, some at a time; what comes again is left out."""

    def __init__(self, server: Server) -> None:
        self.name, self.server, self.world = "bank", server, server.world

    def relations(self) -> tuple[Relation, ...]:
        columns = tuple(Column(name, type_) for name, type_ in COLUMNS.items())
        return tuple(Relation(table, columns, ()) for table in TABLES["bank"])

    def start(self, tables: frozenset[str], position: str | None) -> None:
        self.world.call("bank.start")
        self.at = self.logged = int(position or 0)
        if self.at < self.server.confirmed:
            self.world.violated(
                f"the log has {self.at} of the bank, which was told that it has {self.server.confirmed}"
            )
        self.sent = self.server.confirmed

    def add(self, tables: frozenset[str]) -> None:
        """All are followed."""

    def poll(self, wait_s: float) -> TransactionBatch | None:
        self.world.call("bank.poll")
        upto = min(self.server.committed, self.sent + self.world.rng.randrange(1, 4))
        numbers = [n for n in range(self.sent + 1, upto + 1) if n > self.at]
        self.sent = upto
        if self.logged > self.server.confirmed and self.world.rng.random() < 0.3:
            self.server.hears(self.logged)  # it is told again and again
        if not numbers:
            return None
        changes = {}
        for name in TABLES["bank"]:
            rows = [(t, *row) for t, n in enumerate(numbers) for row in rows_of("bank", n) if row[0] == name]
            changes[name] = pa.table(
                {
                    "_t": pa.array([t for t, *_ in rows], pa.int32()),
                    "_op": pa.array([0 if weight > 0 else 2 for *_, weight in rows], pa.int8()),
                    "id": pa.array([number for _, _, number, _, _ in rows], pa.int64()),
                    "amount": pa.array([amount for *_, amount, _ in rows], pa.int64()),
                }
            )
        return TransactionBatch(tuple(TransactionOrigin("bank", str(n), self.world.wall_us) for n in numbers), changes)

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None:
        self.world.call("bank.confirm")
        self.server.told += 1
        self.logged = int(batch.origins[-1].position)
        if self.world.due("unconfirmed", self.server.told):
            self.world.say("the bank does not hear that", batch.origins[-1].position, "is kept")
            return
        self.server.hears(self.logged)

    def close(self) -> None:
        """Nothing is open."""


def pushed_source() -> HttpSource:
    return HttpSource("pushed", {"listen": False, "tables": {"pushed": {"columns": COLUMNS}}})


class Client:
    """Sends its transactions in order, one to three a request, each request again until it hears that it is kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.wanted = self.kept = 0  # transactions: to be sent in all, and answered
        self.under_way = 0  # transactions of the request that is
        self.answers = 0
        self.heard: list[tuple[int, int, int]] = []  # first commit, first and last transaction
        self.future: Future[int] | None = None

    def turn(self, source: HttpSource) -> None:
        future = self.future
        if future is not None and future.done():
            self.future = None
            self.answers += 1
            if future.exception() is None and not self.world.due("dropped", self.answers):
                first, last = future.result(), self.kept + self.under_way
                self.world.say("client hears", first, "for", self.kept + 1, last)
                self.heard.append((first, self.kept + 1, last))
                self.kept, self.under_way = last, 0
        elif future is not None and self.world.rng.random() < 0.8:
            return  # it waits; else it has lost patience, and asks again
        if self.kept < self.wanted:
            self.under_way = self.under_way or min(self.wanted - self.kept, self.world.rng.randrange(1, 4))
            self.future = self.send(source)

    def send(self, source: HttpSource) -> Future[int] | None:
        numbers = range(self.kept + 1, self.kept + self.under_way + 1)
        lines = [
            {
                "changes": [
                    {"table": t, "op": "insert", "row": {"id": i, "amount": a}} for t, i, a, _ in rows_of("pushed", n)
                ]
            }
            for n in numbers
        ]
        try:
            submission = source.read("\n".join(map(json.dumps, lines)).encode(), True, f"request {numbers[0]}")
            source.queue.reserve(submission.size)
            future = source.enqueue(submission).future
        except HeadraceError as error:
            self.world.say("client is refused", error.code)
            return None
        self.world.say("client sends", numbers[0], numbers[-1])
        return future

    def hung_up(self) -> None:
        """The process that was asked is gone."""
        self.future = None


class Drops:
    """A folder in which files appear whole, in the order of their names."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        folder.mkdir()
        self.made = 0

    def make(self) -> None:
        self.made += 1
        lines = [json.dumps({"id": i, "amount": a}) for _, i, a, _ in rows_of("files", self.made)]
        hidden, path = self.folder / ".new", self.folder / f"{self.made:06}.jsonl"
        hidden.write_text("\n".join(lines) + "\n")
        os.utime(hidden, ns=(0, self.made))
        hidden.rename(path)
        self.world.say("file", self.made)

    def source(self) -> FilesSource:
        return FilesSource("files", {"path": str(self.folder), "columns": COLUMNS, "poll_seconds": 0.01})
