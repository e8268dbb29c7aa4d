"""First contents: a new table from the log, a view over all that it reads, and what brings a failed view up to date."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.catalog.store import Catalog, Output, ViewRecord
from headrace.catalog.synced import synced
from headrace.circuit.node import Constant, Node
from headrace.circuit.one_row import has_one_row
from headrace.circuit.operators.publish import OUTPUT
from headrace.circuit.task import Step
from headrace.engine.compile import Compiled
from headrace.engine.deadly import Deadly
from headrace.engine.kept import Kept
from headrace.engine.program import Circuit, Program
from headrace.engine.step import CircuitFailed, Result, Stepper
from headrace.engine.unroll import by_loop, in_turn, inputs_of, levels_before, named, waits
from headrace.log.read import LogReader
from headrace.model.definition import Settings
from headrace.model.delivery import WEIGHT
from headrace.serve import snapshot
from headrace.state.rows import consolidate, difference
from headrace.state.run import checksums, open_run, rows_of, write_run

INSTANT = "_i"
STEPS_A_TASK = 4  # rows that a task of a first step has in memory at most, in large steps of the project
Bases = dict[str, tuple[list[str], int]]  # feed -> files with all of it, and their rows


@dataclass(frozen=True, slots=True)
class Back:
    """A failed view, built again: files and rows of its contents, and the delta from those it stood at."""

    compiled: Compiled
    paths: list[str]
    rows: int
    delta: Output
    seconds: float


class Backfill:
    """Runs one circuit at a time over everything; what it keeps becomes state, what it gives is returned as files."""

    def __init__(
        self, spark: SparkSession, folder: Path, catalog: Catalog, kept: Kept, settings: Settings, counting: bool
    ) -> None:
        self.counting, self.deadly = counting, Deadly(folder, settings.step_seconds)
        self.spark, self.folder, self.catalog, self.kept, self.settings = spark, folder, catalog, kept, settings
        self.reader = LogReader(folder / "log")
        self._lock = threading.Lock()

    def changes(self, table: str, upto: int) -> int:
        """How many rows of a table the log has up to a commit."""
        return sum(ref.rows.get(table, 0) for ref in self.reader.refs(0, upto))

    def table(self, circuit: Circuit, rows: int, number: int, upto: int, wide_rows: int) -> list[Path]:
        """A table that views newly read: its contents, of so many rows of the log. Gives the files of what it could not
        take."""
        result = self.first(circuit, rows, number, upto, {}, wide_rows)
        self.kept.add(result.runs)
        return result.refused

    def view(
        self, compiled: Compiled, feeds: Mapping[str, list[str]], bases: Bases, number: int, upto: int, wide_rows: int
    ) -> tuple[list[str], int]:
        """(files, rows) of a view over all contents of what it reads. Raises ``CircuitFailed``, with nothing kept.

        ``bases`` takes the levels of its recursive queries, for other views that have the same.
        """
        if not any(feeds.values()) and not has_row_over_nothing(compiled.root):
            return [], 0
        chain, known, made = list[Circuit](), dict(feeds), Bases()
        runs, there = list[Path](), set(self.kept.runs)

        def goes_on(loop: str, level: int) -> bool:
            return level == 1 or named(loop, level - 1) in known

        for circuit in circuits(compiled, goes_on):
            chain.append(circuit)
            due = not waits(circuit.name) or not known.keys().isdisjoint(levels_before(circuit.name, circuit.inputs))
            if due and circuit.name not in bases:
                rows = sum(rows_of(p) for feed in circuit.inputs for p in known.get(feed, ()))
                try:
                    result = self.first(circuit, rows, number, upto, known, wide_rows, filled=there)
                except CircuitFailed as failure:
                    if len(chain) == 1:
                        raise
                    whole = self.stepper(*chain)  # the bad row is one of what the first of them read
                    raise CircuitFailed(circuit, failure.cause, whole, self.step(feeds, upto)) from failure
                # What operators keep for themselves is the same for all that have them, and must be there but once.
                runs += [path for path in result.runs if _arrangement(path) not in there]
                there |= {_arrangement(path) for path in result.runs}
                made[circuit.name] = [o.path for o in result.outputs], sum(o.rows for o in result.outputs)
            paths = {**bases, **made}.get(circuit.name, ([], 0))[0]
            known.update({circuit.name: paths} if paths else {})
        paths, rows = made.pop(compiled.feed)
        with self._lock:  # views are built side by side, and may have made the same
            self.kept.add(path for path in runs if _arrangement(path) not in self.kept.runs)
            bases.update(made)
        sync_names(paths)
        return paths, rows

    def step(self, feeds: Mapping[str, list[str]], upto: int) -> Step:
        """The description of a first step over these contents."""
        return Step(str(self.folder / "log"), [], 0, upto, "one", dict(self.kept.beside), dict(feeds), True, "")

    def first(
        self, circuit: Circuit, rows: int, number: int, upto: int, feeds: dict[str, list[str]], wide_rows: int,
        filled: Iterable[str] = (),
    ) -> Result:  # fmt: skip
        """A circuit's first step, over so many rows. A task has its part of them in memory: there are as many tasks as
        it takes, and circuits that else do without dealing out their rows, in one task with all of them, do it."""
        stepper = self.stepper(circuit, filled=filled, tasks=-(-rows // (STEPS_A_TASK * self.settings.step_rows)))
        return stepper.start(circuit, number, upto, feeds, wide=rows >= wide_rows or stepper.frames.deal_all)

    def stepper(self, *circuits: Circuit, filled: Iterable[str] = (), tasks: int = 0) -> Stepper:
        """For these circuits alone, which leave the arrangements alone that are ``filled``. ``tasks``: at least."""
        log, state, partitions = self.folder / "log", self.folder / "state", self.settings.partitions
        program, counting, most = Program(circuits), self.counting, max(partitions, tasks)
        stepper = Stepper(
            self.spark, program, log, self.kept, state, most, filled, counting=counting, deadly=self.deadly
        )
        stepper.frames.deal_all |= tasks > partitions
        return stepper

    def caught_up(self, record: ViewRecord, number: int, paths: list[str], instant: int = 1) -> Output:
        """The delta of step ``number`` that takes a view from where it stood to ``paths``: to a sink, one more step."""
        stood = snapshot.read(self.catalog, record, number - 1)[1]
        delta = difference(snapshot.delta(record, paths), stood)
        names = [*(f"c{i}" for i in range(len(record.schema.names))), WEIGHT]
        delta = delta.rename_columns(names).append_column(INSTANT, pa.array(np.full(delta.num_rows, instant, np.int32)))
        folder = self.folder / "state" / f"{number}{snapshot.BACK}{time.time_ns()}"
        folder.mkdir()
        path = folder / f"{OUTPUT}{record.feed}~0~0~{delta.num_rows}.arrow"
        write_run(path, delta)
        return Output(number, record.feed, str(path), delta.num_rows, checksums(path, sync=True))

    def merged(self, feed: str, number: int, paths: Sequence[str]) -> tuple[list[str], int]:
        """One file with all that some files of a feed add up to, and its rows."""
        tables = [open_run(p).drop_columns(["_i"]) if "_i" in open_run(p).column_names else open_run(p) for p in paths]
        rows = consolidate(pa.concat_tables(tables))
        folder = self.folder / "state" / "merged"
        folder.mkdir(exist_ok=True)
        path = folder / f"base:{feed}~{number}~{time.time_ns()}~{rows.num_rows}.arrow"
        write_run(path, rows)
        return [str(path)], rows.num_rows


def _arrangement(run: Path) -> str:
    return run.name.split("~", 1)[0]


def circuits(compiled: Compiled, goes_on: Callable[[str, int], bool]) -> Iterator[Circuit]:
    """A view's circuits by themselves: it may hold a shared sub-query twice, so it is built whole, without sharing.

    One, after those of a recursive query's levels as far as it ``goes_on``.
    """
    before: list[str] = []
    for name, root in in_turn(compiled.feed, compiled.root, goes_on):
        yield Circuit(name, None, root, inputs_of(root, by_loop(before)), 0)
        before.append(name)


def has_row_over_nothing(root: Node) -> bool:
    """Whether a view over empty tables may have rows: constants, and what has one row whatever it reads."""
    return any(isinstance(n, Constant) or has_one_row(n) for n in root.walk())


def base_sums(paths: Iterable[str]) -> list[str]:
    return [checksums(Path(path), sync=False) for path in paths]


def sync_names(files: Iterable[str | Path]) -> None:
    """The names of files are on the disk when this returns: in their folder, which may be new, and its own in its."""
    folders = {Path(file).parent for file in files}
    for folder in sorted({*folders, *(above.parent for above in folders)}):
        synced(folder)
