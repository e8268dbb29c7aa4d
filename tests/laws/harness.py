"""Law 1 for operators: after every commit each query's maintained contents equal the same query by Spark batch.

Random histories of an operator's tables run together through one program of all its queries; the published deltas
are added up, and after every commit whose contents are known (each step's end; every transaction where instants are
kept apart) they are compared, as multisets of whole rows, with what batch answers over plain replayed tables. Batch
runs once a query: the tables as of all commits lie side by side, told apart by the case's number.

A failure names the seed, the query and the cases, shrinks the first of them, prints its history and saves it under
``regressions/``, from where it is replayed before anything random.

Which queries of an operator a run takes is said in taken.py.

HEADRACE_LAWS_HISTORIES: cases an operator (200). HEADRACE_LAWS_SEED: another seed. HEADRACE_LAWS_REGRESSIONS:
another folder for failures. HEADRACE_LAWS_SHRINK: rounds of shrinking (24); with 0 a failure is told and no more.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from histories import (
    CASE,
    History,
    Schedule,
    StepPlan,
    Table,
    batch,
    history,
    history_document,
    read_history,
    replay,
    rows_table,
    schedule,
    without,
)
from taken import taken

from headrace.circuit.handed import to_hand_over
from headrace.engine.backfill import has_row_over_nothing
from headrace.engine.batch import Batch, table_contents
from headrace.engine.clock import with_clock
from headrace.engine.compile import Compilation, Compiler
from headrace.engine.kept import Kept
from headrace.engine.program import assemble
from headrace.engine.step import CircuitFailed, Result, Stepper
from headrace.formats.types.arrow import quote
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.definition import ViewDefinition
from headrace.model.delivery import WEIGHT
from headrace.sql.user_functions import UserFunctions, user_function
from headrace.state.rows import consolidate, difference
from headrace.state.run import open_run
from small_batch import small

HISTORIES = int(os.environ.get("HEADRACE_LAWS_HISTORIES", "200"))
STEPS = 4 if HISTORIES <= 200 else 6  # a step costs much the same however many histories it takes together
SEED = os.environ.get("HEADRACE_LAWS_SEED", "1")
REGRESSIONS = Path(os.environ.get("HEADRACE_LAWS_REGRESSIONS", Path(__file__).with_name("regressions")))
INSTANT = "_i"
SHRINK_ROUNDS, SHRINK_CASES = int(os.environ.get("HEADRACE_LAWS_SHRINK", "24")), 300


@dataclass(frozen=True)
class Operator:
    """What is held to the law together. The first column of every query is ``case_id``.

    ``truncated``: tables that histories empty. ``judged``: whether batch's own reading of the log is held to the
    replayed tables too. ``judges``: how batch is asked, for queries that do not keep cases apart by themselves. ``functions``: of users.
    """

    name: str
    tables: tuple[Table, ...]
    queries: Mapping[str, str]
    truncated: tuple[str, ...] = ()
    judged: bool = False
    judges: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What a run found: query -> cases whose contents differ, with the first rows that do."""

    differing: dict[str, list[int]] = field(default_factory=dict)
    rows: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, pa.Table] = field(default_factory=dict)

    def differ(self, query: str, cases: list[int], rows: list[str]) -> None:
        self.differing[query] = sorted({*self.differing.get(query, []), *cases})
        self.rows.setdefault(query, []).extend(rows)


@dataclass(frozen=True, slots=True)
class Point:
    """A commit at which contents are compared: after instant ``instant`` of step ``step``."""

    step: int
    instant: int
    commit: int


def points(plan: Schedule) -> list[Point]:
    found, commit = [], 0
    for number, step in enumerate(plan):
        count = len(step.truncates)
        instants = range(1, count + 1) if step.instants == "each" else (count,)
        found += [Point(number, i if step.instants == "each" else 1, commit + i) for i in instants]
        commit += count
    return found


def copies(delta: pa.Table) -> int:
    return int(np.abs(delta[WEIGHT].to_numpy()).sum())


class Circuits:
    """An operator's queries as one program, stepped over any number of histories, each time from nothing."""

    def __init__(self, spark: Any, operator: Operator, folder: Path) -> None:
        self.spark, self.operator, self.folder = spark, operator, folder
        self.relations = {t.name: t.relation for t in operator.tables}
        definitions = [ViewDefinition(name, sql) for name, sql in operator.queries.items()]
        self.functions = UserFunctions.of(user_function(n, made) for n, made in operator.functions.items())
        compiler = Compiler(spark, self.functions)
        self.compilation: Compilation = compiler.compile(self.relations, definitions, {})
        assert not self.compilation.refused, self.compilation.refused
        for name, view in self.compilation.views.items():
            assert view.schema.names[0] == CASE, f"{operator.name}.{name} does not begin with {CASE}"
        roots = {v.feed: v.root for v in self.compilation.views.values()}
        tables = {n: self.relations[n] for n in self.compilation.tables}
        self.program = assemble(with_clock(tables, roots.values()), roots)
        self.read = {circuit.relation.name for circuit in self.program.circuits if circuit.relation is not None}
        self._numbers = itertools.count()

    @cached_property
    def stepper(self) -> Stepper:
        made = Stepper(self.spark, self.program, self.folder / "log", Kept(self.folder / "s"), self.folder / "s", 2)
        made.frames.deal_all = True
        return made

    @contextmanager
    def fresh(self) -> Iterator[tuple[LogWriter, Kept, Path]]:
        """An empty log and empty state under the plans that are there already."""
        folder = self.folder / f"run{next(self._numbers)}"
        log, kept = LogWriter(folder / "log"), Kept(folder / "state")
        kept.start()
        stepper = self.stepper
        stepper.log, stepper.reader, stepper.kept, stepper.folder = (
            folder / "log", LogReader(folder / "log"), kept, folder / "state",
        )  # fmt: skip
        try:
            yield log, kept, folder
        finally:
            kept.close()
            log.close()

    def run(self, plan: Schedule, cases: Sequence[History]) -> Outcome:
        """Step the cases together and compare every query at every point."""
        outcome = Outcome()
        at = points(plan)
        found: dict[str, list[pa.Table]] = {v.feed: [] for v in self.compilation.views.values()}
        held: dict[str, pa.Table] = {}
        with self.fresh() as (log, kept, folder):
            self.begin(kept, held)
            for number, step in enumerate(plan):
                after = log.end
                log.append(batch(self.operator.tables, step, number, cases))
                result = self.stepper.run(number + 1, after, log.end, wide=step.wide, instants=step.instants)
                kept.add(result.runs)
                kept.wait_for_merges()
                self.add_up(result, [p for p in at if p.step == number], found, held, len(cases), outcome)
                for path in result.refused:
                    table = path.name.split("~", 1)[0].removeprefix("refused:table:")
                    rows = open_run(str(path)).drop_columns(["_q", "_op", "_unchanged"])
                    before = outcome.refused.get(table)
                    outcome.refused[table] = rows if before is None else pa.concat_tables([before, rows])
            self.compare(plan, cases, found, folder, outcome)
        return outcome

    def begin(self, kept: Kept, held: dict[str, pa.Table]) -> None:
        """The first step at a view's creation, where some view has rows before any table has."""
        feeds: dict[str, list[str]] = {}
        for circuit in self.program.circuits:
            if circuit.root is None or not (has_row_over_nothing(circuit.root) or circuit.inputs & feeds.keys()):
                continue
            result = self.stepper.start(circuit, 0, 0, feeds, wide=False)
            kept.add(result.runs)
            for output in result.outputs:
                feeds.setdefault(output.feed, []).append(output.path)
        for view in self.compilation.views.values():
            if view.feed in feeds:
                held[view.feed] = pa.concat_tables([open_run(p).drop_columns([INSTANT]) for p in feeds[view.feed]])

    def add_up(
        self, result: Result, at: list[Point], found: dict[str, list[pa.Table]], held: dict[str, pa.Table], count: int,
        outcome: Outcome,
    ) -> None:  # fmt: skip
        """Each query's contents at this step's points, the case's number telling the points apart."""
        for name, view in self.compilation.views.items():
            feed = view.feed
            files = [open_run(o.path) for o in result.outputs if o.feed == feed]
            delta = pa.concat_tables(files) if files else None
            if delta is not None and copies(consolidate(delta)) != copies(delta):
                outcome.differ(name, [], [f"step {at[0].step}: rows of the published delta cancel"])
            for point in at:
                if delta is not None:
                    part = delta.filter(pa.array(delta[INSTANT].to_numpy() == point.instant)).drop_columns([INSTANT])
                    both = [held[feed], part] if feed in held else [part]
                    held[feed] = added_up(pa.concat_tables(both))
                if feed not in held:
                    continue
                weights = held[feed][WEIGHT].to_numpy()
                if (weights < 0).any() and name not in outcome.differing:
                    wrong = held[feed].filter(pa.array(weights < 0))
                    outcome.differ(
                        name, _cases(wrong, count), [f"commit {point.commit}: a negative weight: {_text(wrong)}"]
                    )
                found[feed].append(_shifted(held[feed], "c0", point.commit * count))

    def compare(
        self, plan: Schedule, cases: Sequence[History], found: dict[str, list[pa.Table]], folder: Path, outcome: Outcome
    ) -> None:
        """Against batch over the tables as they were at every point."""
        replayed = replay(self.operator.tables, plan, cases)
        judge, at = self.judge(), points(plan)
        for table in self.operator.tables:
            relation = table.relation
            rows = [
                (p.commit * len(cases) + r[0], *r[1:]) for p in at for r in replayed.contents[p.commit - 1][table.name]
            ]
            contents = rows_table(relation, rows)
            path = folder / f"{quote_plus(table.name)}.parquet"
            parquet.write_table(contents, path)
            columns = [_from_parquet(c.name, c.type) for c in relation.columns]
            judge.spark.read.parquet(str(path)).selectExpr(*columns).createOrReplaceTempView(quote(table.name))
            if table.name not in self.read:
                continue  # by none of the queries that are drawn
            if self.operator.judged:
                self.judge_log(judge, table, folder / "log", replayed.contents[-1][table.name], outcome)
            self.judge_refused(table, replayed.refused[table.name], outcome)
        for name, view in self.compilation.views.items():
            expected = judge.run(self.operator.judges.get(name, self.operator.queries[name]))
            wanted = arrow_schema(view.schema.columns)
            expected = weighted(
                expected.rename_columns(wanted.names).cast(pa.schema([(f.name, f.type) for f in wanted]))
            )
            parts = found[view.feed]
            mine = [t.rename_columns([*wanted.names, WEIGHT]).cast(expected.schema) for t in parts]
            minus = expected.set_column(expected.num_columns - 1, WEIGHT, pc.negate(expected[WEIGHT]))
            wrong = added_up(pa.concat_tables([*mine, minus]))
            if wrong.num_rows:
                first = wrong.sort_by(wanted.names[0])
                outcome.differ(name, _cases(wrong, len(cases)), [_described(first, len(cases))])

    def judge(self) -> Batch:
        return small(Batch(self.spark, functions=self.functions))

    def judge_log(self, judge: Batch, table: Table, log: Path, rows: list[Any], outcome: Outcome) -> None:
        """What `verify` takes for the table's contents, which is another reading of the log, against the replay."""
        upto = LogReader(log).end
        contents = table_contents(judge.spark, log, table.relation, upto)
        read = to_hand_over(contents, tuple((c.name, c.type) for c in table.relation.columns)).toArrow()
        expected = rows_table(table.relation, rows)
        wrong = difference(weighted(read.cast(expected.schema)), weighted(expected))
        if wrong.num_rows:
            outcome.differ(f"batch's {table.name}", sorted(set(wrong[CASE].to_pylist())), [_text(wrong)])

    def judge_refused(self, table: Table, rows: list[Any], outcome: Outcome) -> None:
        """What a table cannot take, and nothing else, is set aside."""
        expected = rows_table(table.relation, rows)
        names = expected.column_names
        found = outcome.refused.get(
            table.name, expected.slice(0, 0).rename_columns([f"c{i}" for i in range(len(names))])
        )
        wrong = difference(weighted(found.rename_columns(names).cast(expected.schema)), weighted(expected))
        if wrong.num_rows:
            outcome.differ(f"refused rows of {table.name}", sorted(set(wrong[CASE].to_pylist())), [_text(wrong)])


def _from_parquet(name: str, type_text: str) -> str:
    """An interval by Spark's own arithmetic: Parquet has numbers and structs in its place."""
    if not type_text.startswith("interval"):
        return quote(name)
    made = f"timestamp_micros({name}) - timestamp_micros(0)"
    if type_text == "interval":
        made = f"{name}._microseconds % 60000000 / decimal(1000000)"
        made = f"make_interval(0, {name}._months, 0, {name}._days, 0, int({name}._microseconds div 60000000), {made})"
        return f"{made} AS {name}"
    if "year" in type_text or "month" in type_text:
        made = f"make_ym_interval(0, {name}._months)"
    return f"CAST({made} AS {type_text}) AS {name}"


def weighted(table: pa.Table) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(np.ones(table.num_rows, np.int64)))


def added_up(table: pa.Table) -> pa.Table:
    """Equal rows added up, by Arrow: the laws must not tell rows apart by the product's own means.

    Rows of types that Arrow does not group by (lists, structs, maps) are left to those.
    """
    names = [n for n in table.column_names if n != WEIGHT]
    if any(pa.types.is_nested(table.schema.field(n).type) for n in names):
        return consolidate(table)
    keys = pa.table({n: _bits(table[n]) for n in names})
    counted = keys.append_column(WEIGHT, table[WEIGHT]).append_column("_at", pa.array(np.arange(len(table))))
    sums = counted.group_by(names).aggregate([(WEIGHT, "sum"), ("_at", "min")])
    sums = sums.filter(pc.field(f"{WEIGHT}_sum") != 0)
    rows = table.select(names).take(sums["_at_min"])
    return rows.append_column(WEIGHT, sums[f"{WEIGHT}_sum"])


def _bits(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floating-point numbers as the integers of their bits, one for all NaN: -0.0 is not 0.0."""
    if not pa.types.is_floating(values.type):
        return values
    array = values.combine_chunks()
    one = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return pa.chunked_array([one.view(pa.int64() if array.type == pa.float64() else pa.int32())])


def _shifted(table: pa.Table, name: str, by: int) -> pa.Table:
    return table.set_column(0, name, pa.array(table[name].to_numpy() + np.int32(by), pa.int32()))


def _cases(table: pa.Table, count: int) -> list[int]:
    return sorted(set((table.column(0).to_numpy() % count).tolist()))


def _described(wrong: pa.Table, count: int) -> str:
    """The rows of the first case and commit that differ: + what only the circuit has, - what only batch has."""
    first = wrong.column(0).to_numpy()[0]
    rows = wrong.filter(pa.array(wrong.column(0).to_numpy() == first)).slice(0, 8)
    return f"commit {first // count}, case {first % count}: {_text(rows.drop_columns([rows.column_names[0]]))}"


def _text(table: pa.Table) -> str:
    return "; ".join(str(row) for row in table.slice(0, 8).to_pylist())


# -- a law's test ---------------------------------------------------------------------------------------------


def hold(spark: Any, folder: Path, operator: Operator, histories: int = HISTORIES, at_once: int | None = None) -> None:
    """Fails unless every query of the operator equals batch after every commit of every history.

    ``at_once``: how many histories a run takes together, under a schedule of its own; all of them by default.
    """
    for path in sorted(REGRESSIONS.glob(f"{operator.name}.*.json")):
        failed, plan, steps = read_regression(path, operator)
        outcome = Circuits(spark, failed, folder / path.stem).run(plan, [steps])
        assert not outcome.differing, f"a failure of before is back: {path.name}\n{_summary(outcome)}"
    operator = drawn(operator)
    circuits = Circuits(spark, operator, folder / "all")
    rng = random.Random(f"{SEED}/{operator.name}")
    print(f"{operator.name}: {histories} histories, {len(operator.queries)} queries, HEADRACE_LAWS_SEED={SEED}")
    for first in range(0, histories, at_once or histories):
        plan = schedule(rng, operator.truncated, STEPS)
        numbers = range(first, min(first + (at_once or histories), histories))
        cases = [history(random.Random(f"{SEED}/{operator.name}/{n}"), operator.tables, plan) for n in numbers]
        try:
            outcome = circuits.run(plan, cases)
        except CircuitFailed as failure:
            outcome = Outcome()
            name = failure.circuit.name.split("@")[0]
            outcome.differ(name, throwing(circuits, plan, cases), [str(failure.cause)[:2000]])
        if outcome.differing:
            raise AssertionError(report(spark, folder, operator, plan, cases, outcome))


def drawn(operator: Operator) -> Operator:
    """With the queries that this run takes."""
    return replace(operator, queries=taken(operator.queries))


def throwing(circuits: Circuits, plan: Schedule, cases: Sequence[History]) -> list[int]:
    """One case that makes a circuit throw, by halving; none when no case does so alone."""
    numbers = list(range(len(cases)))
    while len(numbers) > 1:
        half = numbers[: len(numbers) // 2]
        numbers = half if _throws(circuits, plan, [cases[n] for n in half]) else numbers[len(numbers) // 2 :]
    return numbers if _throws(circuits, plan, [cases[n] for n in numbers]) else []


def _throws(circuits: Circuits, plan: Schedule, cases: Sequence[History]) -> bool:
    try:
        circuits.run(plan, cases)
    except CircuitFailed:
        return True
    return False


def report(
    spark: Any, folder: Path, operator: Operator, plan: Schedule, cases: Sequence[History], outcome: Outcome
) -> str:
    """What failed, and the smallest history found that still fails; the history is saved."""
    lines = [f"{operator.name} differs from batch; HEADRACE_LAWS_SEED={SEED} HEADRACE_LAWS_HISTORIES={len(cases)}"]
    lines.append(_summary(outcome))
    query = next(iter(outcome.differing))
    failing = outcome.differing[query]
    if not SHRINK_ROUNDS:
        return "\n".join(lines)
    if not failing:
        return "\n".join([*lines, "no single case shows it"])
    steps, fails = cases[failing[0]], False
    for number, queries in enumerate(({query: operator.queries.get(query, "")}, operator.queries)):
        if all(queries.values()) and not fails:
            one = replace(operator, queries=queries, judges={})
            steps, fails = shrunk(Circuits(spark, one, folder / f"one{number}"), query, plan, steps)
    lines.append(f"case {failing[0]}, {'shrunk' if fails else 'which does not fail alone'}:")
    for number, (step, transactions) in enumerate(zip(plan, steps, strict=True)):
        lines.append(f"  step {number}: {'wide' if step.wide else 'narrow'}, instants {step.instants}")
        for k, ((before, after), changes) in enumerate(zip(step.truncates, transactions, strict=True)):
            lines += [f"    {k}: TRUNCATE {name}" for name in before]
            lines += [f"    {k}: {c.table} {c.operation} {c.row} {sorted(c.left_out) or ''}" for c in changes]
            lines += [f"    {k}: TRUNCATE {name}" for name in after]
    lines.append(f"saved as {save_regression(operator, query, plan, steps)}")
    return "\n".join(lines)


def _summary(outcome: Outcome) -> str:
    return "\n".join(
        f"  {query}: {len(cases)} cases ({', '.join(map(str, cases[:10]))}); {' | '.join(outcome.rows[query])[:2000]}"
        for query, cases in outcome.differing.items()
    )


def shrunk(circuits: Circuits, query: str, plan: Schedule, steps: History) -> tuple[History, bool]:
    """The smallest failing history found, and whether it fails alone; candidates of a round run as cases of one run."""
    if not _failing(circuits, query, plan, [steps]):
        return steps, False
    for _ in range(SHRINK_ROUNDS):
        candidates = list(itertools.islice(without(steps), SHRINK_CASES))
        failing = _failing(circuits, query, plan, candidates) if candidates else []
        if not failing:
            break
        steps = candidates[failing[0]]
    return steps, True


def _failing(circuits: Circuits, query: str, plan: Schedule, cases: Sequence[History]) -> list[int]:
    """Those of the cases in which the query differs, or the first that makes a circuit throw."""
    try:
        return circuits.run(plan, cases).differing.get(query, [])
    except CircuitFailed:
        if len(cases) == 1:
            return [0]
        return next(([n] for n, case in enumerate(cases) if _failing(circuits, query, plan, [case])), [])


def save_regression(operator: Operator, query: str, plan: Schedule, steps: History) -> Path:
    document = {
        "operator": operator.name,
        "query": query,
        "schedule": [asdict(step) for step in plan],
        "history": history_document(steps),
    }
    text = json.dumps(document, indent=1)
    mark = blake2b(text.encode(), digest_size=4).hexdigest()
    REGRESSIONS.mkdir(parents=True, exist_ok=True)
    path = REGRESSIONS / f"{operator.name}.{query.replace(' ', '_')}.{mark}.json"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read_regression(path: Path, operator: Operator) -> tuple[Operator, Schedule, History]:
    """The operator with the query that failed alone, where it was one of its queries."""
    document = json.loads(path.read_text(encoding="utf-8"))
    queries = {name: sql for name, sql in operator.queries.items() if name == document["query"]} or operator.queries
    plan = tuple(
        StepPlan(s["wide"], s["instants"], tuple((tuple(b), tuple(a)) for b, a in s["truncates"]))
        for s in document["schedule"]
    )
    return replace(operator, queries=queries), plan, read_history(document["history"], operator.tables)
