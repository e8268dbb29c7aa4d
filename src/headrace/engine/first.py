"""First contents of a program's new tables and view versions, side by side as far as none waits for another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.circuit.build import TABLE
from headrace.circuit.node import Loop
from headrace.engine.backfill import Bases
from headrace.engine.building import Building
from headrace.engine.compile import Compiled
from headrace.engine.disk import refusal
from headrace.engine.failures import Failed, Scene, message, unnamed
from headrace.engine.program import Program
from headrace.engine.side_by_side import SideBySide
from headrace.engine.step import CircuitFailed
from headrace.engine.unroll import feeds_of
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
    with maintainer.log.held(), SideBySide(maintainer.spark, maintainer.settings.partitions) as beside:
        rows = {c.name: count for c in new if (count := maintainer.backfill.changes(c.name, upto))}
        building = Building(maintainer, "reading table {0} from the log", rows, wide_rows)
        works = {}
        for circuit in (c for c in new if c.name in rows):
            table = partial(maintainer.backfill.table, circuit, rows[circuit.name], number, upto, wide_rows)
            works[circuit.name] = partial(building.followed, circuit.name, table)
            beside.begin(circuit.name, works[circuit.name])
        for circuit in new:
            refused = list[Path]()
            if circuit.name in works:
                building.turn(circuit.name)
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
        names = dict.fromkeys(c.schema.name for c in fresh)
        self.building = Building(maintainer, "building view {0}", names, wide_rows)
        self.waits = {c.schema.name: names.keys() & c.reads for c in fresh}

    def built(self) -> tuple[Bases, dict[str, Failed]]:
        maintainer = self.maintainer
        with maintainer.kept.filling(), SideBySide(maintainer.spark, maintainer.settings.partitions) as beside:
            self.begin(beside)
            for compiled in self.fresh:
                self.building.turn(compiled.schema.name)
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
        name, view = compiled.schema.name, self.maintainer.backfill.view
        feeds = {feed: self.maintainer.contents(feed, self.bases) for feed in feeds_of(compiled.root)}
        self.building.found(name, sum(rows_of(path) for paths in feeds.values() for path in paths))
        work = partial(view, compiled, feeds, self.bases, self.number, self.upto, self.wide_rows)
        # Of a recursive query it is not known how many levels it takes, and each is a job.
        recursive = any(isinstance(node, Loop) for node in compiled.root.walk())
        return partial(self.building.followed, name, work, jobs_known=not recursive)

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
