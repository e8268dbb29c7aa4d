"""A running project: sources into the log, steps over it, sinks after them, and the verbs beside."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from headrace.circuit.prepare import starting_workers
from headrace.engine import attach, backup, check_sink, explained, lineage, rebuild, recompute, stopping
from headrace.engine.compile import Compiled, Compiler
from headrace.engine.connectors import make_source
from headrace.engine.definitions import Definitions
from headrace.engine.deliver import Deliver
from headrace.engine.disk import refusal, telling
from headrace.engine.drop import drop
from headrace.engine.enclosed import Asking, Enclosed, Here
from headrace.engine.frontier import Waits, frontier
from headrace.engine.functions import functions_of
from headrace.engine.heard import Heard
from headrace.engine.ingest import Ingest
from headrace.engine.lost import lost_spark
from headrace.engine.maintain import Maintainer
from headrace.engine.profile import Profiles
from headrace.engine.quarantined import Quarantined
from headrace.engine.query import Found, query
from headrace.engine.reopen import look_at_state, reopen
from headrace.engine.replan import replan
from headrace.engine.retention import RetentionThread
from headrace.engine.session import open_session
from headrace.engine.status import status
from headrace.engine.usage import usage
from headrace.engine.verify import verify
from headrace.log.append import LogWriter
from headrace.model.definition import Project, SinkDefinition
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.frontier import Clock
from headrace.serve.groups import Groups
from headrace.sources.base import Source

WAIT_S = 0.2
ALONE_S = 1.0  # that Spark's process may be gone before us: a supervisor's signal was for both
T = TypeVar("T")
Progress = Callable[[dict[str, Any]], None]


class Pipeline:
    """One project at work. Methods may be called from any thread; views are moved by the engine's thread alone.

    ``quarantine``: what tables could not take, and what can be done with it; ``retention``: how short the log is kept.
    ``groups``: the consumer groups; ``groups.subscribe(...)`` reads one.
    """

    def __init__(
        self, project: Project, *, on_event: Progress | None = None, brief: bool = False, yielding: bool = False
    ) -> None:
        self.project = project
        self.folder = project.path / snapshot.STATE
        self.tell = Heard(on_event)
        self.error: BaseException | None = None
        self.recovered, self.brief, self.yielding = False, brief, yielding
        self.sources: dict[str, Source] = {}
        self.ingests: dict[str, Ingest] = {}
        self.delivers: dict[str, Deliver] = {}
        self.sinks: dict[str, SinkDefinition] = {}  # as each of ``delivers`` was made
        self.refused: dict[str, HeadraceError] = {}
        self._commands: queue.Queue[tuple[Callable[[], Any], Future[Any]]] = queue.Queue()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._waits = Waits(self)
        self.definitions = Definitions(self)
        self.quarantine = Quarantined(self)
        self.retention = RetentionThread(self)
        self.profiles = Profiles(self)
        self.groups = Groups(project.path)
        self.doors = threading.Lock()  # held while something enters the log and the quarantine together
        self._thread: threading.Thread | None = None
        self._replanned: dict[str, str] = {}
        self._goal: int | None = None  # the log's end when every source had caught up
        self.batch_lock = threading.Lock()
        self.asking: Asking
        self.latest: dict[str, Any] = {"rows": 0, "step_seconds": 0.0, "steps": 0}

    # -- life -----------------------------------------------------------------------------------------------

    @classmethod
    @contextmanager
    def open(cls, project: Project, *, brief: bool = False) -> Iterator[Pipeline]:
        """For one verb without `up`: state is recovered, but no source, sink or step runs. See ``open_session``."""
        pipeline = cls(project, brief=brief)
        try:
            with telling(pipeline.folder):
                pipeline.prepare()
            yield pipeline
        finally:
            pipeline.stop()

    def prepare(self, starting: contextlib.ExitStack | None = None, wanted: Collection[str] | None = None) -> None:
        """Open everything and recover; raises what is wrong with the definitions of sources and sinks.

        ``wanted``: see ``reopen``. ``starting``: when that is left, the first step finds its Python workers at work.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sources = {d.name: make_source(d, self.project) for d in self.project.sources}
        self.catalog = rebuild.opened(self.project.path, self.tell)
        looking = look_at_state(self.catalog)
        self.log = LogWriter(self.folder / "log")
        self.clock = Clock(self.folder / "log")
        self.spark = open_session(self.project.settings, brief=self.brief, yielding=self.yielding)
        self.compiler = Compiler(self.spark, functions_of(self.project))
        self.maintainer = Maintainer(
            self.spark, self.folder, self.catalog, self.log, self.project.settings, self.tell,
            refuses=lambda: {table for source in self.sources.values() for table in source.refuses},
        )  # fmt: skip
        if starting is not None:
            starting.enter_context(starting_workers(self.spark, self.project.settings.partitions))
        looking.join()
        self.recovered = reopen(self.maintainer, self.compiler, wanted)
        self.quarantine.begin()
        self.asking = Here(self.spark, self.batch_lock)

    def start(self) -> None:
        """Prepare, take the definitions, then run sources, steps and sinks until ``stop``."""
        with telling(self.folder), contextlib.ExitStack() as starting:
            self.prepare(starting, {view.name for view in self.project.views})
            self.definitions.carry_out(self.project)
            self.maintainer.plan_ahead()  # while the first Python workers start, and sources read
        self.maintainer.ticks.advance(())  # time has passed
        self.asking = Enclosed(self.project.settings)
        self._thread = threading.Thread(target=self._run, name="headrace-engine", daemon=True)
        self._thread.start()
        self.retention.start()

    def stop(self) -> None:
        """Finish the step that runs, checkpoint, and close everything."""
        self._stopping.set()
        self.retention.close()
        if hasattr(self, "asking"):
            self.asking.close()
        for ingest in list(self.ingests.values()):
            ingest.close()
        if self._thread is not None:
            self._thread.join()
        for deliver in self.delivers.values():
            deliver.close()
        if hasattr(self, "maintainer"):
            # Half a recovery, or half a step, is no state to keep.
            if self.error is None and self.recovered and self.maintainer.torn is None:
                self.maintainer.checkpoint()
            self.maintainer.close()
        if hasattr(self, "log"):
            self.log.close()
        self.groups.close()
        if hasattr(self, "catalog"):
            self.catalog.close()
        if hasattr(self, "spark"):
            with contextlib.suppress(ConnectionError):  # a supervisor's signal may have ended the JVM before
                self.spark.stop()
        self._stopped.set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Until stopped or failed, at most ``timeout_s``; raises what the engine failed with."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        if self.error is not None:
            raise self.error

    def caught_up(self) -> bool:
        """Whether what was at the sources when they started is in the views and in the sinks.

        Raises what a source or a sink failed with: then it will not be.
        """
        ingests, delivers = list(self.ingests.values()), [d for d in self.delivers.values() if not d.paused]
        for error in (*(i.error for i in ingests), *(d.error for d in delivers)):
            if error is not None:
                raise error
        if self._goal is None and all(ingest.caught_up.is_set() for ingest in ingests):
            self._goal = self.log.end
        if self._goal is None or self.maintainer.frontier < self._goal:
            return False
        return all((deliver.frontier or 0) >= self._goal for deliver in delivers)

    @property
    def runs(self) -> bool:
        """Whether it has started: steps, sources and sinks, not one verb alone."""
        return self._thread is not None

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def _run(self) -> None:
        """The engine's thread: steps while there are commits, commands between them, else wait for the log."""
        try:
            while not self._stopping.is_set():
                self._commanded()
                if gone := lost_spark(self.spark):
                    if self._stopping.wait(ALONE_S):
                        break
                    raise gone
                began = time.monotonic()
                if self.profiles.step():
                    self.latest["steps"] += 1
                    self.latest["step_seconds"] = time.monotonic() - began
                    for deliver in self.delivers.values():
                        deliver.wake()
                else:
                    self.log.wait(self.maintainer.frontier, WAIT_S)
                self.definitions.discover()
                replan(self, self._replanned)
                self.maintainer.tidy()
                stopping.hold(self)
        except BaseException as error:
            self.error = refusal(error, self.folder) or lost_spark(self.spark, error) or error
            if getattr(self.error, "code", "") != "spark.lost":  # of which `up` tells, who begins it again
                self.tell({"event": "engine.failed", "error": str(self.error)})
        finally:
            while not self._commands.empty():
                self._commands.get()[1].set_exception(HeadraceError("project.not_running", "the product is stopping"))

    def _commanded(self) -> None:
        while True:
            try:
                work, future = self._commands.get_nowait()
            except queue.Empty:
                return
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(refusal(error, self.folder) or error)
                self.maintainer.whole()  # else the engine fails, as where a step does that nobody asked for

    def on_engine(self, work: Callable[[], T]) -> T:
        """Run ``work`` between two steps, on the engine's thread (or here, where there never was one).

        Raises what the engine failed with: half of a step may be in what it holds; and project.not_running once it
        has stopped, as its state is being saved then.
        """
        if self.error is not None:
            raise self.error
        thread = self._thread
        if thread is None or threading.current_thread() is thread:
            return work()
        future: Future[T] = Future()
        self._commands.put((work, future))
        while not future.done() and thread.is_alive():
            wait([future], WAIT_S)
        if not future.done():  # it was asked when the thread had looked for the last time
            raise HeadraceError("project.not_running", "the product is stopping")
        return future.result()

    # -- definitions ----------------------------------------------------------------------------------------

    def plan(self, project: Project | None = None) -> dict[str, Any]:
        """What taking the definitions would change; nothing is changed. ``unread``: sources with unknown tables."""
        return self.on_engine(lambda: self.definitions.plan(project or self.project))

    def apply(self, project: Project) -> dict[str, Any]:
        """Take edited definitions: new versions are built beside the old and swapped in, in sinks too.

        What fails leaves the project that there was at work.
        """
        return self.on_engine(lambda: self.definitions.apply(project))

    # -- verbs ----------------------------------------------------------------------------------------------

    def push(self, source: str, changes: list[dict[str, Any]]) -> int:
        """One transaction into a source that is pushed to; returns its commit number once the log has it durably.

        ``changes``: ``{"table", "op", "row"}`` each, as over HTTP. Raises ``source.row`` and keeps nothing of it.
        """
        found = self.sources.get(source)
        if found is None or not hasattr(found, "submit"):
            names = ", ".join(n for n, s in self.sources.items() if hasattr(s, "submit")) or "none"
            raise HeadraceError(
                "config.invalid", f"nothing can be pushed into '{source}'", next=f"sources of type http: {names}"
            )
        commit: int = found.submit({"changes": changes}).result()
        return commit

    def wait_for(
        self, token: int | str, timeout_s: float = 60.0, view: str | None = None, sink: str | None = None,
        on_progress: Progress | None = None, whose: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Until every live view and every sink, or just that view or sink, has reached a write: read your own writes.

        ``token``: a commit number, or ``SOURCE:POINT`` (PostgreSQL: an LSN read after the commit); ``whose``: the id of
        who waits, if it has one, so that not all who wait are it. The answer:
        ``{"token", "commit", "reached", "of"}``. Raises ``HeadraceError``: wait.token, wait.busy, view.unknown,
        sink.unknown, view.failed, and after ``timeout_s`` wait.timeout, which is a ``TimeoutError`` too.
        """
        return self._waits.wait_for(token, timeout_s, view, sink, on_progress, whose)

    def frontier(self) -> dict[str, Any]:
        """Which commit each view and sink has reached, and ``least``, the least of them: see ``serve.frontier``."""
        return frontier(self)

    def show(self, view: str) -> pa.Table:
        """A view's rows now, each as often as it stands there."""
        rows = snapshot.contents(self.project.path, view)[2]
        copies = np.repeat(np.arange(rows.num_rows), rows["_w"].to_numpy())
        return rows.drop_columns(["_w"]).take(pa.array(copies))

    def explain(self, view: str, sql: str | None = None) -> dict[str, Any]:
        """Operators of a view, or of one that this SELECT would be; see ``explained``."""
        return explained.explained(self, view, sql)

    def lineage(self) -> dict[str, Any]:
        """The columns that each column of each view comes from; see ``headrace.engine.lineage``."""
        return lineage.lineage(self)

    def view(self, name: str) -> Compiled:
        if name not in self.maintainer.views:
            snapshot.known(self.catalog, name)
            raise HeadraceError(
                "view.failed", f"view {name} has failed", why=self.catalog.views()[name].reason,
                next="correct the row, or edit the view and `headrace apply`",
            )  # fmt: skip
        return self.maintainer.views[name]

    def sql(self, text: str) -> pa.Table:
        """The rows of one SELECT over tables and views, all at the present frontier; see ``query``."""
        return query(self, text).rows

    def query(
        self, text: str, seconds: float | None, still_wanted: Callable[[], bool], limit: int | None
    ) -> Found:  # fmt: skip
        """The same with its commit, at most ``limit`` rows; see ``query``."""
        return query(self, text, seconds, still_wanted, limit)

    def recompute(self, view: str, commit: int, on_progress: Progress) -> recompute.Recomputed:
        """A view as of a commit that nothing published tells of, by its query over the log up to there."""
        return recompute.running(self, view, commit, on_progress)

    def verify(self, views: list[str] | None = None, on_progress: Progress | None = None) -> dict[str, Any]:
        """Law 1 now: every view against the same SQL by Spark batch over the log, at one frontier."""
        return verify(self, views, on_progress)

    def verify_sink(self, sink: str, views: list[str], on_progress: Progress) -> dict[str, Any]:
        """A sink's rows against the views at the sink's commit; see ``check_sink.verify``."""
        return check_sink.verify(self.project, self.catalog, sink, views, on_progress)

    def repair(self, sink: str, views: list[str], on_progress: Progress) -> dict[str, Any]:
        """The rows that differ in a sink, put right between two deliveries; see ``check_sink.repair``."""
        return check_sink.repair(self.project, self.catalog, sink, views, on_progress, self.delivers.get(sink))

    def backup(self, folder: Path, on_progress: Progress) -> dict[str, Any]:
        """The project as of one commit, copied into an empty folder; see ``backup.copy``."""
        target = backup.begin(folder)

        def held() -> tuple[backup.Cut, int]:
            self.maintainer.checkpoint()
            with self.doors:
                made = backup.cut(self.catalog, self.project.path, target)
            return made, self.maintainer.hold(str(self.folder / name) for name in made.files)

        with telling(target, backup.AGAIN), self.log.held(), self.retention.audit:
            made, ticket = self.on_engine(held)
            try:
                return backup.copy(self.project.path, made, target, on_progress)
            finally:
                self.maintainer.unpin(ticket)

    def drop(self, view: str) -> dict[str, Any]:
        """Drop a view here and in every sink; refused with the names of the views that read it."""
        return self.on_engine(partial(drop, self, view))

    def pause(self, sink: str, paused: bool) -> dict[str, Any]:
        """Whether a sink is given nothing for now; see ``attach.pause``."""
        return attach.pause(self.delivers, sink, paused)

    def status(self) -> dict[str, Any]:
        """How far the log, each view, source and sink are, and what is wrong."""
        return status(self)

    def usage(self) -> dict[str, Any]:
        """What this project takes of its machine."""
        return usage(self)
