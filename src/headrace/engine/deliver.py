"""One thread a sink: it follows the published steps from its own frontier and holds up nobody.

The thread only waits: all that happens, happens in ``turn``.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import Any, TypeVar

import pyarrow as pa

from headrace.catalog.store import PAUSED, Catalog, StepRecord, ViewRecord
from headrace.engine.disk import own_refusal
from headrace.engine.matched import Searches, matches, matches_apart
from headrace.engine.wanted import Place, Wanted
from headrace.log.read import LogReader
from headrace.model.delivery import Delivery, Succession
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve import snapshot
from headrace.serve.sound import File, sound
from headrace.sinks.base import Sink
from headrace.state.rows import consolidate

WAIT_S = 0.5
FINAL = ("sink.fenced", "sink.gone")  # to go on would not help
RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)
SINCE = "it had failed, and has come back since"
T = TypeVar("T")
ROWS_MAX = 1_000_000  # a sink that catches up takes several steps at once, up to about this many rows
EACH_STEPS = 100  # so many, when each transaction is one of its own: then its frontier is written down


class Deliver(threading.Thread):
    """Delivers views to one sink until closed, or with ``searches`` the matches of stored queries.

    Failures are kept in ``error`` and retried from the sink's frontier.
    """

    def __init__(
        self, sink: Sink, views: tuple[str, ...] | None, catalog: Catalog, log: LogReader,
        tell: Callable[[dict[str, Any]], None], searches: Searches | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name=f"headrace-sink-{sink.name}", daemon=True)
        self.sink, self.views, self.catalog, self.log, self.tell = sink, views, catalog, log, tell
        self.searches = searches
        self.error: HeadraceError | None = None
        self.attempt = 0  # how often in a row it has failed
        self.frontier: int | None = None
        self.rows = 0
        self.quarantined: Mapping[str, int] = {}
        self._before = catalog.sinks().get(sink.name, (0,))[0]  # reached by an earlier process
        self._opened = False
        self._held: dict[str, int] = {}
        self._left = 0  # where the log began when this sink was last found to be behind that
        self.paused = bool(catalog.meta(PAUSED + sink.name))
        self._published = threading.Event()
        self._closed = threading.Event()
        self._asked: queue.Queue[tuple[Callable[[Sink], Any], Future[Any]]] = queue.Queue()

    @property
    def reached(self) -> int:
        """The commit up to which the sink's store has the views."""
        return self._before if self.frontier is None else self.frontier

    @property
    def ended(self) -> HeadraceError | None:
        """What it failed with for good: nothing more is delivered."""
        return self.error if self.error is not None and not self.is_alive() else None

    @property
    def state(self) -> str:
        """``paused``, ``failed`` or ``running``."""
        return "paused" if self.paused else "failed" if self.error else "running"

    def taken(self, views: list[str]) -> list[str]:
        """Which of all ``views`` it delivers, or those whose rows are matched."""
        return self.searches.views() if self.searches else views if self.views is None else list(self.views)

    def pause(self, paused: bool) -> None:
        """Whether it is given nothing from the next delivery on; it stays so when the product starts again."""
        self.catalog.set_meta(PAUSED + self.sink.name, "1" if paused else "")
        self.paused = paused
        self.wake()

    def wake(self) -> None:
        """A step was published."""
        self._published.set()

    def close(self) -> None:
        self._closed.set()
        self._published.set()
        if self.is_alive():
            self.join(timeout=30)

    def between(self, work: Callable[[Sink], T]) -> T:
        """Runs ``work`` in this thread between two deliveries, with the sink open; its answer, or what it raises.

        Raises what the sink failed with when it cannot be opened.
        """
        future: Future[T] = Future()
        self._asked.put((work, future))
        self._published.set()
        while not future.done() and self.is_alive():
            wait([future], WAIT_S)
        if not future.done():
            self._refuse()
        return future.result()

    def run(self) -> None:
        while not self._closed.is_set():
            self._published.clear()
            wait_s = self.turn()
            if wait_s is None:
                break
            (self._published if self.error is None else self._closed).wait(wait_s)
        self.sink.close()

    def turn(self) -> float | None:
        """One move: open the sink, or deliver what is next. Seconds to wait before the next one; None: it is over."""
        if self.paused and self._asked.empty():
            return WAIT_S
        try:
            if not self._opened:
                self.begin()
            return 0.0 if self.deliver() else WAIT_S
        except Exception as error:
            self.failed(error)
            if not self._opened:  # else the next turn answers before it delivers
                self._refuse()
            self._opened = False
            if self.error is not None and self.error.code in FINAL:
                return None
            self.attempt += 1
            return RETRY_S[min(self.attempt, len(RETRY_S)) - 1]

    def begin(self) -> None:
        last = self.catalog.last_published()
        self.frontier, self._opened = self.sink.open(last.upto if last else 0) or 0, True
        if self.sink.anew:
            self.tell({"event": "sink.anew", "sink": self.sink.name, "reason": self.sink.anew})
        self.tell_quarantined()
        self._held = self.sink.held()

    def deliver(self) -> bool:
        """Write what is next; False when nothing is."""
        if self._answered():
            self._held = self.sink.held()
        due = None if self.paused or not self.sink.ready() else self.next(self._held)
        if due is None:
            self.recovered()
            return False
        if isinstance(due, Succession):
            self.sink.write_each(due)
            delivery = due.whole
        else:
            self.sink.write(due)
            delivery = due
        self.recovered()
        self.tell_quarantined()
        self.rows += sum(t.num_rows for t in (*delivery.deltas.values(), *delivery.replacements.values()))
        for name in delivery.replacements:
            self._held[name] = delivery.schemas[name].version
        for name in delivery.dropped:
            self._held.pop(name, None)
        self.catalog.put_sink(self.sink.name, delivery.commit, "", time.time_ns() // 1000)
        self.frontier = delivery.commit  # the last of it: who waits for that finds the rest as it is then
        return True

    def _answered(self) -> bool:
        """Does what was asked for, if anything; what goes wrong is told to who asked, and this thread goes on."""
        asked = False
        while not self._asked.empty():
            asked = True
            work, future = self._asked.get()
            try:
                future.set_result(work(self.sink))
            except BaseException as error:
                future.set_exception(error)
            self.tell_quarantined()
        return asked

    def _refuse(self) -> None:
        """Who waits hears why nothing can be done now."""
        while not self._asked.empty():
            _, future = self._asked.get()
            future.set_exception(self.error or HeadraceError("project.not_running", "the sink's thread has ended"))

    def next(self, held: dict[str, int]) -> Delivery | Succession | None:
        """All that takes the sink from its frontier to a later published step; None when it is there."""
        frontier = self.frontier or 0
        with self.catalog.transaction():  # one state of the catalogue: steps, versions and outputs that agree
            steps = self.catalog.published(frontier, EACH_STEPS if self.sink.apart else None)
            if not steps:
                return None
            wanted = self.wanted()
            complete = steps[0].after <= frontier and not self.left_behind(frontier)
            first, dropped = steps[0], wanted.dropped(held)
            each: list[StepRecord] = []  # as far as each of their transactions can be one of its own in the sink
            if complete:
                each = list(takewhile(lambda s: s.shape.each and wanted.current(held, s.upto), steps[:EACH_STEPS]))
            if each:
                wanted = wanted.known(held)
                stale_at = self.stale(wanted)
                chosen = self.bounded([*takewhile(lambda step: stale_at(step) == stale_at(first), each)])
            elif complete and self.sink.apart and wanted.had(first, held):
                wanted = wanted.as_held(held)
                chosen = [first]
            elif complete and wanted.current(held):
                chosen = self.bounded(steps)
            else:
                chosen = self.catalog.published(frontier) if self.sink.apart else steps
            last = chosen[-1]
            stale = self.stale(wanted)(last)
            files: dict[Place, list[File]] = {}
            before, ends = {s.number: s.after for s in chosen}, {s.number: s.upto for s in chosen}
            after: dict[str, int] = {}  # the commit before the step that wrote a file
            back: dict[str, int] = {}  # what came back as it was, and the commit at which it did
            records = wanted.by_feed(held if complete else {})
            for feed, whole in records:
                if whole:
                    files[feed, whole] = snapshot.named(self.catalog, feed, last.number)[0]
                else:
                    outputs = self.catalog.outputs(first.number - 1, last.number, feed)
                    files[feed, whole] = [(o.path, o.sums) for o in outputs]
                    after |= {o.path: before[o.step] for o in outputs}
                    back |= {n: ends[o.step] for o in outputs if snapshot.BACK in o.path for n in records[feed, whole]}
        paths = {place: sound(found, place[0].rpartition("@")[0]) for place, found in files.items()}
        schemas = wanted.schemas
        if each:
            given = [(records[place], [(p, after[p]) for p in found]) for place, found in paths.items() if found]
            return self.apart(frontier, last.upto, given, schemas, stale, back)
        deltas, replacements = dict[str, pa.Table](), dict[str, pa.Table]()
        for (feed, whole), found in paths.items():
            of = records[feed, whole]
            record = next(iter(of.values()))
            if whole:
                replacements |= matches(of, snapshot.delta(record, found), every=True)
            elif found:  # without rows too: a view that comes back as it was is no longer stale
                # Of the first step the sink may have some transactions.
                parts = [[p for p in found if (after[p] < frontier) is begun] for begun in (True, False)]
                rest = [
                    snapshot.delta(record, part, instant)
                    for part, instant in zip(parts, (frontier - first.after, 0), strict=True)
                ]
                deltas |= matches(of, consolidate(pa.concat_tables(rest)), every=False)
        origin = replace(next(self.log.origins(last.upto - 1, last.upto))[1], committed_us=last.committed_us)
        return Delivery(last.upto, schemas, deltas, replacements, dropped, stale, origin)

    def apart(
        self, frontier: int, upto: int, given: Sequence[tuple[Mapping[str, ViewRecord], list[tuple[str, int]]]],
        schemas: Mapping[str, ViewSchema], stale: Mapping[str, str], back: Mapping[str, int],
    ) -> Succession:  # fmt: skip
        """The transactions beyond the frontier up to a step's last one, each by itself.

        ``given``: who wants rows of a view, and the files that have them with the commits before their steps; ``back``:
        views that have come back by then, with the commits of that.
        """
        deltas, of_row = {}, {}
        for records, files in given:
            rows, commits_of = snapshot.apart(next(iter(records.values())), files, frontier)
            for name, part, commits in matches_apart(records, rows, commits_of):
                deltas[name], of_row[name] = part, commits
        back = {name: commit for name, commit in back.items() if name in deltas}
        told = pa.array([*back.values(), upto], pa.int64())
        commits = pa.chunked_array([*of_row.values(), told]).unique().sort().to_pylist()
        origins = dict(self.log.origins(frontier, upto))
        found = tuple(origins[commit] for commit in commits)
        return Succession(tuple(commits), found, schemas, deltas, of_row, stale, back)

    def stale(self, wanted: Wanted) -> Callable[[StepRecord], Mapping[str, str]]:
        """What tells of a published step which views had failed by it, and why, as far as that is still known."""
        newest = self.catalog.last_published()

        @cache
        def held(name: str) -> int:
            return snapshot.reached(self.catalog, wanted.records[name], 0)

        def at(step: StepRecord) -> Mapping[str, str]:
            if step == newest or self.searches is not None:  # matches are not marked
                return wanted.stale
            told = {name: reason for name, reason in wanted.stale.items() if held(name) < step.upto}
            for (feed, _), records in wanted.by_feed(wanted.versions).items():
                if snapshot.came_back(self.catalog, feed, step.number) is not None:
                    told |= dict.fromkeys(records, SINCE)
            return told

        return at

    def left_behind(self, frontier: int) -> bool:
        """Whether the log has no more what follows on ``frontier``: the sink's views come anew. It is told once."""
        begin = self.log.base.commit
        if frontier >= begin:
            return False
        if frontier and self._left != begin:
            self._left = begin
            self.tell({"event": "sink.left_behind", "sink": self.sink.name, "commit": frontier, "first": begin + 1})
        return True

    def wanted(self) -> Wanted:
        records = self.catalog.views()
        if self.searches is not None:
            return self.searches.wanted(records)
        return Wanted({n: r for n, r in records.items() if self.views is None or n in self.views})

    def bounded(self, steps: list[StepRecord]) -> list[StepRecord]:
        rows, chosen = 0, list[StepRecord]()
        for step in steps:
            rows += sum(o.rows for o in self.catalog.outputs(step.number - 1, step.number))
            if chosen and rows > ROWS_MAX:
                break
            chosen.append(step)
        return chosen

    def tell_quarantined(self) -> None:
        """Which views have other numbers of rows that the store cannot hold than when it was last told."""
        before, self.quarantined = self.quarantined, dict(self.sink.quarantined)
        for view in sorted(before.keys() | self.quarantined.keys()):
            rows = self.quarantined.get(view, 0)
            if rows != before.get(view, 0):
                self.tell({"event": "sink.quarantined", "sink": self.sink.name, "view": view, "rows": rows})

    def recovered(self) -> None:
        """A store that can be opened may still refuse what is written: only a delivery, or none due, tells."""
        if self.error is not None:
            self.tell({"event": "sink.recovered", "sink": self.sink.name})
        self.error, self.attempt = None, 0

    def failed(self, error: Exception) -> None:
        known = error if isinstance(error, HeadraceError) else own_refusal(error, self.catalog.folder) or HeadraceError(
            "internal", f"sink {self.sink.name} failed: {error}", why=type(error).__name__
        )  # fmt: skip
        if self.error is None or self.error.code != known.code:
            self.tell({"event": "sink.failed", "sink": self.sink.name, "error": known.as_dict()})
        self.error = known
