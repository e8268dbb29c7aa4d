"""One process of the product in the simulated world: its real parts, each moved by a turn instead of a thread.

Only what Spark would compute is a stand-in: a view of one table, one of all others, the sum of each from kept runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pyarrow as pa
from sim_disk import Disk
from sim_judge import APART, PLACE, VIEWS
from sim_sources import TABLES
from sim_stores import Store, StoreSink
from sim_world import World

from headrace.catalog.store import Catalog, Output, ViewRecord
from headrace.circuit import task, written
from headrace.circuit.operators.publish import Publish
from headrace.engine import backfill, deliver, door, forget, ingest, kept, maintain
from headrace.engine.deliver import Deliver
from headrace.engine.ingest import Ingest
from headrace.engine.maintain import Maintainer
from headrace.engine.step import Result
from headrace.log.group import Appender
from headrace.model.definition import Settings
from headrace.model.schema import Column, ViewSchema
from headrace.serve import sound
from headrace.sources.base import Source
from headrace.sources.connectors.files import connector as files
from headrace.sources.connectors.http import queue, transactions
from headrace.state import run
from headrace.state.arrangement import Arrangement
from headrace.state.run import HASH, column, write_run

SEGMENT_BYTES = 2048
SCHEMAS = tuple(ViewSchema(name, 1, (Column("id", "bigint"), Column("amount", "bigint")), ()) for name in VIEWS)
NO_SPARK = MagicMock()


@contextmanager
def simulated(world: World, disk: Disk) -> Iterator[None]:
    """The product's clock and syncs are the world's; compaction, forgetting and merging come after a few steps."""
    changed: list[tuple[Any, str, Any]] = [
        *((module, "time", world) for module in (backfill, deliver, door, ingest, kept, maintain, files, queue, transactions)),
        (maintain, "COMPACT_FILES", 2), (forget, "RETAINED_STEPS", 2), (kept, "RUNS_MAX", 5), (ingest, "POLL_S", 0.0),
        (task, "_task", lambda: _TASK),
    ]  # fmt: skip
    before = [(module, name, getattr(module, name)) for module, name, _ in changed]
    for module, name, value in changed:
        setattr(module, name, value)
    try:
        with disk.noted():
            yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


class AtOnce(Executor):
    """What a process does beside, done when it is asked for: a thread would go on after the process has died."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **named))
        except BaseException as error:
            done.set_exception(error)
        return done


class Recorded(Catalog):
    """The catalogue, whose transactions are calls: the process may die before one, and after it."""

    def __init__(self, path: Path, world: World) -> None:
        self.world = world
        super().__init__(path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        outermost = not self._db.in_transaction
        if outermost:
            self.world.call("catalogue")
        with super().transaction():
            yield
        if outermost:
            self.world.call("catalogue done")


class Process:
    """``turns``: what can be done next, by name; each gives the seconds to wait before it is done again."""

    def __init__(self, world: World, disk: Disk, sources: list[Source], stores: dict[str, Store], each: bool) -> None:
        self.world = world
        folder = disk.folder
        run._open.clear()
        sound._known.clear()
        self.log = Appender(folder / "log", segment_bytes=SEGMENT_BYTES, files=disk)
        self.catalog = Recorded(folder / "catalog.db", world)
        if not self.catalog.views():
            with self.catalog.transaction():
                for schema in SCHEMAS:
                    self.catalog.put_view(ViewRecord(schema, "", "", "live", "", 0))
        settings = Settings(transactions="each" if each else "grouped")
        self.engine = Engine(NO_SPARK, folder, self.catalog, cast(Any, self.log), settings, self.hear)
        self.engine.world = world
        self.engine.kept.start = lambda: None  # type: ignore[method-assign]
        self.engine.kept._writer = self.engine.compactions._worker = cast(Any, AtOnce())
        self.engine.recover({}, {s.name: cast(Any, SimpleNamespace(schema=s, feed=f"{s.name}@1")) for s in SCHEMAS})
        self.sources = {source.name: source for source in sources}
        self.delivers = [
            Deliver(StoreSink(store), None, self.catalog, self.engine.reader, self.hear) for store in stores.values()
        ]
        self.turns: dict[str, Callable[[], float | None]] = {"step": self.step, "tidy": self.tidy, "merge": self.merge}
        self.listening: dict[str, Callable[[], bool]] = {}
        for source in sources:
            tables = frozenset(TABLES[source.name])
            follows = Ingest(source, cast(Any, self.log), tables, self.hear)
            self.turns[source.name] = follows.turn
            self.listening[source.name] = follows.ready.is_set
        for delivers in self.delivers:
            self.turns[delivers.sink.name] = delivers.turn

    def hear(self, event: dict[str, Any]) -> None:
        about = event.get("source") or event.get("sink") or ""
        error = event.get("error")
        self.world.say("event", event["event"], about, f"{error['code']} {error['what']}" if error else "")

    def step(self) -> float:
        result = self.engine.step()
        if result is not None:
            self.world.say("step", result.number, "up to", self.engine.frontier)
        return 0.0

    def tidy(self) -> float:
        self.engine.checkpoint()
        return 0.0

    def merge(self) -> float:
        self.engine.kept.merge()
        return 0.0

    def gone(self, *, but_catalog: bool = False) -> None:
        """Nothing of it is left but what it wrote."""
        if not but_catalog:
            self.catalog.close()


class Engine(Maintainer):
    """The coordinator over circuits that are Python here."""

    world: World

    def load(self, tables: Any, views: Any) -> None:
        self.tables, self.views = dict(tables), dict(views)
        self.stepper = cast(Any, Steps(self))


class Steps:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.numbers = count()

    def run(self, number: int, after: int, upto: int, *, wide: bool, instants: str, again: bool) -> Result:
        world = self.engine.world
        folder = self.engine.folder / "state" / f"{number}.{world.calls}.{next(self.numbers)}"
        folder.mkdir()
        world.call("step")
        result = Result(number)
        changes: list[tuple[int, int, int, int]] = []  # view, amount, instant, weight
        rows: dict[str, list[tuple[int, int, int, int]]] = {"orders": [], "others": []}
        refs = self.engine.reader.refs(after, upto)
        for name in ("orders", *PLACE):
            view, shift = ("others", PLACE[name] * APART) if name in PLACE else (name, 0)
            for batch in self.engine.reader.read(refs, name, after, upto):
                given = batch.to_pydict()
                for commit, operation, identity, amount in zip(
                    given["_c"], given["_op"], given["id"], given["amount"], strict=True
                ):
                    instant, weight = commit - after if instants == "each" else 1, 1 - operation
                    rows[view].append((shift + identity, amount, instant, weight))
                    changes.append((VIEWS.index(view), amount, instant, weight))
        for view, changed in rows.items():
            self.publish(result, folder, view, changed)
        self.publish(result, folder, "sums", self.sums(changes))
        if changes:
            path = folder / f"all~0~0~{len(changes)}.arrow"
            write_run(path, table(changes).drop_columns(["_i"]))
            result.runs.append(path)
        return result

    def sums(self, changes: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
        """Rows of the totals that change, from what is kept, which must be all of it."""
        totals = [0] * len(VIEWS)
        for part in Arrangement(self.engine.kept.paths().get("all", []), "simulation").all():
            for place, amount, weight in zip(*(column(part, c).tolist() for c in ("c0", "c1", "_w")), strict=True):
                totals[place] += amount * weight
        moves: dict[tuple[int, int], int] = {}
        for place, amount, instant, weight in changes:
            moves[instant, place] = moves.get((instant, place), 0) + amount * weight
        rows = []
        for (instant, place), moved in sorted(moves.items()):
            before = totals[place]
            totals[place] += moved
            if moved:
                rows += [(place, n, instant, weight) for n, weight in ((before, -1), (totals[place], 1)) if n]
        return rows

    def publish(self, result: Result, folder: Path, view: str, rows: list[tuple[int, int, int, int]]) -> None:
        if not rows:
            return
        _TASK.begin(folder)
        for batch in Publish(f"{view}@1", durable=True, consolidated=False)(table(rows).to_batches()):
            for file in written.files_of(batch):
                result.outputs.append(Output(result.number, file.circuit, file.path, file.rows, file.sums))


def table(rows: Iterable[tuple[int, int, int, int]]) -> pa.Table:
    """(id, amount, instant, weight) as a step writes them, in the order of their hashes."""
    identities, amounts, instants, weights = zip(*sorted(rows), strict=True)
    ids = pa.array(identities, pa.int64())
    return pa.table(
        {
            HASH: ids,
            "c0": ids,
            "c1": pa.array(amounts, pa.int64()),
            "_i": pa.array(instants, pa.int32()),
            "_w": pa.array(weights, pa.int64()),
        }
    )


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
