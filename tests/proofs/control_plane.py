"""The control plane at work without Spark: the real log, coordinator, catalogue, kept state and delivery.

Only what Spark would compute is a stand-in: a step's outputs are made here in Python, from the log and from the runs
that it keeps, and written by the product's own operator. A process of this takes what its source still has to give,
one transaction after the other, until the sink has all of it; now and then the log's beginning goes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pyarrow as pa
from bank import KEPT, SOURCE, VIEWS, History

from headrace.catalog.store import Catalog, Output, ViewRecord
from headrace.circuit import task, written
from headrace.circuit.operators.publish import Publish
from headrace.engine import deliver as delivering
from headrace.engine import forget as forgetting
from headrace.engine import kept as keeping
from headrace.engine import maintain, retain
from headrace.engine.compile import Compiled
from headrace.engine.deliver import Deliver
from headrace.engine.maintain import Maintainer
from headrace.engine.step import Result
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.definition import Settings
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch
from headrace.sinks.base import Sink
from headrace.sinks.connectors.duckdb.connector import DuckdbSink
from headrace.sinks.connectors.postgres.connector import PostgresSink
from headrace.state import run
from headrace.state.arrangement import Arrangement
from headrace.state.run import HASH, column

FINISHED, LOST, MISPLACED, STUCK, CHANGED = 0, 3, 4, 5, 6  # what a process exits with
SEGMENT_BYTES = 4096
STUCK_S = 20.0
BLOCK = 128  # bytes of a file that have a checksum of their own


@dataclass(frozen=True)
class World:
    """What a process works on: its folder, the history that its source gives, and where its sink writes.

    ``dsn``: of PostgreSQL, in whose schema ``schema`` the views lie; without it a DuckDB file of the folder.
    """

    folder: str
    seed: int
    transactions: int
    each: bool
    dsn: str = ""
    schema: str = "main"

    @property
    def acknowledged(self) -> Path:
        """A line for each transaction that the source was told is durable: it will never give that again."""
        return Path(self.folder) / "acknowledged"

    @property
    def store(self) -> Path:
        return Path(self.folder) / "warehouse.duckdb"

    def sink(self) -> Sink:
        if self.dsn:
            return PostgresSink("warehouse", {"dsn": self.dsn, "schema": self.schema}, {})
        return DuckdbSink("warehouse", {"path": str(self.store)}, {})


def work(world: World, tell: Callable[[dict[str, Any]], None] = lambda event: None) -> int:
    """Recover, then go on to the end of the history. ``tell`` hears what the product would tell of its sink and source."""
    _often()
    without_spark()
    folder, history = Path(world.folder), History(world.seed, world.transactions)
    log = LogWriter(folder / "log", segment_bytes=SEGMENT_BYTES)
    confirmed = sum(1 for _ in world.acknowledged.open("rb")) if world.acknowledged.exists() else 0
    at = int(log.positions.get(SOURCE, "0"))
    if at < confirmed:
        return LOST
    if not _adds_up(folder / "log", history, at):
        return CHANGED
    catalog = Catalog(folder / "catalog.db")
    engine = recovered(folder, catalog, log, each=world.each)
    deliver = Deliver(world.sink(), None, catalog, engine.reader, tell)
    deliver.start()
    told = os.open(world.acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _confirm(told, confirmed, at)
    while at < world.transactions:
        size = history.together(at)
        if _taken(log, history.batch(at + 1, size), tell) != at + 1:
            return MISPLACED
        _confirm(told, at, at + size)
        at += size
        pause = history.pause(at)
        if pause >= 1:
            _step(engine, deliver)
        if pause == 2:
            _until(deliver, at)
            engine.checkpoint()
            _shorten(folder, catalog, log)
    _step(engine, deliver)
    if not _until(deliver, at):
        print(f"the sink stays at {deliver.reached}: {deliver.error}", flush=True)
        return STUCK
    engine.checkpoint()
    deliver.close()
    engine.close()
    log.close()
    catalog.close()
    return FINISHED


def recovered(folder: Path, catalog: Catalog, log: LogWriter, *, each: bool) -> Plain:
    """The coordinator, as far as it was; its views are those of the bank."""
    if not catalog.views():
        with catalog.transaction():
            for schema in VIEWS:
                catalog.put_view(ViewRecord(schema, "", "", "live", "", 0))
            for name in KEPT:
                catalog.put_relation(SOURCE, Relation(name, VIEWS[0].columns))
    settings = Settings(transactions="each" if each else "grouped")
    engine = Plain(MagicMock(), folder, catalog, log, settings, lambda event: None)
    engine.recover({}, {s.name: cast(Compiled, SimpleNamespace(schema=s, feed=f"{s.name}@1")) for s in VIEWS})
    return engine


def _often() -> None:
    """Compaction, forgetting and merging come after a few steps here, not after many; blocks are small; nobody waits."""
    maintain.COMPACT_FILES, forgetting.RETAINED_STEPS, keeping.RUNS_MAX = 3, 3, 5
    run.BLOCK = BLOCK
    delivering.RETRY_S, delivering.WAIT_S = (0.01,), 0.02


def without_spark() -> None:
    """What Spark tells a task of itself is told by a stand-in."""
    task._task = lambda: _TASK


def _taken(log: LogWriter, batch: TransactionBatch, tell: Callable[[dict[str, Any]], None]) -> int:
    """The first commit; what a full disk refuses is given again until there is room, as a source does."""
    while True:
        try:
            return log.append(batch)
        except HeadraceError as error:
            if error.code != "log.full":
                raise
            tell({"event": "source.failed", "error": error.as_dict()})
            time.sleep(0.01)


def _confirm(told: int, after: int, upto: int) -> None:
    os.write(told, b"".join(b"%d\n" % n for n in range(after + 1, upto + 1)))


def _shorten(folder: Path, catalog: Catalog, log: LogWriter) -> None:
    """Retention at its keenest: the log goes up to where it may."""
    plan = retain.planned(folder / "log", catalog, log.roll(), None)
    if plan.segments:
        assert retain.carry_out(folder, catalog, log, plan) is not None


def _adds_up(log: Path, history: History, at: int) -> bool:
    """Whether the log's base and what lies behind it are the tables after the transaction ``at``."""
    reader = LogReader(log)
    found = {name: Counter[tuple[int, int]]() for name in KEPT}
    for name, rows in found.items():
        for batch in reader.read(reader.refs(0, at), name, 0, at):
            for row in batch.to_pylist():
                rows[row["id"], row["amount"]] += 1 - row["_op"]
    return all({r: n for r, n in rows.items() if n} == history.held[at][name] for name, rows in found.items())


def _step(engine: Maintainer, deliver: Deliver) -> None:
    while engine.step() is not None:
        deliver.wake()


def _until(deliver: Deliver, commit: int) -> bool:
    give_up = time.monotonic() + STUCK_S
    while deliver.reached < commit and time.monotonic() < give_up:
        time.sleep(0.001)
    return deliver.reached >= commit


class Plain(Maintainer):
    """The coordinator over circuits that are Python here."""

    def load(self, tables: Any, views: Any) -> None:
        self.tables, self.views = dict(tables), dict(views)
        self.stepper = cast(Any, Steps(self))


_numbers = count()


class Steps:
    """Runs a step: the rows of two tables go into views of their own, a third adds up what is kept of both."""

    def __init__(self, engine: Maintainer) -> None:
        self.engine = engine

    def run(self, number: int, after: int, upto: int, *, wide: bool, instants: str, again: bool) -> Result:
        del wide
        folder = self.engine.folder / "state" / f"{number}.{next(_numbers)}.{os.getpid()}"
        folder.mkdir()
        result = Result(number)
        tables = {name: self.changes(name, after, upto, apart=instants == "each") for name in KEPT}
        for name, table in tables.items():
            self.publish(result, folder, name, table)
        self.publish(result, folder, "sums", self.sums(tables))
        for name, table in tables.items():
            if table.num_rows:
                path = folder / f"{name}~0~0~{table.num_rows}.arrow"
                _write(path, table)
                result.runs.append(path)
        return result

    def changes(self, name: str, after: int, upto: int, *, apart: bool) -> pa.Table:
        """The changes of a table as weighted rows, each at its instant."""
        reader = self.engine.reader
        read = list(reader.read(reader.refs(after, upto), name, after, upto))
        rows = [row for batch in read for row in batch.to_pylist()]
        return _rows([(row["id"], row["amount"], row["_c"] - after if apart else 1, 1 - row["_op"]) for row in rows])

    def sums(self, tables: dict[str, pa.Table]) -> pa.Table:
        """A row for each table, with the sum of its amounts: from what is kept, which must be all of it."""
        rows: list[tuple[int, int, int, int]] = []
        for place, (name, table) in enumerate(tables.items()):
            kept = Arrangement(self.engine.kept.paths().get(name, []), "proof").all()
            total = sum(int((column(t, "c1") * column(t, "_w")).sum()) for t in kept)
            moves: dict[int, int] = {}
            for amount, instant, weight in zip(*(table[c].to_pylist() for c in ("c1", "_i", "_w")), strict=True):
                moves[instant] = moves.get(instant, 0) + amount * weight
            for instant, moved in sorted(moves.items()):
                before, total = total, total + moved
                if moved:
                    rows += [(place, n, instant, weight) for n, weight in ((before, -1), (total, 1)) if n]
        return _rows(rows)

    def publish(self, result: Result, folder: Path, view: str, table: pa.Table) -> None:
        _TASK.begin(folder)
        made = Publish(f"{view}@1", durable=True, consolidated=False)(table.to_batches())
        for batch in made:
            for file in written.files_of(batch):
                result.outputs.append(Output(result.number, file.circuit, file.path, file.rows, file.sums))


def _rows(rows: Iterable[tuple[int, int, int, int]]) -> pa.Table:
    """(id, amount, instant, weight) as a step writes them, in the order of their hashes."""
    columns = list(zip(*sorted(rows), strict=True)) or [[], [], [], []]
    identities = pa.array(columns[0], pa.int64())
    return pa.table(
        {
            HASH: identities,
            "c0": identities,
            "c1": pa.array(columns[1], pa.int64()),
            "_i": pa.array(columns[2], pa.int32()),
            "_w": pa.array(columns[3], pa.int64()),
        }
    )


def _write(path: Path, table: pa.Table) -> None:
    from headrace.state.run import write_run

    write_run(path, table.drop_columns(["_i"]))


class _Task:
    """What Spark tells a task of itself."""

    def begin(self, folder: Path) -> None:
        self.step = str(folder)
        task._known.clear()
        task._known[self.step] = task.Step("", [], 0, 0, "one", {}, {}, False, str(folder))

    def getLocalProperty(self, name: str) -> str:
        return self.step

    def partitionId(self) -> int:
        return 0

    def taskAttemptId(self) -> int:
        return 0


_TASK = _Task()
