"""First contents of a program's new tables and view versions, side by side as far as none waits for another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.circuit.build import TABLE
from headrace.circuit.node import Loop
from headrace.engine.backfill import Bases
from headrace.engine.compile import Compiled
from headrace.engine.disk import refusal
from headrace.engine.failures import Failed, Scene, message, unnamed
from headrace.engine.program import Program
from headrace.engine.side_by_side import SideBySide
from headrace.engine.step import CircuitFailed
from headrace.engine.told_jobs import telling
from headrace.engine.unroll import feeds_of
from headrace.model.pace import TOLD_S, Pace
from headrace.state.run import rows_of

if TYPE_CHECKING:
    from headrace.engine.maintain import Maintainer

T = TypeVar("T")


def first_contents(
    maintainer: Maintainer, program: Program, fresh: Sequence[Compiled], held: Collection[str], upto: int,
    columns: Mapping[str, Sequence[str]], wide_rows: int,
) -> tuple[Bases, dict[str, Failed]]:  # fmt: skip
    """Contents at ``upto`` of what has none: feed -> (files, rows); the views that fail.

    ``fresh``: upstream views first. ``held``: views that have failed before and are not built. ``wide_rows``: of so
    many a first step is laid out over several tasks.
    """
    tables(maintainer, program, upto, wide_rows)
    return Views(maintainer, fresh, held, upto, columns, wide_rows).built()


def tables(maintainer: Maintainer, program: Program, upto: int, wide_rows: int) -> None:
    """The state of tables that views newly read; what they could not take goes into the quarantine."""
    number, kept = maintainer.number + 1, maintainer.kept
    new = [c for c in program.circuits if c.relation is not None and not kept.runs.get(TABLE + c.name)]
    works = {c.name: partial(maintainer.backfill.table, c, number, upto, wide_rows) for c in new}
    with maintainer.log.held(), SideBySide(maintainer.spark, maintainer.settings.partitions) as beside:
        for name, work in works.items():
            beside.begin(name, work)
        for circuit in new:
            refused = beside.had(circuit.name, works[circuit.name])()
            assert circuit.relation is not None
            maintainer.quarantine.begin(refused, circuit.relation, number, upto)


class Views:
    """Builds view versions in turn; those that read none that is still to be built begin before."""

    def __init__(
        self, maintainer: Maintainer, fresh: Sequence[Compiled], held: Collection[str], upto: int,
        columns: Mapping[str, Sequence[str]], wide_rows: int,
    ) -> None:  # fmt: skip
        self.maintainer, self.fresh, self.upto, self.columns = maintainer, fresh, upto, columns
        self.number, self.held, self.wide_rows = maintainer.number + 1, held, wide_rows
        self.bases: Bases = {}
        self.broken: dict[str, Failed] = {}
        names = {c.schema.name for c in fresh}
        self.building = Building(maintainer, fresh, wide_rows)
        self.waits = {c.schema.name: names.intersection(c.reads) for c in fresh}

    def built(self) -> tuple[Bases, dict[str, Failed]]:
        with SideBySide(self.maintainer.spark, self.maintainer.settings.partitions) as beside:
            self.begin(beside)
            for compiled in self.fresh:
                self.building.turn(compiled)
                self.build(compiled, beside)
                for others in self.waits.values():
                    others.discard(compiled.schema.name)
                self.begin(beside)
        return self.bases, self.broken

    def begin(self, beside: SideBySide) -> None:
        """Begin what waits for no view any more; a view that left rows out before is built in its turn."""
        for compiled in self.fresh:
            name = compiled.schema.name
            if self.waits.get(name) == set():
                del self.waits[name]
                if self.refused(compiled) is None and not self.maintainer.aside.of(name):
                    beside.begin(name, self.work(compiled))

    def refused(self, compiled: Compiled) -> Failed | None:
        """A view that cannot be built, whatever its rows are."""
        above = next((r for r in compiled.reads if r in self.broken or r in self.held), None)
        if above is not None:
            return Failed(compiled, 0, [unnamed(0, "", above)], ready=True)
        lost = self.maintainer.lost.of(compiled)
        return Failed(compiled, 0, [unnamed(0, lost)], lost=lost) if lost else None

    def work(self, compiled: Compiled) -> partial[tuple[list[str], int]]:
        feeds = {feed: self.maintainer.contents(feed, self.bases) for feed in feeds_of(compiled.root)}
        self.building.found(compiled, (rows_of(path) for paths in feeds.values() for path in paths))
        view = self.maintainer.backfill.view
        work = partial(view, compiled, feeds, self.bases, self.number, self.upto, self.wide_rows)
        return partial(self.building.followed, compiled, work)

    def build(self, compiled: Compiled, beside: SideBySide) -> None:
        name, refused = compiled.schema.name, self.refused(compiled)
        if refused is not None:
            self.broken[name] = refused
            return
        view = beside.had(name, self.work(compiled))
        try:
            made = self.maintainer.aside.going_on(compiled, self.columns, self.number, self.upto, view)
        except CircuitFailed as failure:
            if refusal(failure, self.maintainer.folder):
                raise
            self.broken[name] = Failed(compiled, 0, [unnamed(0, message(failure.cause))])
            self.broken[name].found(Scene.of(failure).search(self.wide_rows), self.columns)
            return
        self.bases[compiled.feed] = made
        self.maintainer.tell({
            "event": "view.built", "view": name, "version": compiled.schema.version, "rows": made[1],
            "seconds": round(beside.seconds[name], 3),
        })  # fmt: skip


class Building:
    """How far the building of views is, in rows that they read, told where it takes long."""

    def __init__(self, maintainer: Maintainer, fresh: Sequence[Compiled], wide_rows: int) -> None:
        self.maintainer, self.wide_rows = maintainer, wide_rows
        self.names = [compiled.schema.name for compiled in fresh]
        self.rows: dict[str, int] = {}
        self.shares: dict[str, float] = {}  # of the tasks of each view, those that have ended
        self.built: set[str] = set()
        self.guard = threading.Lock()  # one word after the other
        self.pace = Pace(0)  # in rows of views that are built: the tasks of one that is not say nothing of its time
        self.name, self.turned, self.known = "", 0.0, dict[str, Any]()

    def found(self, compiled: Compiled, rows: Iterable[int]) -> None:
        """A view is to be built, which reads files of so many rows."""
        name = compiled.schema.name
        if name not in self.rows:
            self.rows[name] = sum(rows)
            self.pace.total = (self.pace.total or 0) + self.rows[name]

    def turn(self, compiled: Compiled) -> None:
        """Those before it are built, or failed; this one is waited for now."""
        self.built.add(self.name)
        self.pace.done = sum(rows for name, rows in self.rows.items() if name in self.built)
        self.name, self.turned, self.known = compiled.schema.name, time.monotonic(), self.pace.shown()
        if (self.pace.total or 0) >= self.wide_rows or time.monotonic() - self.pace.began > TOLD_S:
            self.tell()

    def followed(self, compiled: Compiled, work: Callable[[], T]) -> T:
        """The work that builds a view; while it is waited for, it is told how far it is."""
        name = compiled.schema.name
        # Of one with levels it is not known how many jobs it takes.
        recursive = any(isinstance(node, Loop) for node in compiled.root.walk())

        def heard(share: float) -> None:
            self.shares[name] = 0.0 if recursive else share
            if name == self.name:
                self.tell()

        with telling(self.maintainer.spark.sparkContext, heard):
            made = work()
        self.built.add(name)
        return made

    def tell(self) -> None:
        """``for_s``: seconds since the building began. ``left_s`` is what was known at the turn, as it passes."""
        with self.guard:
            parts = [r if n in self.built else int(r * self.shares.get(n, 0)) for n, r in list(self.rows.items())]
            now, left_s = time.monotonic(), self.known["left_s"]
            left_s = None if left_s is None else round(self.turned + left_s - now, 1)
            self.maintainer.tell({
                "event": "progress",
                "text": f"building view {self.name}, {self.names.index(self.name) + 1} of {len(self.names)}, over rows",
                **self.known,
                "done": sum(parts),
                "total": self.pace.total,
                "left_s": left_s if left_s is not None and left_s > 0 else None,
                "for_s": round(now - self.pace.began, 1),
            })  # fmt: skip
