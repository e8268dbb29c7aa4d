"""A step: a range of commits through every circuit whose inputs changed, then all views published at once.

The whole flow: read the range of the log -> tables -> shared sub-queries and views, level by level, one Spark job
a level -> new runs become state -> outputs are published in one catalogue transaction.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.store import Output
from headrace.circuit.operators.multiset import REFUSED
from headrace.circuit.operators.publish import OUTPUT
from headrace.circuit.prepare import Prepared
from headrace.circuit.task import Step
from headrace.engine.changes import ReadLog
from headrace.engine.kept import Kept
from headrace.engine.program import Circuit, Frames, Program
from headrace.log.read import LogReader

PREPARED_MAX = 64


class CircuitFailed(Exception):
    """A circuit's own job failed: its SQL threw on some row, or its files are damaged."""

    def __init__(self, circuit: Circuit, cause: Exception) -> None:
        super().__init__(f"{circuit.name}: {cause}")
        self.circuit, self.cause = circuit, cause


@dataclass
class Result:
    """What a step wrote: files of each feed, runs of each arrangement, rows set aside."""

    number: int
    outputs: list[Output] = field(default_factory=list)
    runs: list[Path] = field(default_factory=list)
    refused: list[Path] = field(default_factory=list)
    changes: int = 0


class Stepper:
    """Runs steps of one program. Plans are made on first use and kept."""

    def __init__(
        self, spark: SparkSession, program: Program, log: Path, kept: Kept, folder: Path, partitions: int
    ) -> None:
        self.spark, self.program, self.kept, self.folder = spark, program, kept, folder
        self.log, self.reader = log, LogReader(log)
        self.frames = Frames(spark, program, ReadLog(), partitions)
        self._prepared: dict[tuple[frozenset[str], bool], Prepared] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self, number: int, after: int, upto: int, *, wide: bool, instants: str = "one", again: bool = False
    ) -> Result:
        """Run the step; nothing is state or published yet when this returns. Raises ``CircuitFailed``.

        ``again``: the step was published before a crash, and what it published stays where it is.
        """
        refs = self.reader.refs(after, upto)
        counts: dict[str, int] = {}
        for ref in refs:
            for relation, rows in ref.rows.items():
                counts[relation] = counts.get(relation, 0) + rows
        feeds: dict[str, list[str]] = {}
        changed = {name for name, rows in counts.items() if rows}
        result = Result(number, changes=sum(counts.values()))
        runs = self.kept.paths()
        for level, circuits in enumerate(self.program.levels):
            active = [c for c in circuits if (c.name in changed if c.relation is not None else c.inputs & feeds.keys())]
            if not active:
                continue
            folder = self.fresh(f"{number}.{level}.again" if again else f"{number}.{level}")
            step = Step(
                str(self.log), [asdict(r) for r in refs] if level == 0 else [], after, upto, instants, runs, feeds,
                False, str(folder),
            )  # fmt: skip
            self.job(active, step, folder, wide, result, feeds)
        return result

    def start(self, circuit: Circuit, number: int, upto: int, feeds: dict[str, list[str]], *, wide: bool) -> Result:
        """A circuit's first step: over the whole log (a table), or over all contents of what it reads (a view)."""
        folder = self.fresh(f"{number}.start.{quote(circuit.name, safe='@')}")
        refs = [asdict(r) for r in self.reader.refs(0, upto)] if circuit.relation is not None else []
        step = Step(str(self.log), refs, 0, upto, "one", {}, feeds, True, str(folder))
        result = Result(number)
        self.job([circuit], step, folder, wide, result, {})
        return result

    def fresh(self, name: str) -> Path:
        """An empty folder for a job's files; what a crash left in it goes."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def job(
        self, circuits: list[Circuit], step: Step, folder: Path, wide: bool, result: Result, feeds: dict[str, list[str]]
    ) -> None:
        """Run circuits of one level together; on failure one by one, to know whose fault it is."""
        description = folder / "step.json"
        step.write(description)
        try:
            rows = self.prepared(circuits, wide).run(description)
        except Exception as error:
            if len(circuits) == 1:
                raise CircuitFailed(circuits[0], error) from error
            for circuit in circuits:
                alone = self.fresh(f"{folder.name}.{circuits.index(circuit)}")
                self.job([circuit], _moved(step, alone), alone, wide, Result(0), {})
            raise
        for name, path, count, crc in rows:
            result.outputs.append(Output(result.number, name, path, count, crc))
            feeds.setdefault(name, []).append(path)
        for file in folder.glob("*.arrow"):
            if file.name.startswith(OUTPUT):
                continue
            (result.refused if file.name.startswith(REFUSED) else result.runs).append(file)

    def prepared(self, circuits: list[Circuit], wide: bool) -> Prepared:
        key = (frozenset(c.name for c in circuits), wide)
        if key not in self._prepared:
            frames = [self.frames.frame(c, wide=wide) for c in circuits]
            while len(self._prepared) >= PREPARED_MAX:
                self._prepared.pop(next(iter(self._prepared)))
            self._prepared[key] = Prepared(reduce(DataFrame.unionAll, frames))
        return self._prepared[key]


def _moved(step: Step, folder: Path) -> Step:
    return Step(
        step.log, step.refs, step.after, step.upto, step.instants, step.runs, step.feeds, step.whole, str(folder)
    )
