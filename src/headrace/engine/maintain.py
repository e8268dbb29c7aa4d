"""Keeping views maintained: steps as commits arrive, versions swapped in, checkpoints, recovery. One thread's work."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.catalog.store import Catalog, Output, ViewRecord
from headrace.circuit.build import TABLE
from headrace.circuit.node import Constant, Node, has_one_row
from headrace.circuit.operators.publish import checksum
from headrace.circuit.operators.recursion import LEVELS
from headrace.engine.compile import Compiled
from headrace.engine.kept import Kept
from headrace.engine.program import Circuit, Program, assemble
from headrace.engine.space import no_space
from headrace.engine.step import CircuitFailed, Result, Stepper
from headrace.engine.unroll import deeper, feeds_of, level_before, unroll
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.definition import Settings
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.serve import snapshot
from headrace.state.rows import consolidate
from headrace.state.run import open_run, write_run

SELF = "headrace"  # the source of the log's own marks: a change of definitions is a commit too
WIDE_ROWS = 200_000  # from here on a step is laid out over several tasks
COMPACT_FILES = 64  # deltas of a feed beyond its base before they become a new base
RETAINED_STEPS = 256  # published steps kept for readers that follow, beside what the slowest sink needs


class Maintainer:
    """The state of all views and the one who moves it. Every method runs on the engine's thread."""

    def __init__(
        self, spark: SparkSession, folder: Path, catalog: Catalog, log: LogWriter, settings: Settings,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:  # fmt: skip
        self.spark, self.folder, self.catalog, self.log, self.settings, self.tell = (
            spark, folder, catalog, log, settings, tell
        )  # fmt: skip
        self.reader = LogReader(folder / "log")
        self.kept = Kept(folder / "state")
        self.tables: dict[str, Relation] = {}
        self.views: dict[str, Compiled] = {}
        self.failed: dict[str, ViewRecord] = {}
        self.program = Program(())
        self.stepper: Stepper | None = None
        self.number = 0
        self.frontier = 0
        self.checkpointed = time.monotonic()
        self.durable: dict[str, Any] = {}
        self.pins: dict[int, set[str]] = {}
        self.depths: dict[str, int] = {}  # of recursive queries
        self.lock = threading.Lock()  # guards ``pins`` and what other threads read: frontier, number, views

    # -- the program ----------------------------------------------------------------------------------------

    def load(self, tables: Mapping[str, Relation], views: Mapping[str, Compiled]) -> None:
        """Take these views as the program, their state being there already."""
        roots: dict[str, Node] = {c.feed: c.root for c in views.values()}
        self.tables, self.views = dict(tables), dict(views)
        while True:
            self.program = assemble(tables, roots, self.depths)
            self.stepper = Stepper(
                self.spark,
                self.program,
                self.folder / "log",
                self.kept,
                self.folder / "state",
                self.settings.partitions,
            )
            filled = {owner for name, owner in self.stepper.frames.owners.items() if name in self.kept.runs}
            if not self.deepened(filled):
                break
        self.kept.keep_only(self.stepper.frames.arrangements)

    def deepened(self, reached: Iterable[str]) -> bool:
        """Whether recursive queries need circuits for more levels, rows having reached these circuits."""
        found = deeper(reached, (c.name for c in self.program.circuits))
        self.depths |= found
        return bool(found)

    def recover(self) -> None:
        """State as of the last published step: the newest checkpoint, then the recorded steps after it, again.

        A published step must give the bytes that were published; otherwise ``state.mismatch``.
        """
        found = self.catalog.checkpoint()
        self.number, self.frontier = 0, 0
        start = -1
        if found is not None:
            start, self.durable = found
            self.kept.restore(self.durable)
            self.load(self.tables, self.views)  # as deep as the state is
        published = {s.number: s for s in self.catalog.steps()}
        if start in published:
            self.number, self.frontier = start, published[start].upto
        for step in self.catalog.steps(start):
            expected = self.catalog.outputs(step.number - 1, step.number) if step.published_us is not None else None
            result = self.advance(step.number, step.after, step.upto, wide=step.wide, again=expected is not None)
            if expected is not None:
                self.same(step.number, expected, result.outputs)
            else:
                self.publish(step.number, result)
            self.number, self.frontier = step.number, step.upto
        self.kept.start()

    def same(self, number: int, expected: list[Output], found: list[Output]) -> None:
        """The outputs of a step that ran again against those published: the published files stay."""
        expected = self.visible(expected)  # a view that has failed since is not run again
        before = sorted((o.feed, o.rows, o.crc) for o in expected)
        again = sorted((o.feed, o.rows, o.crc) for o in self.visible(found))
        if before != again:
            raise HeadraceError(
                "state.mismatch", f"step {number} gave other rows than those published", where=str(self.folder),
                why=f"published {before[:3]}, now {again[:3]}", next="headrace verify",
            )  # fmt: skip
        for output in expected:
            if checksum(Path(output.path), sync=False) != output.crc:
                raise HeadraceError("state.missing", "a published file is damaged", where=output.path)

    # -- steps ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One step over what the log holds beyond the frontier; False when there is nothing."""
        end = self.log.end
        if end <= self.frontier:
            return False
        upto, rows, committed_us = self.bounded(end)
        wide = rows >= WIDE_ROWS and self.settings.partitions > 1
        number = self.number + 1
        self.catalog.record_step(number, self.frontier, upto, wide, committed_us)
        result = self.advance(number, self.frontier, upto, wide=wide)
        self.publish(number, result)
        with self.lock:
            self.number, self.frontier = number, upto
        self.kept.wait_for_merges()
        if result.refused:
            self.tell({"event": "rows.refused", "files": [str(p) for p in result.refused]})
        return True

    def bounded(self, end: int) -> tuple[int, int, int]:
        """How far a step goes: about ``step_rows`` changes, never less than a transaction; (upto, rows, time)."""
        rows, upto = 0, self.frontier
        for ref in self.reader.refs(self.frontier, end):
            inside = sum(ref.rows.values())
            if upto > self.frontier and rows + inside > self.settings.step_rows:
                break
            rows, upto = rows + inside, min(ref.last, end)
        newest = 0
        for _, origin in self.reader.origins(max(self.frontier, upto - 1), upto):
            newest = max(newest, origin.committed_us)
        return upto, rows, newest

    def advance(self, number: int, after: int, upto: int, *, wide: bool, again: bool = False) -> Result:
        """Run a step; a view whose SQL throws leaves the program, and the step runs again without it."""
        while True:
            assert self.stepper is not None
            try:
                result = self.stepper.run(number, after, upto, wide=wide, again=again)
            except CircuitFailed as failure:
                if failure.circuit.relation is not None or no_space(failure, self.folder):
                    raise
                self.fail(failure)
                continue
            if self.deepened(o.feed for o in result.outputs):
                self.load(self.tables, self.views)
                continue
            self.kept.add(result.runs)
            return result

    def fail(self, failure: CircuitFailed) -> None:
        """Take a view, and those that read it, out of the consistent set; they stay as they were, marked."""
        names = self.program.downstream([failure.circuit.name])
        reason = first_lines(failure.cause)
        records = self.catalog.views()
        for name in [n for n, c in self.views.items() if c.feed in names]:
            compiled = self.views.pop(name)
            own = reason if compiled.feed == failure.circuit.name else f"it reads {failure.circuit.name}: {reason}"
            self.catalog.set_view_state(name, compiled.schema.version, "failed", own)
            self.failed[name] = records[name]
            self.tell({"event": "view.failed", "view": name, "reason": own})
        self.load(self.used(), self.views)
        self.checkpointed = 0.0

    def used(self) -> dict[str, Relation]:
        """The tables that the program's views still read."""
        return {
            n: r
            for n, r in self.tables.items()
            if TABLE + n in self.kept.runs or any(n in v.reads for v in self.views.values())
        }

    def publish(self, number: int, result: Result) -> None:
        """All views move at once; their files are on disk before."""
        for folder in {str(Path(o.path).parent) for o in result.outputs}:
            sync_folder(folder)
        self.catalog.publish(number, self.visible(result.outputs), time.time_ns() // 1000)

    def visible(self, outputs: list[Output]) -> list[Output]:
        feeds = {c.feed for c in self.views.values()}
        return [o for o in outputs if o.feed in feeds]

    # -- definitions ----------------------------------------------------------------------------------------

    def swap(self, tables: Mapping[str, Relation], views: Mapping[str, Compiled], dropped: set[str]) -> None:
        """Make ``views`` the program: new versions are built beside the old and all swapped in by one commit."""
        while self.step():
            pass
        records = self.catalog.views()
        known = {n: r.schema.version for n, r in records.items() if r.state == "live"}
        fresh = [c for n, c in views.items() if known.get(n) != c.schema.version]
        program = assemble(tables, {c.feed: c.root for c in views.values()})
        origin = TransactionOrigin(SELF, "definitions", time.time_ns() // 1000)
        commit = self.log.append(TransactionBatch((origin,), {}))
        number = self.number + 1
        bases, broken = self.build(program, tables, fresh, commit)
        edited = next((n for n in broken if n in known), None)
        if edited is not None:
            self.load(self.tables, self.views)  # what was built for the new versions goes
            raise HeadraceError(
                "view.failed", f"the new version of view {edited} fails on the rows there are", why=broken[edited],
                next="edit the view, then `headrace apply`; the version before goes on",
            )  # fmt: skip
        durable = self.kept.checkpoint()
        with self.catalog.transaction():
            self.catalog.record_step(number, self.frontier, commit, False, origin.committed_us)
            for name in dropped:
                self.catalog.drop_view(name)
            for compiled in fresh:
                reason = broken.get(compiled.schema.name, "")
                state = "failed" if reason else "live"
                record = ViewRecord(
                    compiled.schema, compiled.definition.sql, compiled.root.fingerprint, state, reason, commit
                )
                self.catalog.put_view(record)
                if compiled.feed in bases:
                    paths, rows = bases[compiled.feed]
                    self.catalog.put_base(compiled.feed, number, commit, paths, rows)
            self.catalog.publish(number, [], time.time_ns() // 1000)
            # In the same transaction: the steps before would not fill what the new program keeps.
            self.catalog.put_checkpoint(number, durable)
        with self.lock:
            self.number, self.frontier = number, commit
        now = self.catalog.views()
        self.failed = {n: now[n] for n in (self.failed.keys() - dropped - views.keys()) | broken.keys()}
        self.load(tables, {n: c for n, c in views.items() if n not in broken})
        self.checkpoint()

    def build(
        self, program: Program, tables: Mapping[str, Relation], fresh: list[Compiled], upto: int
    ) -> tuple[dict[str, tuple[list[str], int]], dict[str, str]]:
        """First contents of new tables and view versions at ``upto``: feed -> (files, rows); view -> why it fails."""
        bases: dict[str, tuple[list[str], int]] = {}
        broken: dict[str, str] = {}
        for circuit in program.circuits:
            if circuit.relation is not None and not self.kept.runs.get(TABLE + circuit.name):
                self.build_table(circuit, upto)
        for compiled in fresh:
            started, name = time.monotonic(), compiled.schema.name
            below = next((r for r in compiled.reads if r in broken), None)
            if below is not None:
                broken[name] = f"it reads {below}: {broken[below]}"
                continue
            feeds = {feed: self.contents(feed, bases) for feed in feeds_of(compiled.root)}
            try:
                bases[compiled.feed] = self.first_contents(compiled, feeds, bases, upto)
            except CircuitFailed as failure:
                broken[name] = first_lines(failure.cause)
                self.tell({"event": "view.failed", "view": name, "reason": broken[name]})
                continue
            self.tell({
                "event": "view.built", "view": name, "version": compiled.schema.version,
                "rows": bases[compiled.feed][1], "seconds": round(time.monotonic() - started, 3),
            })  # fmt: skip
        return bases, broken

    def first_contents(
        self, compiled: Compiled, feeds: dict[str, list[str]], bases: dict[str, tuple[list[str], int]], upto: int
    ) -> tuple[list[str], int]:
        """(files, rows) of a view over all contents of what it reads; its arrangements are filled on the way.

        ``bases`` takes the levels of its recursive queries, for other views that have the same.
        """
        if not any(feeds.values()) and not has_row_over_nothing(compiled.root):
            return [], 0
        roots, levels = unroll({compiled.feed: compiled.root}, {}, LEVELS)
        known = dict(feeds)
        for name, root in levels.items():
            if name not in bases and (level_before(name) is None or level_before(name) in known):
                outputs = self.first_outputs(name, root, known, upto)
                bases[name] = [o.path for o in outputs], sum(o.rows for o in outputs)
            if bases.get(name, ([], 0))[0]:
                known[name] = bases[name][0]
        outputs = self.first_outputs(compiled.feed, roots[compiled.feed], known, upto)
        for folder in {str(Path(o.path).parent) for o in outputs}:
            sync_folder(folder)
        return [o.path for o in outputs], sum(o.rows for o in outputs)

    def first_outputs(self, name: str, root: Node, feeds: dict[str, list[str]], upto: int) -> list[Output]:
        """A circuit's first step over all contents of ``feeds``; what it keeps becomes part of the state."""
        # Alone, a view may hold a shared sub-query twice: its circuit is built whole, without sharing.
        whole = Circuit(name, None, root, frozenset(), 0)
        stepper = self.alone(whole, filled=self.kept.runs)
        rows = sum(open_run(p).num_rows for feed in feeds_of(root) for p in feeds.get(feed, ()))
        there = set(self.kept.runs)
        result = stepper.start(whole, self.number + 1, upto, feeds, wide=rows >= WIDE_ROWS)
        # What operators keep for themselves is the same for every view that has them, and must be there but once.
        self.kept.add(path for path in result.runs if path.name.split("~", 1)[0] not in there)
        return result.outputs

    def alone(self, circuit: Circuit, filled: Iterable[str] = ()) -> Stepper:
        """A stepper for one circuit's first step, which leaves alone the arrangements that are ``filled``."""
        program, state = Program((circuit,)), self.folder / "state"
        partitions = self.settings.partitions
        return Stepper(self.spark, program, self.folder / "log", self.kept, state, partitions, filled)

    def build_table(self, circuit: Circuit, upto: int) -> None:
        """A table that views newly read: its contents from the log."""
        refs = [r for r in self.reader.refs(0, upto) if circuit.name in r.rows]
        if not refs:
            return
        rows = sum(r.rows[circuit.name] for r in refs)
        result = self.alone(circuit).start(circuit, self.number + 1, upto, {}, wide=rows >= WIDE_ROWS)
        self.kept.add(result.runs)

    def contents(self, feed: str, bases: Mapping[str, tuple[list[str], int]]) -> list[str]:
        """Files that hold all of a table or view version now, each row once."""
        if feed in bases:
            return bases[feed][0]
        if feed in self.tables or TABLE + feed in self.kept.runs:
            whole = self.kept.whole(TABLE + feed)
            return [whole] if whole else []
        return self.compact(feed)

    # -- housekeeping ---------------------------------------------------------------------------------------

    def compact(self, feed: str) -> list[str]:
        """Make a feed's contents its base; returns the base's files."""
        paths, _ = snapshot.files(self.catalog, feed, self.number)
        base = self.catalog.base(feed)
        if base is not None and paths == base[2]:
            return paths
        if not paths:
            return []
        tables = [open_run(p).drop_columns(["_i"]) if "_i" in open_run(p).column_names else open_run(p) for p in paths]
        rows = consolidate(pa.concat_tables(tables))
        folder = self.folder / "state" / "merged"
        folder.mkdir(exist_ok=True)
        path = folder / f"base:{feed}~{self.number}~{time.time_ns()}~{rows.num_rows}.arrow"
        write_run(path, rows)
        checksum(path, sync=True)
        sync_folder(str(folder))
        self.catalog.put_base(feed, self.number, self.frontier, [str(path)], rows.num_rows)
        return [str(path)]

    def tidy(self) -> None:
        """Checkpoint when it is time, compact feeds with many deltas, delete what nothing needs."""
        if time.monotonic() - self.checkpointed < self.settings.checkpoint_seconds:
            return
        self.checkpoint()

    def checkpoint(self) -> None:
        for compiled in self.views.values():
            base = self.catalog.base(compiled.feed)
            if len(self.catalog.outputs(base[0] if base else -1, self.number, compiled.feed)) > COMPACT_FILES:
                self.compact(compiled.feed)
        self.durable = self.kept.checkpoint()
        self.catalog.put_checkpoint(self.number, self.durable)
        self.forget()
        self.checkpointed = time.monotonic()

    def forget(self) -> None:
        """Steps, deltas and files that neither recovery, nor a sink, nor a reader needs."""
        sinks = [frontier for frontier, _, _ in self.catalog.sinks().values()]
        needed = min(
            [s.number for s in self.catalog.steps() if s.upto > min(sinks, default=self.frontier)], default=self.number
        )
        before = min(needed, self.number - RETAINED_STEPS)
        live = {c.feed for c in self.views.values()} | {r.feed for r in self.failed.values()}
        also: set[str] = set()
        with self.catalog.transaction():
            for record in self.catalog.versions():
                if record.feed not in live:
                    self.catalog.forget_feed(record.feed)
                    continue
                base = self.catalog.base(record.feed)
                if base is not None:
                    self.catalog.forget_outputs(record.feed, min(base[0], before))
                    also |= set(base[2])
                also |= {o.path for o in self.catalog.outputs(-1, self.number, record.feed)}
            if before > 0:
                self.catalog.forget_steps(before)
        with self.lock:
            for pinned in self.pins.values():
                also |= pinned
        self.kept.collect(self.durable, also)

    def pin(self, names: list[str]) -> tuple[int, int, dict[str, list[str]]]:
        """(ticket, commit, files) of tables and views at the frontier; the files stay until ``unpin``."""
        files = {}
        for name in names:
            if name in self.views or name in self.failed:
                record = self.catalog.views()[name]
                files[name] = snapshot.files(self.catalog, record.feed, self.number)[0]
            else:
                files[name] = self.kept.paths().get(TABLE + name, [])
        with self.lock:
            ticket = max(self.pins, default=0) + 1
            self.pins[ticket] = {p for paths in files.values() for p in paths}
        return ticket, self.frontier, files

    def unpin(self, ticket: int) -> None:
        with self.lock:
            self.pins.pop(ticket, None)

    def close(self) -> None:
        self.kept.close()


def has_row_over_nothing(root: Node) -> bool:
    """Whether a view over empty tables may have rows: constants, and what has one row whatever it reads."""
    return any(isinstance(n, Constant) or has_one_row(n) for n in root.walk())


def first_lines(error: Exception) -> str:
    """Spark's own words for a failure, without its stack: they name the expression and where it stands."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("[") or "Error:" in line or "Exception: [" in line]
    chosen = telling or lines
    return chosen[-1 if telling and not chosen[0].startswith("[") else 0][:500] if chosen else type(error).__name__


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
