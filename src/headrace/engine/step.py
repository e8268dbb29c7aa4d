"""A step: a range of commits through every circuit whose inputs changed, then all views published at once.

The whole flow: read the range of the log -> tables -> shared sub-queries and views, in one task where that can be, else
level by level, one Spark job a level -> new runs become state -> outputs are published in one catalogue transaction.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.store import Output
from headrace.circuit.exchange import discard
from headrace.circuit.operators.publish import OUTPUT
from headrace.circuit.operators.upsert import REFUSED
from headrace.circuit.prepare import Prepared
from headrace.circuit.task import Step
from headrace.circuit.work import Tally
from headrace.circuit.written import Written
from headrace.engine.changes import ReadLog
from headrace.engine.deadly import Deadly
from headrace.engine.disk import refusal
from headrace.engine.kept import Kept
from headrace.engine.lost import WORKERS_LOST_MAX, lost_spark, lost_worker
from headrace.engine.program import Circuit, Frames, Program
from headrace.log.read import FrameRef, LogReader
from headrace.state.arrangement import heavy
from headrace.state.phases import PLANNING, phase, recorder
from headrace.state.reference import SUFFIX
from headrace.state.run import write_run

PREPARED_MAX = 64
RUNS_AGAIN = "step %s runs again: a Python worker has ended"
_log = logging.getLogger(__name__)
# Of runs of a step and first steps: two views may start the same circuit in one step. No process gives the folders of
# its runs names that one before has given: what that left behind may be on its way out.
_runs = count(time.time_ns() // 1_000)


class CircuitFailed(Exception):
    """A circuit's own job failed: its SQL threw on some row, or its files are damaged. ``step``: what it ran over."""

    def __init__(self, circuit: Circuit, cause: Exception, stepper: Stepper, step: Step) -> None:
        super().__init__(f"{circuit.name}: {cause}")
        self.circuit, self.cause, self.stepper, self.step = circuit, cause, stepper, step


@dataclass
class Result:
    """What a step wrote: files of each feed, runs of each arrangement, rows set aside; what its operators counted."""

    number: int
    outputs: list[Output] = field(default_factory=list)
    runs: list[Path] = field(default_factory=list)
    refused: list[Path] = field(default_factory=list)
    changes: int = 0
    tally: Tally = field(default_factory=Tally)


class Stepper:
    """Runs steps of one program. Plans are made on first use and kept."""

    def __init__(
        self, spark: SparkSession, program: Program, log: Path, kept: Kept, folder: Path, partitions: int,
        filled: Iterable[str] = (), *, counting: bool = False, deadly: Deadly | None = None,
    ) -> None:  # fmt: skip
        self.deadly, self.published = deadly or Deadly(folder, 0), False  # whether the step was published before
        self.spark, self.program, self.kept, self.folder = spark, program, kept, folder
        self.log, self.reader = log, LogReader(log)
        self.frames = Frames(spark, program, ReadLog(), partitions, filled, counting=counting)
        self._prepared: dict[tuple[frozenset[str], str], Prepared | None] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self, number: int, after: int, upto: int, *, wide: bool, instants: str = "one", again: bool = False
    ) -> Result:
        """Run the step; nothing is state or published yet when this returns. Raises ``CircuitFailed``, ``spark.lost``.

        ``again``: the step was published before a crash, and what it published stays where it is.
        """
        self.published = again
        refs = self.reader.refs(after, upto)
        counts: dict[str, int] = {}
        for ref in refs:
            for relation, rows in ref.rows.items():
                counts[relation] = counts.get(relation, 0) + rows
        changed = {name for name, rows in counts.items() if rows}
        result = Result(number, changes=sum(counts.values()))
        given = [asdict(r) for r in refs]
        paths, bounded = self.kept.paths(), self.bounded(refs)
        step = Step(str(self.log), given, after, upto, instants, paths, {}, False, "", bounded=bounded)
        # A name of its own: what a run wrote that failed is still read when its bad row is searched.
        name = f"{number}.{next(_runs)}" + (".again" if again else "")
        done, error = (False, None) if wide or self.deadly.careful else self.at_once(changed, step, name, result)
        if not done:
            self.by_level(changed, step, name, wide, result)
            if error is not None and lost_worker(error):
                _log.warning(RUNS_AGAIN, name)
            elif error is not None:  # of no circuit: what it was must not stay in the dark
                _log.warning("step %s did not work in one task, but level by level", name, exc_info=error)
        return result

    def at_once(self, changed: set[str], step: Step, name: str, result: Result) -> tuple[bool, Exception | None]:
        """All circuits in one job or two, if none needs more: (whether that was done, why it did not work)."""
        due = self.program.downstream(changed & {c.name for c in self.program.circuits})
        if any(map(self.is_deadly, due)):
            return False, None
        try:
            plans = self.plans_at_once(due)
        except Exception as error:
            return False, error  # so it will here
        feeds: dict[str, list[str]] = {}
        made = []
        for number, plan in enumerate(plans):
            if plan is None:
                return False, None
            folder = self.fresh(f"{name}.{number}" if number else name)
            here = replace(step, refs=[], feeds=feeds) if number else step
            try:
                with self.deadly.in_time(self.spark, wide=False):
                    rows = plan.run(self.described(here, folder), bounded=step.bounded)
            except Exception as error:
                return False, error  # level by level it will show whose fault it is
            made.append((rows, folder))
            for file in rows:
                feeds.setdefault(file.circuit, []).append(file.path)
        for rows, folder in made:
            self.collect(rows, folder, result)
        return True, None

    def plans_at_once(self, due: set[str]) -> list[Prepared | None]:
        """Of the jobs, one or two, in which these circuits run all at once; None for what needs more."""
        parts = self.program.in_jobs(due) if self.frames.partitions > 1 else [due]
        return [self.prepared(frozenset(part), "at once", partial(self.frames.at_once, part)) for part in parts]

    def by_level(self, changed: set[str], step: Step, name: str, wide: bool, result: Result) -> None:
        """One job a level: tables, then shared sub-queries and views."""
        feeds: dict[str, list[str]] = {}
        for level, circuits in enumerate(self.program.levels):
            here = replace(step, refs=step.refs if level == 0 else [], feeds=feeds)
            active = [c for c in circuits if (c.name in changed if c.relation is not None else self.due(c, here))]
            if not active:
                continue
            apart = self.deadly.careful or any(self.is_deadly(c.name) for c in active)
            for number, some in enumerate([[c] for c in active] if apart else [active]):
                for feed, path in self.job(some, here, f"{name}.{level}.{number}", wide, result):
                    feeds.setdefault(feed, []).append(path)

    def plan_ahead(self, changed: set[str], *, wide: bool) -> None:
        """Make the plans of a step that changes these tables, as far as can be told before it runs."""
        due = self.program.downstream(changed & {c.name for c in self.program.circuits})
        if not wide and all(self.plans_at_once(due)):
            return
        for circuits in self.program.levels:
            if active := [c for c in circuits if c.name in due]:
                self.planned(active, wide=wide)

    def due(self, circuit: Circuit, step: Step) -> bool:
        gate = self.frames.gate(circuit)
        return bool(circuit.inputs & step.feeds.keys()) and (gate is None or gate.opens(step))

    def start(self, circuit: Circuit, number: int, upto: int, feeds: dict[str, list[str]], *, wide: bool) -> Result:
        """A circuit's first step: over the whole log (a table), or over all contents of what it reads (a view)."""
        refs = self.reader.refs(0, upto) if circuit.relation is not None else []
        given, beside, bounded = [asdict(r) for r in refs], dict(self.kept.beside), self.bounded(refs)
        step = Step(str(self.log), given, 0, upto, "one", beside, feeds, True, "", bounded=bounded)
        result = Result(number)
        self.job([circuit], step, f"{number}.start.{quote(circuit.name, safe='@')}.{next(_runs)}", wide, result)
        return result

    def attempt(
        self, circuits: Sequence[Circuit], step: Step, rows: Mapping[str, Sequence[pa.Table]], *, wide: bool
    ) -> Exception | None:
        """What these circuits, one after the other, throw over ``rows`` of their feeds in place of the step's.

        Nothing of what they write is kept. ``rows``: tables with ``c0 ..`` and ``_w``; None: they do not throw.
        """
        name = f"attempt.{next(_runs)}"
        folder = self.fresh(name)
        feeds: dict[str, list[str]] = {}
        try:
            for feed, table in ((f, t) for f, tables in rows.items() for t in tables if t.num_rows):
                path = folder / f"in~{len(feeds)}~{len(feeds.get(feed, ()))}.arrow"
                write_run(path, table)
                feeds.setdefault(feed, []).append(str(path))
            for place, circuit in enumerate(circuits):
                own = replace(step, refs=[], feeds=dict(feeds))
                if self.due(circuit, own) or (step.whole and self.frames.gate(circuit) is None):
                    for feed, made in self.job([circuit], own, f"{name}.{place}", wide, Result(0)):
                        feeds.setdefault(feed, []).append(made)
        except CircuitFailed as failure:
            if refusal(failure, self.log.parent):
                raise
            return failure.cause
        finally:
            for written in (folder, *(self.folder / f"{name}.{place}" for place in range(len(circuits)))):
                shutil.rmtree(written, ignore_errors=True)
        return None

    def bounded(self, refs: Iterable[FrameRef]) -> bool:
        """Whether rows of a step may be so long that its batches need a bound by their bytes."""
        return self.kept.heavy() or any(heavy(ref.bytes, sum(ref.rows.values())) for ref in refs)

    def fresh(self, name: str) -> Path:
        """An empty folder for a job's files; what a crash left in it goes."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def described(self, step: Step, folder: Path) -> Path:
        """The step's description in a file never named so before: workers keep what they read by its path."""
        path = folder / f"step.{time.time_ns()}.json"
        profiled = recorder() is not None
        replace(step, folder=str(folder), profiled=profiled).write(path)
        return path

    def job(self, circuits: list[Circuit], step: Step, name: str, wide: bool, result: Result) -> list[tuple[str, str]]:
        """Run circuits of one level together; on failure one by one, to know whose fault it is. (feed, file) made."""
        for circuit in circuits:
            if self.is_deadly(circuit.name):
                raise CircuitFailed(circuit, self.deadly.error(), self, step)
        if len(circuits) == 1:
            with self.deadly.alone(self.spark, circuits[0].name, published=self.published):
                return self.ran(circuits, step, name, wide, result)
        return self.ran(circuits, step, name, wide, result)

    def is_deadly(self, circuit: str) -> bool:
        return self.deadly.known(circuit, published=self.published)

    def ran(self, circuits: list[Circuit], step: Step, name: str, wide: bool, result: Result) -> list[tuple[str, str]]:
        try:
            plan = self.planned(circuits, wide=wide)
            assert plan is not None
            with self.deadly.in_time(self.spark, wide=wide or step.whole):
                folder, rows = self.persisting(plan, step, name)
        except Exception as error:
            if gone := lost_spark(self.spark, error):
                self.deadly.ended()
                raise gone from error
            if len(circuits) == 1:
                raise CircuitFailed(circuits[0], error, self, step) from error
            for number, circuit in enumerate(circuits):
                self.job([circuit], step, f"{name}.{number}", wide, Result(0))
            raise
        result.tally.unseen |= {key for c in circuits for key in self.frames.unseen.get((c.name, wide), ())}
        return self.collect(rows, folder, result)

    def persisting(self, plan: Prepared, step: Step, name: str) -> tuple[Path, list[Written]]:
        """Run a job, and again where a Python worker was lost: its folder, and what it says it wrote."""
        left = WORKERS_LOST_MAX
        while True:
            folder = self.fresh(name)
            try:
                return folder, plan.run(self.described(step, folder), bounded=step.bounded)
            except Exception as error:
                if not left or not lost_worker(error):
                    raise
                left -= 1
                _log.warning(RUNS_AGAIN, name)
            finally:
                if not plan.same_rdd:  # there is an exchange
                    discard(folder)

    def collect(self, rows: list[Written], folder: Path, result: Result) -> list[tuple[str, str]]:
        """Into ``result``: what a job says it wrote of feeds, and the runs and refused rows in its folder."""
        for file in rows:
            result.outputs.append(Output(result.number, file.circuit, file.path, file.rows, file.sums))
        for path in folder.iterdir():
            if path.suffix not in (".arrow", SUFFIX) or path.name.startswith((OUTPUT, ".")):
                continue
            (result.refused if path.name.startswith(REFUSED) else result.runs).append(path)
        result.tally.add(folder)
        return [(file.circuit, file.path) for file in rows]

    def planned(self, circuits: Sequence[Circuit], *, wide: bool) -> Prepared | None:
        """The plan of circuits of one level in one job."""
        return self.prepared(
            frozenset(c.name for c in circuits), "wide" if wide else "narrow",
            lambda: reduce(DataFrame.unionAll, [self.frames.frame(c, wide=wide) for c in circuits]),
        )  # fmt: skip

    def prepared(self, names: frozenset[str], shape: str, made: Callable[[], DataFrame | None]) -> Prepared | None:
        """The plan of these circuits in this shape, made by ``made`` the first time; None when that makes none."""
        key = (names, shape)
        if key not in self._prepared:
            with phase(PLANNING):
                frame = made()
                plan = None if frame is None else Prepared(frame)
            while len(self._prepared) >= PREPARED_MAX:
                self._prepared.pop(next(iter(self._prepared)))
            self._prepared[key] = plan
        return self._prepared[key]
