"""A generated program: tables, views over them, a schedule and a history; run step by step against the oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batches import Oracle, Rows, shown
from histories import History, Schedule, StepPlan, Table, batch, history, replay
from pieces import Piece
from queries import Queries
from schemas import Field as Reached
from schemas import fields, kind, tables

from headrace.engine.backfill import has_row_over_nothing
from headrace.engine.compile import Compilation, Compiled, Compiler
from headrace.engine.kept import Kept
from headrace.engine.program import Circuit, Program, assemble
from headrace.engine.step import CircuitFailed, Result, Stepper
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.definition import ViewDefinition
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.state.run import open_run

INSTANT = "_i"
SPARKS_OWN = ("sql.syntax", "sql.analysis", "sql.unknown_column", "sql.unknown_relation")


@dataclass(frozen=True)
class Generated:
    """What a run is made of. ``views``: name -> SQL, those that others read first."""

    tables: tuple[Table, ...]
    views: Mapping[str, Piece]
    plan: Schedule
    steps: History
    compilation: Compilation | None = None


@dataclass
class Failure:
    """A view that does not do as batch does: at ``commit`` (0: before any), what was expected and what was found."""

    view: str
    what: str
    commit: int = 0
    expected: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """What a run found. ``moved``: views whose contents were not always the same; ``throwing``: views that batch
    cannot compute either."""

    comparisons: int = 0
    moved: int = 0
    failures: list[Failure] = field(default_factory=list)
    throwing: dict[str, str] = field(default_factory=dict)


@dataclass
class Tally:
    """What became of the queries that were drawn."""

    drawn: int = 0
    rejected: int = 0
    refused: Counter[str] = field(default_factory=Counter)


# -- drawing --------------------------------------------------------------------------------------------------


def schedule(rng: random.Random, names: Sequence[str], steps: int) -> Schedule:
    """Most steps have several instants: those cost one step. Some are wide, some empty a table."""
    plans = []
    for number in range(steps):
        count = 1 if number % 4 == 3 else rng.choice((3, 4, 5))
        truncates = []
        for _ in range(count):
            emptied = (rng.choice(names),) if number > 1 and rng.random() < 0.12 else ()
            truncates.append((emptied, ()) if rng.random() < 0.5 else ((), emptied))
        wide = number == 2 and rng.random() < 0.2
        plans.append(StepPlan(wide, "each" if count > 1 else "one", tuple(truncates)))
    return tuple(plans)


def drawn_history(rng: random.Random, chosen: Sequence[Table], plan: Schedule) -> History:
    """Much in the first step, less in the others; one step changes a single table, one nothing at all."""
    alone = rng.choice(chosen)

    first = True

    def drawn(rng: random.Random, number: int) -> list[Table]:
        nonlocal first
        if number == 3:
            return [alone] * rng.choice((0, 1, 3))
        each = rng.choice((8, 12, 16)) if number == 0 and first else rng.choice((0, 1, 2, 3, 5))
        first = False
        found = [table for table in chosen for _ in range(each)]
        rng.shuffle(found)
        return found

    return history(rng, chosen, plan, drawn)


class Drawing:
    """Draws views until enough of them can be maintained; says what became of the others."""

    def __init__(self, spark: Any, rng: random.Random, tally: Tally) -> None:
        self.spark, self.rng, self.tally = spark, rng, tally
        self.tables = tuple(tables(rng))
        self.failures: list[tuple[Generated, Failure]] = []

    def program(self, count: int, steps: int) -> Generated:
        """A program of ``count`` views, the first two of which others may read."""
        reach: dict[str, list[Reached]] = {t.name: fields(t) for t in self.tables}
        views: dict[str, Piece] = {}
        for name, compiled in self.fill(views, reach, 2, depth=1).views.items():
            reach[name] = [Reached(c.name, kind(c.type)) for c in compiled.schema.columns]
        compilation = self.fill(views, reach, count, depth=3)
        plan = schedule(self.rng, [t.name for t in self.tables], steps)
        return Generated(self.tables, views, plan, drawn_history(self.rng, self.tables, plan), compilation)

    def fill(self, views: dict[str, Piece], reach: dict[str, list[Reached]], count: int, depth: int) -> Compilation:
        """Draw until ``views`` has ``count`` of them; how exactly those compile."""
        while True:
            made = {}
            for n in range((count - len(views)) * 5 // 4 + 1):
                text = Queries(self.rng, reach).query(self.rng.randint(min(depth, 1), depth)).text
                made[f"v{self.tally.drawn + n}"] = text
            self.tally.drawn += len(made)
            compilation = compile_views(self.spark, self.tables, {**views, **made})
            for name, error in compilation.refused.items():
                if error.code == "internal":  # the compiler breaks
                    self.fail({**views, name: made[name]}, name, error.what)
                else:
                    self.count(name, made[name], error)
            good = [n for n in made if n in compilation.views]
            views.update({n: made[n] for n in good[: count - len(views)]})
            if len(views) == count:
                chosen = {n: compilation.views[n] for n in views}
                reads = {r for view in chosen.values() for r in view.reads}
                return Compilation(chosen, {}, frozenset(t.name for t in self.tables if t.name in reads))

    def fail(self, views: dict[str, Piece], name: str, what: str) -> None:
        self.failures.append((Generated(self.tables, views, (), ()), Failure(name, what)))

    def count(self, name: str, text: Piece, error: HeadraceError) -> None:
        if error.code in SPARKS_OWN:
            self.tally.rejected += 1
        else:
            self.tally.refused[f"{error.code}: {error.what}"] += 1


def compile_views(spark: Any, chosen: Sequence[Table], views: Mapping[str, Piece]) -> Compilation:
    definitions = [ViewDefinition(name, str(text)) for name, text in views.items()]
    return Compiler(spark).compile({t.name: t.relation for t in chosen}, definitions, {})


# -- running --------------------------------------------------------------------------------------------------


class Running:
    """The views of a program, stepped over any number of histories of its tables, each time from nothing."""

    def __init__(self, spark: Any, chosen: Sequence[Table], compilation: Compilation, folder: Path) -> None:
        self.spark, self.tables, self.folder = spark, chosen, folder
        self.refused = compilation.refused
        self.views: dict[str, Compiled] = compilation.views
        relations = {t.name: t.relation for t in chosen}
        self.program = assemble(
            {n: relations[n] for n in compilation.tables}, {v.feed: v.root for v in self.views.values()}
        )
        self.oracle = Oracle(spark, chosen, self.views)
        self.stepper: Stepper | None = None
        self.runs = 0

    def run(self, plan: Schedule, steps: History, *, last: bool = False) -> Outcome:
        """Step over the history; after every commit (``last``: after the last) each view is compared with batch."""
        self.runs += 1
        folder = self.folder / f"run{self.runs}"
        outcome = Outcome()
        log, kept = LogWriter(folder / "log"), Kept(folder / "state")
        kept.start()
        try:
            found = self.stepped(plan, steps, log, kept, folder)
        except CircuitFailed as failed:
            self.failed(failed, replay(self.tables, plan, [steps]).contents[: log.end], folder, outcome, last=last)
            return outcome
        finally:
            kept.close()
            log.close()
        self.compare(plan, steps, found, folder, outcome, last=last)
        return outcome

    def stepped(
        self, plan: Schedule, steps: History, log: LogWriter, kept: Kept, folder: Path
    ) -> list[tuple[int, dict[str, Rows]]]:
        """(commit, contents of each view) at every commit whose contents are known."""
        stepper = self.placed(folder, kept)
        held: dict[str, Rows] = {name: Counter() for name in self.views}
        self.begin(stepper, kept, held)
        points = []
        for number, step in enumerate(plan):
            after = log.end
            log.append(batch(self.tables, step, number, [steps]))
            result = stepper.run(number + 1, after, log.end, wide=step.wide, instants=step.instants)
            kept.add(result.runs)
            kept.wait_for_merges()
            count = len(step.truncates)
            changes = self.changes(result)
            for instant in range(1, count + 1):
                if step.instants == "each" or instant == count:
                    for name, by_instant in changes.items():
                        for row, weight in by_instant.get(instant if step.instants == "each" else 1, {}).items():
                            held[name][row] += weight
                    points.append((after + instant, {n: _without_zeros(rows) for n, rows in held.items()}))
        return points

    def placed(self, folder: Path, kept: Kept) -> Stepper:
        """The stepper over an empty log and empty state, its plans kept from the run before."""
        if self.stepper is None:
            self.stepper = Stepper(self.spark, self.program, folder / "log", kept, folder / "state", 2)
            self.stepper.frames.deal_all = True
        stepper = self.stepper
        stepper.log, stepper.reader, stepper.kept, stepper.folder = (
            folder / "log", LogReader(folder / "log"), kept, folder / "state",
        )  # fmt: skip
        return stepper

    def begin(self, stepper: Stepper, kept: Kept, held: dict[str, Rows]) -> None:
        """First contents, over empty tables: what an aggregate without keys makes of nothing."""
        bases: dict[str, list[str]] = {}
        for name, view in self.views.items():
            reads = [self.views[r].feed if r in self.views else r for r in view.reads]
            feeds = {feed: bases.get(feed, []) for feed in reads}
            if not any(feeds.values()) and not has_row_over_nothing(view.root):
                continue
            circuit = Circuit(view.feed, None, view.root, frozenset(), 0)
            alone = Stepper(self.spark, Program((circuit,)), stepper.log, kept, stepper.folder, 2)
            alone.frames.owners.update(dict.fromkeys(kept.runs, ""))
            result = alone.start(circuit, 0, 0, feeds, wide=False)
            there = set(kept.runs)  # what several views keep alike is there but once, as in engine/backfill.py
            kept.add([run for run in result.runs if run.name.split("~", 1)[0] not in there])
            bases[view.feed] = [o.path for o in result.outputs]
            for by_row in self.changes(result).get(name, {}).values():
                held[name].update(by_row)

    def changes(self, result: Result) -> dict[str, dict[int, Rows]]:
        """View -> instant -> row -> weight, as published."""
        names = {view.feed: name for name, view in self.views.items()}
        found: dict[str, dict[int, Rows]] = {}
        for output in result.outputs:
            if output.feed not in names:
                continue
            table = open_run(output.path)
            instants = table[INSTANT].to_pylist() if INSTANT in table.column_names else [1] * table.num_rows
            weights = table[WEIGHT].to_pylist()
            columns = table.select([n for n in table.column_names if n not in (INSTANT, WEIGHT)])
            by_instant = found.setdefault(names[output.feed], {})
            for row, instant, weight in zip(shown(columns), instants, weights, strict=True):
                by_instant.setdefault(instant, Counter())[row] += weight
        return found

    def compare(
        self, plan: Schedule, steps: History, found: list[tuple[int, dict[str, Rows]]], folder: Path, outcome: Outcome,
        *, last: bool,
    ) -> None:  # fmt: skip
        replayed = replay(self.tables, plan, [steps])
        wrong: set[str] = set()
        outcome.moved = sum(any(c[n] != found[0][1][n] for _, c in found) for n in self.views)
        for n, (commit, contents) in enumerate(found):
            if last and n < len(found) - 1:
                continue
            rows = replayed.contents[commit - 1]
            place = folder / f"batch{commit}"
            try:
                expected = self.oracle.contents(place, rows)
                if n == len(found) - 1 and not last:
                    some = list(self.views)[:: max(1, len(found))]
                    again = self.oracle.anew(place.with_name("again"), rows, some)
                    for name in some:
                        assert again[name] == expected[name], f"batch does not answer {name} the same twice"
            except Exception as error:
                if isinstance(error, AssertionError):
                    raise
                self.throwing(place.with_name(f"alone{commit}"), rows, commit, outcome, self.views)
                assert outcome.throwing, f"batch fails for all views together only: {error}"
                return
            outcome.comparisons += len(self.views)
            for name in self.views:
                if name not in wrong and contents[name] != expected[name]:
                    wrong.add(name)
                    outcome.failures.append(differing(name, commit, expected[name], contents[name]))

    def failed(
        self,
        failed: CircuitFailed,
        contents: Sequence[Mapping[str, Any]],
        folder: Path,
        outcome: Outcome,
        *,
        last: bool,
    ) -> None:
        """A circuit threw: that is right only where batch throws as well, at some commit (``last``: the last)."""
        name = failed.circuit.name.split("@")[0]
        suspects = [name] if name in self.views else list(self.views)
        for commit, rows in enumerate(contents, 1):
            if not outcome.throwing and (not last or commit == len(contents)):
                self.throwing(folder / f"alone{commit}", rows, commit, outcome, suspects)
        if not outcome.throwing:
            what = f"the circuit fails where batch does not: {failed.cause}"[:3000]
            outcome.failures.append(Failure(name, what, len(contents)))

    def throwing(
        self, place: Path, rows: Mapping[str, Any], commit: int, outcome: Outcome, suspects: Iterable[str]
    ) -> None:
        """Add the suspects that batch cannot compute over these rows; where Spark itself can, that is a failure."""
        for name in suspects:
            try:
                self.oracle.anew(place / name, rows, [name])
            except Exception as error:
                outcome.throwing[name] = str(error)[:3000]
                if self.oracle.answers(name):
                    what = f"batch in its canonical form fails where Spark does not: {str(error)[:1500]}"
                    outcome.failures.append(Failure(name, what, commit))


def _without_zeros(rows: Rows) -> Rows:
    return Counter({row: count for row, count in rows.items() if count})


def differing(name: str, commit: int, expected: Rows, found: Rows) -> Failure:
    missing = [f"{count} x ({', '.join(row)})" for row, count in sorted((expected - found).items())]
    surplus = [
        f"{found[row] - expected[row]} x ({', '.join(row)})" for row in sorted(found) if found[row] > expected[row]
    ]
    missing += [f"weight {count}: ({', '.join(row)})" for row, count in found.items() if count < 0]
    return Failure(name, "the view differs from batch", commit, missing, surplus)
