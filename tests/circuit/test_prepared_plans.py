"""Goal: a plan made once and stepped again answers for the step at hand, never with what it remembers.

Method: every operator there is, three steps with changing input in both shapes, through prepared plans and, over
state of its own, through plain DataFrames; both must write the same bytes. A plan that holds anything which remembers
an earlier run must not be reused at all.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from headrace.circuit import prepare
from headrace.circuit.exchange import LIES, PREFIX
from headrace.circuit.node import Node, Shared
from headrace.circuit.operators import OPERATORS
from headrace.circuit.prepare import Prepared
from headrace.circuit.task import Step
from headrace.circuit.written import Written, told
from headrace.engine.compile import Compiler
from headrace.engine.kept import Kept
from headrace.engine.program import Program, assemble
from headrace.engine.step import Stepper
from headrace.log.append import LogWriter
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation
from headrace.model.transaction import DELETE, INSERT, TransactionBatch, TransactionOrigin

pytestmark = pytest.mark.spark

TABLES = {
    "keyed": Relation("keyed", (Column("id", "int", False), Column("k", "int"), Column("s", "string")), ("id",)),
    "loose": Relation("loose", (Column("k", "int"), Column("s", "string"))),
    "grown": Relation("grown", (Column("k", "int"), Column("s", "string")), updates=False, append_only=True),
}
VIEWS = {
    "projected": "SELECT id + 1 AS i, upper(s) AS u FROM keyed WHERE k > 0",
    "exploded": "SELECT id, explode(sequence(0, id)) AS x FROM keyed",
    "spelled_out": "SELECT id, explode(array(id, k)) AS x FROM keyed",
    "rolled_up": "SELECT k, s, count(*) AS n FROM keyed GROUP BY ROLLUP (k, s)",
    "united": "SELECT k FROM keyed UNION ALL SELECT k FROM loose",
    "joined": "SELECT a.id, b.s FROM keyed a JOIN loose b ON a.k = b.k",
    "outer": "SELECT a.id, b.s FROM keyed a LEFT JOIN loose b ON a.k = b.k AND a.s <> b.s",
    "as_of": "SELECT a.id, b.k FROM keyed a LEFT ASOF JOIN loose b MATCH_CONDITION (a.id >= b.k) ON a.s = b.s",
    "missing": "SELECT id FROM keyed a WHERE NOT EXISTS (SELECT 1 FROM loose b WHERE b.k = a.k)",
    "crossed": "SELECT a.id, b.k FROM keyed a CROSS JOIN loose b",
    "ranged": "SELECT a.id, b.s FROM keyed a LEFT JOIN loose b ON a.k < b.k",
    "not_in": "SELECT id FROM keyed WHERE id NOT IN (SELECT k FROM loose)",
    "neither_in": "SELECT id, (k, s) NOT IN (SELECT k, s FROM loose) AS n FROM keyed",
    "valued": "SELECT id, (SELECT s FROM keyed WHERE id = 2) AS v FROM keyed",
    "above": "SELECT id FROM keyed WHERE k >= (SELECT avg(k) FROM loose)",
    "with_constants": "SELECT k FROM keyed UNION ALL SELECT * FROM VALUES (7), (8)",
    "counted": "SELECT k, count(*) AS n, sum(id) AS t FROM keyed GROUP BY k",
    "total": "SELECT count(*) AS n FROM loose",
    "extreme": "SELECT k, max(s) AS m FROM keyed GROUP BY k",
    "extreme_of_all": "SELECT min(s) AS a, max(k) AS b, median(k) AS m FROM loose",
    "distinct_values": "SELECT k, count(DISTINCT s) AS n, sum(id) AS t FROM keyed GROUP BY k",
    "spread": "SELECT s, var_pop(k) AS v, corr(k, k * k) AS c FROM loose GROUP BY s",
    "sessions": """
        SELECT session_window.start AS s, k, count(*) AS n FROM (SELECT timestamp_seconds(id) AS t, k FROM keyed)
        GROUP BY session_window(t, '2 seconds'), k""",
    "sessions_grown": """
        SELECT session_window.end AS e, s, count(*) AS n FROM (SELECT timestamp_seconds(k) AS t, s FROM grown)
        GROUP BY session_window(t, '2 seconds'), s""",
    "listed": "SELECT k, collect_list(s) AS l FROM keyed GROUP BY k",
    "all_listed": "SELECT collect_list(s) AS l FROM loose",
    "numbered": "SELECT id, row_number() OVER (PARTITION BY k ORDER BY s, id) AS r FROM keyed",
    "ranked": "SELECT id, percent_rank() OVER (PARTITION BY k ORDER BY s) AS r FROM keyed",
    "first_ranks": "SELECT k, id FROM keyed QUALIFY rank() OVER (PARTITION BY k ORDER BY s DESC) <= 1",
    "first_grown": "SELECT k, s FROM grown QUALIFY row_number() OVER (PARTITION BY k ORDER BY s DESC) <= 1",
    "most_grown": "SELECT s, max(k) AS m FROM grown GROUP BY s",
    "distinct_grown": "SELECT s, count(DISTINCT k) AS n FROM grown GROUP BY s",
    "first_rows": "SELECT k, s FROM loose ORDER BY s DESC LIMIT 2 OFFSET 1",
    "shared_once": "SELECT n, t FROM (SELECT k, count(*) AS n, max(s) AS t FROM loose GROUP BY k) WHERE n > 1",
    "shared_again": "SELECT n, t FROM (SELECT k, count(*) AS n, max(s) AS t FROM loose GROUP BY k) WHERE t = 'a'",
}
STEPS: tuple[dict[str, list[tuple[int, tuple[Any, ...]]]], ...] = (
    {
        "keyed": [(INSERT, (1, 1, "a")), (INSERT, (2, 1, "b")), (INSERT, (3, None, None))],
        "loose": [(INSERT, (1, "a")), (INSERT, (1, "a")), (INSERT, (2, "c"))],
        "grown": [(INSERT, (1, "a")), (INSERT, (1, "b")), (INSERT, (None, None))],
    },
    {
        "keyed": [(INSERT, (4, 2, "d")), (DELETE, (1, None, None))],
        "loose": [(DELETE, (1, "a"))],
        "grown": [(INSERT, (1, "c")), (INSERT, (2, "a"))],
    },
    {
        "keyed": [(INSERT, (2, 2, "b")), (INSERT, (3, 1, "z"))],
        "loose": [(INSERT, (None, "a")), (DELETE, (2, "c"))],
        "grown": [(INSERT, (1, "d")), (INSERT, (3, "a"))],
    },
)


@dataclass(frozen=True)
class Compiled:
    program: Program
    roots: tuple[Node, ...]


@pytest.fixture(scope="module")
def compiled(spark: Any) -> Compiled:
    definitions = [ViewDefinition(name, sql) for name, sql in VIEWS.items()]
    compilation = Compiler(spark).compile(TABLES, definitions, {})
    assert not compilation.refused
    roots = {v.feed: v.root for v in compilation.views.values()}
    return Compiled(assemble(TABLES, roots), tuple(roots.values()))


def transactions(changes: dict[str, list[tuple[int, tuple[Any, ...]]]]) -> TransactionBatch:
    tables = {}
    for name, entries in changes.items():
        columns = list(zip(*[row for _, row in entries], strict=True))
        types = [pa.string() if c.type == "string" else pa.int32() for c in TABLES[name].columns]
        arrays = [pa.array(values, t) for values, t in zip(columns, types, strict=True)]
        head = [pa.array([0] * len(entries), pa.int32()), pa.array([op for op, _ in entries], pa.int8())]
        tables[name] = pa.table([*head, *arrays], names=["_t", "_op", *TABLES[name].names])
    return TransactionBatch((TransactionOrigin("test", "", 0),), tables)


def test_every_operator_has_a_view_here(compiled: Compiled) -> None:
    nodes = {type(n) for c in compiled.program.circuits if c.root is not None for n in c.root.walk()}
    assert nodes == set(OPERATORS)
    assert any(isinstance(n, Shared) for c in compiled.program.circuits if c.root is not None for n in c.root.walk())


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_prepared_plans_write_what_plain_frames_write(
    spark: Any, compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    log = LogWriter(tmp_path / "log")
    steppers = []
    for name in ("prepared", "plain"):
        kept = Kept(tmp_path / name)
        steppers.append(Stepper(spark, compiled.program, tmp_path / "log", kept, tmp_path / name, 2))
        steppers[-1].frames.deal_all = True
    written: list[list[Any]] = []
    try:
        for number, changes in enumerate(STEPS, 1):
            after = log.end
            log.append(transactions(changes))
            for stepper, remembers in zip(steppers, (None, True), strict=True):
                with monkeypatch.context() as patch:
                    if remembers:
                        patch.setattr(prepare, "_remembers", lambda *_: True)
                    result = stepper.run(number, after, log.end, wide=wide)
                stepper.kept.add(result.runs)
                outputs = [(o.feed, o.rows, o.sums) for o in result.outputs]
                runs = {n: size[:2] for n, size in stepper.kept.size.items()}
                written.append([sorted(outputs), runs])
    finally:
        log.close()
    assert not [*tmp_path.rglob(f"{PREFIX}*")]
    prepared, plain = written[::2], written[1::2]
    for found, expected in zip(prepared, plain, strict=True):
        assert found == expected
    assert all(plan is None or plan.reusable for plan in steppers[0]._prepared.values())
    assert not any(plan is not None and plan.reusable for plan in steppers[1]._prepared.values())
    feeds = [{feed for feed, _, _ in outputs} for outputs, _ in prepared]
    assert {c.name for c in compiled.program.circuits} == set().union(*feeds)
    assert prepared[0] != prepared[1] != prepared[2]


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_a_step_that_was_planned_ahead_plans_nothing_and_writes_the_same(
    spark: Any, compiled: Compiled, tmp_path: Path, wide: bool
) -> None:
    log, made = LogWriter(tmp_path / "log"), []
    log.append(transactions(STEPS[0]))
    written = []
    for ahead in (True, False):
        kept = Kept(tmp_path / f"{ahead}")
        stepper = Stepper(spark, compiled.program, tmp_path / "log", kept, tmp_path / f"{ahead}", 2)
        if ahead:
            stepper.plan_ahead(set(TABLES), wide=wide)
        before = set(stepper._prepared)
        result = stepper.run(1, 0, log.end, wide=wide)
        made.append(set(stepper._prepared) - before)
        written.append(sorted((o.feed, o.rows, o.sums) for o in result.outputs))
    log.close()
    assert (made[0], bool(made[1])) == (set(), True)
    assert written[0] == written[1]


JOIN = "SELECT a.id, b.s, c.k FROM keyed a JOIN loose b ON a.k = b.k LEFT JOIN grown c ON b.s = c.s"
SCANS = "SELECT k, count(*) AS n FROM (SELECT k FROM keyed WHERE id > 1 UNION ALL SELECT k FROM loose) GROUP BY k"
JOINS = (
    "SELECT s, count(*) AS n FROM (SELECT a.id, b.s FROM keyed a JOIN loose b ON a.k = b.k"
    " UNION ALL SELECT a.id, g.s FROM keyed a JOIN grown g ON a.s = g.s) WHERE id > 1 GROUP BY s"
)


RANGED = "SELECT a.id, b.s FROM keyed a LEFT JOIN loose b ON a.k < b.k"


@pytest.mark.parametrize(
    ("sql", "leaves", "exchanges"),
    [(JOIN, 3, 3), (RANGED, 2, 2), (SCANS, 1, 2), (JOINS, 4, 4)],
    ids=["joins", "a join by a range", "a union", "a union of joins"],
)
def test_spark_carries_where_rows_lie_that_are_dealt_out_and_none_of_them(
    spark: Any, tmp_path: Path, sql: str, leaves: int, exchanges: int
) -> None:
    """Neither of a join, nor between two of them, nor of a union. A view's own rows are dealt out too."""
    (view,) = Compiler(spark).compile(TABLES, [ViewDefinition("v", sql)], {}).views.values()
    LogWriter(tmp_path / "log").close()
    program = assemble(TABLES, {view.feed: view.root})
    frames = Stepper(spark, program, tmp_path / "log", Kept(tmp_path / "kept"), tmp_path / "kept", 2).frames
    frame = frames.build(program.circuits[-1], wide=True).frame
    taken = re.findall(r"MapInArrow Handed\((.*?)\)", re.sub(r"#\d+L?", "", _optimized(frame)))
    lie = ", ".join(name for name, _ in LIES)
    assert sorted(taken) == ["id"] * leaves + [lie] * exchanges


def _optimized(frame: Any) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def described(folder: Path) -> Path:
    """A description for plans that read nothing of it."""
    path = folder / "step.json"
    Step("", [], 0, 0, "one", {}, {}, False, str(folder)).write(path)
    return path


@pytest.mark.parametrize(
    "sql",
    [
        "select 'c' circuit, 'p' path, id rows, string((select max(id) from range(3))) sums from range(1)",
        "select /*+ BROADCAST(b) */ 'c' circuit, 'p' path, a.id rows, string(b.id + 2) sums from range(1) a"
        " join range(1) b on a.id = b.id",
    ],
    ids=["a value from a sub-query", "a broadcast"],
)
def test_a_plan_that_remembers_is_run_as_a_plain_frame(spark: Any, tmp_path: Path, sql: str) -> None:
    heeding = spark.newSession()
    heeding.conf.set("spark.sql.optimizer.disableHints", "false")
    prepared = Prepared(heeding.sql(sql).selectExpr("to_json(array(struct(*))) AS written"))
    assert not prepared.reusable
    assert prepared.run(described(tmp_path)) == [Written("c", "p", 0, "2")]


def test_no_java_is_made_for_a_range_that_only_begins_tasks(spark: Any, tmp_path: Path) -> None:
    """It would take a JVM that has just begun up to a second. What Spark computes of a range is compiled as ever."""

    def counted(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            yield told([Written("c", "p", sum(batch["id"].to_pylist()), "")])

    plain, computed = spark.range(0, 3, 1, 2), spark.range(5, 7, 1, 1).selectExpr("id * 2 AS id")
    exchanged = spark.range(4, 6, 1, 1).repartition(2)
    frames = [f.mapInArrow(counted, "written string") for f in (plain, computed, exchanged.coalesce(1))]
    prepared = Prepared(frames[0].unionAll(frames[1]).unionAll(frames[2]))
    nodes = re.sub(r"#\d+L?", "", prepared.plan.treeString()).splitlines()
    ranges = [node.strip(" :+-") for node in nodes if "Range (" in node]
    assert ranges == [
        "Range (0, 3, step=1, splits=2)",
        "*(2) Range (5, 7, step=1, splits=1)",
        "Range (4, 6, step=1, splits=1)",
    ]
    for _ in range(2):
        assert sorted(w.rows for w in prepared.run(described(tmp_path))) == [0, 3, 9, 22]


@pytest.mark.parametrize(("bounded", "batches"), [(True, [1, 1, 1]), (False, [3])], ids=["long rows", "short rows"])
def test_batches_of_long_rows_end_before_they_fill_the_memory(
    spark: Any, tmp_path: Path, bounded: bool, batches: list[int]
) -> None:
    def sizes(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            yield told([Written("grün", "p", batch.num_rows, "")])

    long = spark.range(0, 3, 1, 1).select(F.expr(f"repeat(string(id), {100 << 20}) AS s"))
    prepared = Prepared(long.mapInArrow(sizes, "written string"))
    assert prepared.run(described(tmp_path), bounded=bounded) == [Written("grün", "p", rows, "") for rows in batches]


def test_a_step_knows_of_long_rows(spark: Any, compiled: Compiled, tmp_path: Path) -> None:
    """By the log when they come, later by what is kept: a short row may be joined with a long one."""
    log = LogWriter(tmp_path / "log")
    stepper = Stepper(spark, compiled.program, tmp_path / "log", Kept(tmp_path / "kept"), tmp_path / "kept", 2)
    told = []
    try:
        for number, text in enumerate(["short", "long" * (1 << 18), "short"]):
            log.append(transactions({"keyed": [(INSERT, (number, number, text))]}))
            told.append(stepper.bounded(stepper.reader.refs(log.end - 1, log.end)))
            stepper.kept.add(stepper.run(number + 1, log.end - 1, log.end, wide=False).runs)
    finally:
        log.close()
    assert told == [False, True, True]


def test_a_cached_frame_is_not_reused(spark: Any) -> None:
    cached = spark.sql("select 'c' circuit, 'p' path, id rows, id sums from range(2)").cache()
    try:
        assert not Prepared(cached.filter("rows > 0")).reusable
    finally:
        cached.unpersist()


@pytest.mark.parametrize("twice", [False, True], ids=["prepared", "planned anew"])
def test_what_an_exchange_wrote_is_gone_after_its_step(
    spark: Any, spark_local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twice: bool
) -> None:
    """Not minutes later: what the first contents of large views exchange would fill a disk."""
    dealt = spark.range(0, 20, 1, 2).repartition(3, "id")
    if twice:
        dealt = dealt.join(spark.sql("SELECT max(id) AS most FROM range(30)").hint("broadcast"), F.expr("id < most"))
    prepared = Prepared(dealt.selectExpr("to_json(array(struct('c' circuit, 'p' path, id rows, 's' sums))) AS written"))
    assert prepared.reusable == (not twice)
    before = set(spark_local.rglob("shuffle_*"))
    sizes: list[int] = []
    discard = Prepared._discard

    def look(self: Prepared, *given: Any) -> None:
        sizes.append(len(set(spark_local.rglob("shuffle_*")) - before))
        discard(self, *given)

    monkeypatch.setattr(Prepared, "_discard", look)
    for number in (1, 2):
        assert {file.rows for file in prepared.run(described(tmp_path))} == set(range(20))
        assert len(sizes) == number and sizes[-1] > 0
        end = time.monotonic() + 20
        while set(spark_local.rglob("shuffle_*")) - before:
            assert time.monotonic() < end
            time.sleep(0.02)
