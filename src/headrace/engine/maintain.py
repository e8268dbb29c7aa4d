"""Keeping views maintained: steps as commits arrive, versions swapped in, checkpoints, recovery. One thread's work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.catalog.groups import FILE as GROUPS
from headrace.catalog.groups import needed
from headrace.catalog.quarantine import SetAside
from headrace.catalog.store import Catalog, Output, StepShape
from headrace.circuit.build import TABLE
from headrace.engine.again import differing
from headrace.engine.altered import Lost
from headrace.engine.aside import Aside
from headrace.engine.backfill import Back, Backfill, Bases, base_sums, circuits, sync_names
from headrace.engine.clock import Ticks, with_clock
from headrace.engine.compaction import Compactions
from headrace.engine.compile import Compiled, columns
from headrace.engine.counted import Counted
from headrace.engine.disk import refusal
from headrace.engine.durable import Durable
from headrace.engine.failures import Failed, Failures, Scene, disagreeing
from headrace.engine.forget import forget
from headrace.engine.kept import Kept
from headrace.engine.program import Circuit, Program, assemble
from headrace.engine.quarantine import Quarantine
from headrace.engine.step import CircuitFailed, Result, Stepper
from headrace.engine.unroll import FIRST_DEPTH, deeper, feeds_of
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.definition import Settings
from headrace.model.pace import TOLD_S, Pace
from headrace.model.schema import Relation
from headrace.model.transaction import SELF, TransactionBatch, TransactionOrigin
from headrace.serve import snapshot
from headrace.serve.snapshot import PART
from headrace.state.arrangement import MERGE_BYTES
from headrace.state.phases import CATALOGUE, PUBLISH, phase, timed
from headrace.state.run import checksums

MERGES_PART = 4  # of the driver's memory is in a merged run at most: a merge takes twice as much
WIDE_ROWS = 200_000  # from here on a step is laid out over several tasks
COMPACT_FILES = 64  # deltas of a feed beyond its base before they become a new base


class Maintainer:
    """The state of all views and the one who moves it. Every method runs on the engine's thread."""

    def __init__(
        self, spark: SparkSession, folder: Path, catalog: Catalog, log: LogWriter, settings: Settings,
        tell: Callable[[dict[str, Any]], None], *, counting: bool = False,
        refuses: Callable[[], Collection[str]] = frozenset,
    ) -> None:  # fmt: skip
        """``counting``: all operators count their rows, see ``Builder``. ``refuses``: see ``Quarantine``."""
        self.spark, self.folder, self.catalog, self.log, self.settings, self.tell = (
            spark, folder, catalog, log, settings, tell
        )  # fmt: skip
        self.reader = LogReader(folder / "log")
        self.kept = Kept(folder / "state", min(MERGE_BYTES, settings.driver_bytes // MERGES_PART))
        self.tables: dict[str, Relation] = {}
        self.views: dict[str, Compiled] = {}
        self.failures = Failures(catalog, tell)
        self.lost = Lost(catalog, self.reader)
        self.quarantine = Quarantine(folder, catalog, refuses, tell)
        self.ticks = Ticks(spark, log, self.kept, settings.clock_seconds)
        self.compactions = Compactions(folder / "state", catalog)
        self.backfill = Backfill(spark, folder, catalog, self.kept, settings, counting)
        self.aside = Aside(folder, catalog, self.kept, tell, WIDE_ROWS)
        self.program = Program(())
        self.stepper: Stepper | None = None
        self.counted = Counted()
        self.number = 0
        self.frontier = 0
        self.durable = Durable(self.kept, catalog, settings.checkpoint_seconds)
        self.pins: dict[int, set[str]] = {}
        self.depths: dict[str, int] = {}  # of recursive queries
        self.torn: BaseException | None = None  # by what half a step, or half a program, is in what is held
        self.lock = threading.Lock()  # guards ``pins`` and what other threads read: frontier, number, views

    # -- the program ----------------------------------------------------------------------------------------

    def load(self, tables: Mapping[str, Relation], views: Mapping[str, Compiled]) -> None:
        """Take these views as the program, their state being there already; tables of failed views are kept up."""
        self.views = dict(views)
        failed = [f.compiled for f in self.failures.known.values()]
        self.tables = with_clock(tables, [c.root for c in (*views.values(), *failed)])
        while True:
            program = assemble(self.tables, {c.feed: c.root for c in views.values()}, self.depths)
            known = {circuit.name for circuit in program.circuits}
            more = [n for n in sorted(self.failures.reads() & self.tables.keys()) if n not in known]
            tabled = (Circuit(n, self.tables[n], None, frozenset(), 0) for n in more)
            self.program = Program((*tabled, *program.circuits))
            self.stepper = self.backfill.stepper(*self.program.circuits)
            filled = {owner for name, owner in self.stepper.frames.owners.items() if name in self.kept.runs}
            if not self.deepened(filled):
                break
        self.kept.keep_only(self.stepper.frames.arrangements)
        self.counted.keep_only(circuit.name for circuit in self.program.circuits)
        self.ticks.watch(self.program)

    def deepened(self, reached: Iterable[str]) -> bool:
        """Whether recursive queries need circuits for more levels, rows having reached these circuits."""
        found = deeper(reached, (c.name for c in self.program.circuits))
        self.depths |= found
        return bool(found)

    def recover(self, tables: Mapping[str, Relation], views: Mapping[str, Compiled]) -> None:
        """State as of the last published step: the newest checkpoint, then the recorded steps after it, again.

        A view of which a published step gives other rows now has no state to go on with: it is built again.
        """
        found = self.catalog.checkpoint()
        start, self.number, self.frontier = -1, 0, 0
        if found is not None:
            start, runs = found
            self.durable.took(start, runs)
            self.kept.restore(runs)
        self.load(tables, views)  # as deep as the state is, and without that of views failed since
        published = {s.number: s for s in self.catalog.steps()}
        if start in published:
            self.number, self.frontier = start, published[start].upto
        reached = max((s.upto for s in published.values() if s.published_us is not None), default=0)
        steps = self.catalog.steps(start)
        pace = Pace(len(steps))
        for pace.done, step in enumerate(steps):
            if time.monotonic() - pace.began > TOLD_S:
                self.tell({"event": "progress", "text": "taking recorded steps again", **pace.shown()})
            self.aside.give(step.number)
            if step.published_us is None:
                self.take(step.number, step.after, step.upto, step.shape)
                continue
            result = self.advance(step.number, step.after, step.upto, step.shape, again=True)
            before = self.catalog.outputs(step.number - 1, step.number)
            other = differing(self.visible(before), self.visible(result.outputs))
            self.number, self.frontier = step.number, step.upto
            self.kept.wait_for_merges()
            if other:
                self.without(self.failures.doubt(other, self.program, self.views, disagreeing(step.number), reached))
        self.aside.give(self.number + 1)
        self.backfill.deadly.recovered()
        self.kept.start()
        self.failures.tell_all()

    # -- steps ----------------------------------------------------------------------------------------------

    def step(self, end: int | None = None, *, each: bool | None = None) -> Result | None:
        """One step over what the log holds beyond the frontier, up to ``end``; None when there is nothing.

        ``each``: every transaction is an instant of its own; None: as the settings say.
        """
        if end is None:
            self.ticks.advance(self.reader.refs(self.frontier, self.log.end) if self.log.end > self.frontier else ())
            end = self.log.end
        if end <= self.frontier:
            return None
        upto, rows, committed_us = self.bounded(end)
        apart = self.settings.transactions == "each" if each is None else each
        shape = StepShape(rows >= WIDE_ROWS and self.settings.partitions > 1, apart)
        if rows >= WIDE_ROWS:
            self.tell({"event": "progress", "text": f"taking {rows:,} changes into the views"})
        number = self.number + 1
        with phase(CATALOGUE):
            self.catalog.record_step(number, self.frontier, upto, shape, committed_us)
        result = self.take(number, self.frontier, upto, shape)
        self.kept.wait_for_merges()
        return result

    def plan_ahead(self) -> None:
        """Make the plans of the next step, as far as it is known: over what the log holds beyond the frontier or, where
        tables have no rows yet, a large one over all of them. What goes wrong the step will tell."""
        assert self.stepper is not None
        upto, rows, _ = self.bounded(self.log.end) if self.log.end > self.frontier else (self.frontier, 0, 0)
        refs = self.reader.refs(self.frontier, upto)
        changed = {name for ref in refs for name, count in ref.rows.items() if count}
        if not changed and not any(self.kept.runs.get(TABLE + name) for name in self.tables):
            rows, changed = WIDE_ROWS, set(self.tables)
        with suppress(Exception):
            self.stepper.plan_ahead(changed, wide=rows >= WIDE_ROWS and self.settings.partitions > 1)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """What fails inside leaves state that nothing may go on with, nor save: only a start mends that."""
        self.whole()
        try:
            yield
        except BaseException as error:
            self.torn = error
            raise

    def whole(self) -> None:
        """Raises what has left the state torn, if anything has."""
        if self.torn is not None:
            raise self.torn

    def take(self, number: int, after: int, upto: int, shape: StepShape) -> Result:
        """Run a recorded step, and publish it with the views that come back in it.

        Only then are the rows searched on which views failed: that may take a while, and holds up no delta.
        """
        with self.moving():
            result = self.moved(number, after, upto, shape)
        self.failures.search(self.columns, self.scene, WIDE_ROWS)
        self.failures.tell_all()
        return result

    def moved(self, number: int, after: int, upto: int, shape: StepShape) -> Result:
        """All of ``take`` that moves views."""
        if self.lost.take(after, upto):
            self.without(self.failures.stop(self.program, self.views, self.lost.of, after))
        result = self.advance(number, after, upto, shape)
        aside = self.quarantine.keep(result.refused, self.tables, number, after, upto)
        changed = self.failures.subtract(result.outputs)
        self.aside.move(number, result.outputs)
        back = self.built_again(number, upto, upto - after if shape.each else 1, result.outputs)
        self.publish(number, upto, result, back, changed, aside)
        with self.lock:
            self.number, self.frontier = number, upto
        self.aside.give(number + 1)
        for b in back:
            name = b.compiled.schema.name
            self.tell({"event": "view.healed", "view": name, "commit": upto, "rows": b.rows, "seconds": b.seconds})
        return result

    def bounded(self, end: int) -> tuple[int, int, int]:
        """How far a step goes: about ``step_rows`` changes, never less than a transaction; (upto, rows, time)."""
        rows, upto = 0, self.frontier
        for ref in self.reader.refs(self.frontier, end):
            inside = sum(ref.rows.values())
            if upto > self.frontier and rows + inside > self.settings.step_rows:
                break
            rows, upto = rows + inside, min(ref.last, end)
        upto = self.lost.bound(self.reader.refs(self.frontier, upto), self.frontier, upto)
        origins = self.reader.origins(max(self.frontier, upto - 1), upto)
        return upto, rows, max((origin.committed_us for _, origin in origins), default=0)

    def advance(self, number: int, after: int, upto: int, shape: StepShape, *, again: bool = False) -> Result:
        """Run a step; a view whose SQL throws leaves the program, and the step runs again without it."""
        began = time.monotonic()
        while True:
            assert self.stepper is not None
            try:
                result = self.stepper.run(
                    number, after, upto, wide=shape.wide, instants="each" if shape.each else "one", again=again
                )
            except CircuitFailed as failure:
                if failure.circuit.relation is not None or refusal(failure, self.folder):
                    raise
                if again or not self.aside.take(failure, self.views, self.columns, number, upto):
                    self.fail(failure)
                continue
            if self.deepened(o.feed for o in result.outputs):
                self.load(self.tables, self.views)
                continue
            if not again:
                self.quarantine.check(result.refused, self.tables, after, upto)
            self.kept.add(result.runs)
            self.counted.add(number, after, result.tally)
            self.durable.ran(time.monotonic() - began)
            return result

    def fail(self, failure: CircuitFailed) -> None:
        """Take a view, and those that read it, out of the consistent set; they stay as they were, marked."""
        self.without(self.failures.leave(failure, self.views))

    def without(self, leaving: set[str]) -> None:
        """The program goes on without these views; the next checkpoint is due, since steps again would run them."""
        self.load(self.tables, {name: c for name, c in self.views.items() if name not in leaving})
        self.durable.hurry()

    def built_again(self, number: int, upto: int, instant: int, outputs: Sequence[Output]) -> list[Back]:
        """Failed views that nothing known keeps from working, over what they read at this step's last instant."""
        back: list[Back] = []
        bases: Bases = {}
        for name, failed in list(self.failures.known.items()):
            if not self.failures.due(name):
                continue
            compiled, began = failed.compiled, time.monotonic()
            if not failed.rows:  # all that it failed on are gone
                self.backfill.deadly.forget(circuit.name for circuit in self.chain(compiled))
            feeds = {feed: self.contents(feed, bases, outputs) for feed in feeds_of(compiled.root)}
            build = partial(self.backfill.view, compiled, feeds, bases, number, upto, WIDE_ROWS)
            try:
                made = bases[compiled.feed] = self.aside.going_on(compiled, self.columns, number, upto, build)
            except CircuitFailed as failure:
                if refusal(failure, self.folder):
                    raise
                failed.tried(time.monotonic() - began, failure)
                continue
            delta = self.backfill.caught_up(self.failures.records[name], number, made[0], instant)
            back.append(Back(compiled, *made, delta, round(time.monotonic() - began, 3)))
            self.failures.forget([name])
        return back

    @timed(PUBLISH)
    def publish(
        self, number: int, upto: int, result: Result, back: Sequence[Back], changed: set[str], aside: Sequence[SetAside]
    ) -> None:
        """All views move at once; their files are on disk before."""
        outputs = [*self.visible(result.outputs), *(b.delta for b in back)]
        sync_names(o.path for o in outputs)
        durable = self.durable.now() if back else {}
        with self.catalog.transaction():
            self.catalog.publish(number, outputs, time.time_ns() // 1000)
            self.catalog.put_set_aside(aside)
            self.aside.save()
            for name in changed & self.failures.known.keys():
                self.failures.save(name)
            for b in back:
                name, version = b.compiled.schema.name, b.compiled.schema.version
                self.catalog.set_view_state(name, version, "live")
                self.catalog.put_error_rows(name, version, ())
                self.catalog.put_base(b.compiled.feed, number, upto, b.paths, b.rows, base_sums(b.paths))
            if back:  # the steps before would not fill what these views keep
                self.catalog.put_checkpoint(number, durable)
        if back:
            self.durable.took(number, durable)
            self.load(self.tables, {**self.views, **{b.compiled.schema.name: b.compiled for b in back}})

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Column names of every feed that a view reads now."""
        compiled = [*self.views.values(), *(failed.compiled for failed in self.failures.known.values())]
        return columns(self.tables, compiled)

    def scene(self, compiled: Compiled) -> Scene:
        """A view over all contents of what it reads, at the frontier."""
        feeds = {feed: self.contents(feed, {}) for feed in feeds_of(compiled.root)}
        chain = self.chain(compiled)
        return Scene(self.backfill.stepper(*chain), chain, self.backfill.step(feeds, self.frontier))

    def chain(self, compiled: Compiled) -> list[Circuit]:
        """The circuits of a view, shared sub-queries first."""
        return list(circuits(compiled, lambda loop, level: level <= self.depths.get(loop, FIRST_DEPTH)))

    def visible(self, outputs: list[Output]) -> list[Output]:
        feeds = {c.feed for c in self.views.values()}
        return [o for o in outputs if o.feed in feeds]

    # -- when somebody asks, and what steps need beside --------------------------------------------------------

    def retry(self, asked: Mapping[str, Failed]) -> None:
        """Somebody asks: these failed views are built again, whatever is known of their rows."""
        for failed in asked.values():
            self.backfill.deadly.forget(circuit.name for circuit in self.chain(failed.compiled))
        if self.failures.hurry(asked):
            self.mark("retry")
            while self.step():
                pass

    def mark(self, text: str) -> int:
        """A commit of our own in the log, for a change that no source brings."""
        origin = TransactionOrigin(SELF, text, time.time_ns() // 1000)
        return self.log.append(TransactionBatch((origin,), {}))

    def contents(self, feed: str, bases: Bases, outputs: Sequence[Output] = ()) -> list[str]:
        """Files that hold all of a table or view version, each row once; after the step that wrote ``outputs``."""
        if feed in bases:
            return bases[feed][0]
        if feed in self.tables or TABLE + feed in self.kept.runs:
            whole = self.kept.whole(TABLE + feed)
            return [whole] if whole else []
        fresh = [o.path for o in outputs if o.feed == feed]
        if not fresh:
            return self.compact(feed)
        before = snapshot.files(self.catalog, feed, self.number)[0]
        bases[feed] = self.backfill.merged(feed, self.number, before + fresh)
        return bases[feed][0]

    # -- housekeeping ---------------------------------------------------------------------------------------

    def compact(self, feed: str) -> list[str]:
        """Make a feed's contents its base, with each row once; returns the base's files."""
        paths, _ = snapshot.files(self.catalog, feed, self.number)
        base = self.catalog.base(feed)
        if base is not None and paths == base[2] and not any(Path(path).name.startswith(PART) for path in paths):
            return paths
        if not paths:
            return []
        merged, count = self.backfill.merged(feed, self.number, paths)
        sums = checksums(Path(merged[0]), sync=True)
        sync_names(merged)
        self.catalog.put_base(feed, self.number, self.frontier, merged, count, [sums])
        return merged

    def tidy(self) -> None:
        """In its time: failed views tried again, a checkpoint, feeds with many deltas compacted, old files deleted."""
        self.whole()
        if self.frontier >= self.log.end and any(self.failures.due(name) for name in self.failures.known):
            self.mark("retry")  # the step over it does
        self.compactions.put()
        if self.durable.go_on(self.number) and self.durable.due:
            self.compact_feeds()
            self.clean()

    def checkpoint(self) -> None:
        """Make the state durable as it is after the last step, and delete what nobody needs."""
        self.whole()
        self.durable.save(self.number)
        self.compact_feeds()
        self.compactions.put(all_of_them=True)
        self.clean()

    def compact_feeds(self) -> None:
        """Begin to make new bases of feeds with many deltas."""
        for compiled in self.views.values():
            base = self.catalog.base(compiled.feed)
            if len(self.catalog.outputs(base[0] if base else -1, self.number, compiled.feed)) > COMPACT_FILES:
                self.compactions.begin(compiled.feed, self.number, self.frontier)

    def clean(self) -> None:
        self.aside.keep_only({n: r.schema.version for n, r in self.catalog.views().items()}, self.durable.step)
        self.forget()
        self.durable.cleaned()

    def forget(self) -> None:
        """Steps, deltas and files that neither recovery, nor a sink, nor a reader needs."""
        live = {c.feed for c in self.views.values()} | {r.feed for r in self.failures.records.values()}
        needs = needed(self.folder / GROUPS, tables=False)
        also = forget(self.catalog, self.number, self.durable.step, self.frontier, live, needs, self.reader.base.commit)
        with self.lock:
            for pinned in self.pins.values():
                also |= pinned
        self.kept.collect(self.durable.runs, also | self.compactions.files)

    def pin(self, names: list[str]) -> tuple[int, int, dict[str, list[str]]]:
        """(ticket, commit, files) of tables and views at the frontier; the files stay until ``unpin``."""
        files = {}
        for name in names:
            if name in self.views or name in self.failures.records:
                record = self.catalog.views()[name]
                files[name] = snapshot.files(self.catalog, record.feed, self.number)[0]
            else:
                files[name] = self.kept.paths().get(TABLE + name, [])
        return self.hold(p for paths in files.values() for p in paths), self.frontier, files

    def hold(self, files: Iterable[str]) -> int:
        """A ticket; the files stay until ``unpin``."""
        with self.lock:
            ticket = max(self.pins, default=0) + 1
            self.pins[ticket] = set(files)
        return ticket

    def unpin(self, ticket: int) -> None:
        with self.lock:
            self.pins.pop(ticket, None)

    def close(self) -> None:
        self.compactions.close()
        self.kept.close()
