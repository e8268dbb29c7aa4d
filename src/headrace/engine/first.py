"""First contents of a program's new tables and view versions, side by side as far as none waits for another."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.circuit.build import TABLE
from headrace.engine.backfill import Bases
from headrace.engine.compile import Compiled
from headrace.engine.disk import refusal
from headrace.engine.failures import Failed, Scene, message, unnamed
from headrace.engine.program import Program
from headrace.engine.side_by_side import SideBySide
from headrace.engine.step import CircuitFailed
from headrace.engine.unroll import feeds_of
from headrace.model.pace import TOLD_S, Pace
from headrace.state.run import rows_of

if TYPE_CHECKING:
    from headrace.engine.maintain import Maintainer


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
        self.pace = Pace(0)  # in rows that views read
        self.rows: dict[str, int] = {}
        self.waits = {c.schema.name: names.intersection(c.reads) for c in fresh}

    def built(self) -> tuple[Bases, dict[str, Failed]]:
        with SideBySide(self.maintainer.spark, self.maintainer.settings.partitions) as beside:
            self.begin(beside)
            for nth, compiled in enumerate(self.fresh, 1):
                self.told(compiled, nth)
                self.build(compiled, beside)
                self.pace.done += self.rows.get(compiled.schema.name, 0)
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

    def told(self, compiled: Compiled, nth: int) -> None:
        """How far the building is, where it takes long."""
        if (self.pace.total or 0) >= self.wide_rows or time.monotonic() - self.pace.began > TOLD_S:
            text = f"building view {compiled.schema.name}, {nth} of {len(self.fresh)}, over rows"
            self.maintainer.tell({"event": "progress", "text": text, **self.pace.shown()})

    def refused(self, compiled: Compiled) -> Failed | None:
        """A view that cannot be built, whatever its rows are."""
        above = next((r for r in compiled.reads if r in self.broken or r in self.held), None)
        if above is not None:
            return Failed(compiled, 0, [unnamed(0, "", above)], ready=True)
        lost = self.maintainer.lost.of(compiled)
        return Failed(compiled, 0, [unnamed(0, lost)], lost=lost) if lost else None

    def work(self, compiled: Compiled) -> partial[tuple[list[str], int]]:
        feeds = {feed: self.maintainer.contents(feed, self.bases) for feed in feeds_of(compiled.root)}
        if compiled.schema.name not in self.rows:
            rows = self.rows[compiled.schema.name] = sum(rows_of(path) for paths in feeds.values() for path in paths)
            self.pace.total = (self.pace.total or 0) + rows
        return partial(
            self.maintainer.backfill.view, compiled, feeds, self.bases, self.number, self.upto, self.wide_rows
        )

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
