"""A view as of a commit at which nothing that was published tells what it held: its query over the log up to there.

The query is the view's present one, and so are those of the views that it reads; the data, and the clock, are those of
then. Exact or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.catalog.aside import AsideRow
from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.engine import aside
from headrace.engine.altered import told
from headrace.engine.batch import Batch, table_contents, weighted
from headrace.engine.clock import tick_at
from headrace.engine.failures import message
from headrace.engine.functions import functions_of
from headrace.log.read import LogReader, removed
from headrace.model.altered import WHOLE
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation, ViewSchema
from headrace.sql.admit import admit
from headrace.sql.present import literal
from headrace.sql.user_functions import UserFunctions

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """``rows``: the view's columns and ``_w``. ``clock_us``: the time of its clock then, in microseconds since the
    epoch; None where its query does not ask for the time."""

    schema: ViewSchema
    rows: pa.Table
    clock_us: int | None


@dataclass(frozen=True, slots=True)
class Definitions:
    """What the catalogue knows of tables and views, at one moment."""

    tables: Mapping[str, Relation]
    views: Mapping[str, ViewRecord]
    aside: Sequence[AsideRow]
    steps: Sequence[StepRecord]

    @classmethod
    def of(cls, catalog: Catalog) -> Definitions:
        tables = {name: relation for name, (_, relation) in catalog.relations().items()}
        return cls(tables, catalog.views(), catalog.aside_rows(), catalog.steps())


def running(pipeline: Pipeline, view: str, commit: int, on_progress: Progress) -> Recomputed:
    """Beside the steps of a pipeline at work, which go on meanwhile."""
    with pipeline.batch_lock, pipeline.log.held():
        known = pipeline.on_engine(lambda: Definitions.of(pipeline.catalog))
        functions = functions_of(pipeline.project)
        return recompute(pipeline.spark, functions, pipeline.folder / "log", known, view, commit, on_progress)


def recompute(
    spark: SparkSession, functions: UserFunctions, log: Path, known: Definitions, view: str, commit: int,
    on_progress: Progress = lambda event: None,
) -> Recomputed:  # fmt: skip
    """A view as of ``commit``, which the log has.

    Raises ``log.retained`` for a commit before the log's beginning, and ``view.not_at`` where the clock had no time
    yet, a table was another one then, or a query throws on the data of then.
    """
    reader = LogReader(log)
    if commit < reader.base.commit:
        raise removed(reader.base, commit)
    batch = Batch(spark, functions=functions)
    clock = _Clock(batch, reader, view, commit)
    batch.present = clock.present
    try:
        order = _order(batch, known, view)
        for name in order:
            if name in known.tables:
                on_progress({"text": f"computing {view} as of commit {commit:,}: {name}"})
                relation = _as_then(reader, known.tables[name], view, commit)
                batch.register(name, batch.hold(table_contents(batch.spark, log, relation, commit)), relation.columns)
            else:
                on_progress({"text": f"computing {view} as of commit {commit:,}"})
                record = known.views[name]
                lacks = _lacking(known, record, commit)
                batch.define(name, record.sql, record.schema.columns, read=name != view, without=lacks)
        schema = known.views[view].schema
        return Recomputed(schema, weighted(batch.contents(view), schema), clock.shown_us)
    except HeadraceError:
        raise
    except Exception as error:  # Spark's have no common base: a query's own failure comes as one of several
        raise HeadraceError(
            "view.not_at", f"view {view} has no contents as of commit {commit:,}",
            why=f"its query of today throws on the data of then: {message(error)}",
            next="ask for another commit; `headrace log cat` shows what each one changed",
        ) from error  # fmt: skip
    finally:
        batch.close()


def _as_then(reader: LogReader, table: Relation, view: str, commit: int) -> Relation:
    """The table without the columns that it had lost as of a commit; ``view.not_at`` where it was another one then.

    What is copied anew has other columns, types or another key than the changes before it, which would be misread.
    """
    lost = dict[str, int]()
    for at, name, column, _ in told(reader, reader.refs(0, reader.end), 0, reader.end):
        if name != table.name:
            continue
        if at <= commit:
            lost = {**lost, column: at} if column else {}
        elif not column:
            raise _another(view, commit, f"its table {name} was altered, and copied anew at commit {at:,}", at)
    if WHOLE in lost:
        raise _another(
            view, commit, f"its table {table.name} could not be followed from commit {lost[WHOLE]:,} on", None
        )
    return replace(table, columns=tuple(column for column in table.columns if column.name not in lost))


def _another(view: str, commit: int, why: str, later: int | None) -> HeadraceError:
    return HeadraceError(
        "view.not_at", f"view {view} has no contents as of commit {commit:,}", why=why,
        next="ask for another commit" if later is None else f"ask as of commit {later:,} or later",
    )  # fmt: skip


class _Clock:
    """The present time for queries over the log up to a commit: that of the last tick; looked for when one asks."""

    def __init__(self, batch: Batch, reader: LogReader, view: str, commit: int) -> None:
        self.batch, self.reader, self.view, self.commit = batch, reader, view, commit
        self.shown_us: int | None = None

    def present(self) -> Any:
        if self.shown_us is None:
            self.shown_us = tick_at(self.reader, self.commit)
        if self.shown_us is None:
            raise HeadraceError(
                "view.not_at", f"view {self.view} has no contents as of commit {self.commit:,}",
                why="it depends on the time, and the log has no tick of the clock up to there",
                next="ask for a later commit; ticks are in the log since a view first asked for the time",
            )  # fmt: skip
        return literal(self.batch.catalyst, self.shown_us)


def _order(batch: Batch, known: Definitions, view: str) -> list[str]:
    """The tables and views that a view is made of, each after those that it reads; the view itself last."""
    names = [*known.tables, *known.views]
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name not in known.tables:
            for read in admit(batch.catalyst, known.views[name].sql, names, f"view {name}").relations:
                visit(read)
        order.append(name)

    visit(view)
    return order


def _lacking(known: Definitions, record: ViewRecord, commit: int) -> dict[str, pa.Table]:
    """Relation -> the rows that a view had set aside then; before it was made, those that it lacks today."""
    taken = next((step.number for step in known.steps if step.after < commit <= step.upto), None)

    def lacked(row: AsideRow) -> bool:
        if commit < record.created_commit:
            return row.until is None
        if taken is None:
            return row.commit <= commit
        return row.since <= taken and (row.until is None or taken <= row.until)

    version = (record.schema.name, record.schema.version)
    return aside.by_relation(row for row in known.aside if (row.view, row.version) == version and lacked(row))
