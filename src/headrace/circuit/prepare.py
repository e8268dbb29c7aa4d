"""A plan made once and stepped many times: all use of Spark's internals for that lives here.

Planning costs more than running a small step. ``executedPlan.clone().execute()`` runs a plan again without
planning, as long as nothing in it remembers an earlier run: a plan that holds such a node is run as a plain
DataFrame instead. Of a plan without an exchange the RDD itself runs again: to make a view's anew takes 10 ms a step,
most of it to look into the byte code of Spark's closures. All three give the same rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import is_
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from headrace.circuit.clocked import spark_job
from headrace.circuit.handed import handed_schema
from headrace.circuit.task import PROPERTY
from headrace.circuit.written import Written, read

REMEMBERS = frozenset({"ReusedExchangeExec", "ReusedSubqueryExec", "SubqueryExec", "SubqueryBroadcastExec",
                       "BroadcastExchangeExec", "AdaptiveSparkPlanExec", "InMemoryTableScanExec"})  # fmt: skip
# How those nodes are written in a plan's text, to pass over the others quickly.
SUSPECTS = ("Reused", "ubquery", "Broadcast", "Adaptive", "InMemory", "dynamicpruning")
# A task takes its settings from its job's properties, not from the session. Where this one is no bound, Spark does not
# ask for a batch's size after each row that it writes into it: a third of the JVM's time.
BATCH_BYTES, UNBOUNDED = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)
REMEMBERS_EXPRESSION = frozenset({"ScalarSubquery", "InSubqueryExec", "DynamicPruningExpression"})


@contextmanager
def starting_workers(spark: SparkSession, tasks: int) -> Iterator[None]:
    """Around work meanwhile: at its end so many Python workers are there, and Spark has loaded what a stage needs.

    Their daemon imports for a second; the first step, where there is one meanwhile, waits for it.
    """

    def start() -> None:
        with suppress(Py4JError, OSError):  # the first step will tell
            numbers = spark.range(0, tasks, 1, tasks)
            frame = numbers.mapInArrow(lambda batches: batches, handed_schema([("id", "bigint")]))
            _executed(frame).executeCollect()  # the workers of Spark's own ``collect`` have another environment

    thread = threading.Thread(target=start, name="headrace-workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def in_session(spark: SparkSession) -> None:
    """Plans that this thread makes are of this session: a plan node takes the session of the thread that makes it."""
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


class Prepared:
    """A circuit's plan, planned once. ``frame`` must have the columns of ``written``."""

    def __init__(self, frame: DataFrame) -> None:
        self.context = frame.sparkSession.sparkContext
        self.frame = frame
        self.session: Any = frame.sparkSession._jsparkSession
        self.sessions: Any = self.context._jvm.org.apache.spark.sql.classic.SparkSession
        plan = _executed(frame)
        self.reusable = not _remembers(self.context._jvm, plan)
        self.plan = plan
        # "+-" leads to a shuffle, whose files of an earlier step a later one would read.
        self.same_rdd = self.reusable and "+-" not in plan.execute().toDebugString()
        self.exchanges = [] if self.same_rdd else list(_exchanges(self.context._jvm, plan))

    def run(self, description: Path, *, bounded: bool = True) -> list[Written]:
        """Run the plan for the step so described; the files it wrote.

        ``bounded``: an Arrow batch ends before it has Spark's bound of bytes too, not by the number of its rows alone.
        """
        self.context.setLocalProperty(PROPERTY, str(description))
        self.context.setLocalProperty(BATCH_BYTES, None if bounded else UNBOUNDED)
        with spark_job(self.context, description.parent):
            return [file for text in self._texts() for file in read(text)]

    def _texts(self) -> list[str]:
        if not self.reusable:
            # Planned anew: a frame collected twice answers from the shuffle files of the first time.
            anew = self.frame.select("*")
            plan = anew._jdf.queryExecution().executedPlan()
            try:
                return [row[0] for row in anew.collect()]
            finally:
                self._discard(plan, _exchanges(self.context._jvm, plan))
        # A plan node takes the session of the thread that makes it, and clone() makes nodes.
        self.sessions.setActiveSession(self.session)
        plan = self.plan if self.same_rdd else self.plan.clone()
        try:
            rows = plan.executeCollect()
            return [str(rows[i].getString(0)) for i in range(len(rows))]
        finally:
            self._discard(plan, self.exchanges)

    def _discard(self, plan: Any, exchanges: Iterable[tuple[int, ...]]) -> None:
        """Delete what the plan's exchanges wrote: Spark would when its garbage collector next passes by, after minutes
        in which the first contents of large views fill a disk."""
        for path in exchanges:
            with suppress(Py4JError, OSError, AttributeError):  # Spark has ended, or no task has begun
                node = plan
                for child in path:
                    node = node.children().apply(child)
                written = self.context._jsc.sc().shuffleDriverComponents()
                written.removeShuffle(node.shuffleDependency().shuffleId(), False)


def _executed(frame: DataFrame) -> Any:
    """The frame's physical plan. A range in it, of a number a task, is run as it is: Spark would write Java for it and
    compile that, which takes a JVM that has just begun up to a second."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    if "Range (" not in plan.treeString():
        return plan
    in_session(frame.sparkSession)
    return _with_plain_ranges(frame.sparkSession.sparkContext._jvm, plan)


def _with_plain_ranges(jvm: Any, plan: Any) -> Any:
    below = _items(jvm, plan.children())
    if [_kind(plan), *map(_kind, below)] == ["WholeStageCodegenExec", "RangeExec"]:
        return below[0]
    made = [_with_plain_ranges(jvm, child) for child in below]
    return plan if all(map(is_, made, below)) else plan.withNewChildren(jvm.PythonUtils.toSeq(made))


def _kind(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name


def _remembers(jvm: Any, plan: Any) -> bool:
    """Whether a node or expression of the plan keeps something of an earlier run; one look at its text tells."""
    text = plan.treeString()
    if not any(name in text for name in SUSPECTS):
        return False
    return _any_node(jvm, plan)


def _any_node(jvm: Any, plan: Any) -> bool:
    if _kind(plan) in REMEMBERS:
        return True
    if any(_any_expression(jvm, e) for e in _items(jvm, plan.expressions())):
        return True
    return any(_any_node(jvm, child) for child in _items(jvm, plan.children()))


def _exchanges(jvm: Any, plan: Any) -> Iterator[tuple[int, ...]]:
    """Where in the plan its exchanges are: which child, and of that which, and so on."""
    if _kind(plan) == "ShuffleExchangeExec":
        yield ()
    for number, child in enumerate(_items(jvm, plan.children())):
        for path in _exchanges(jvm, child):
            yield (number, *path)


def _any_expression(jvm: Any, expression: Any) -> bool:
    if _kind(expression) in REMEMBERS_EXPRESSION:
        return True
    return any(_any_expression(jvm, child) for child in _items(jvm, expression.children()))


def _items(jvm: Any, seq: Any) -> list[Any]:
    java = jvm.scala.jdk.javaapi.CollectionConverters.asJava(seq)
    return [java.get(i) for i in range(java.size())]
