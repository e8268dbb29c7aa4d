"""One SELECT over tables and views, run by Spark batch at the present frontier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.engine.batch import Batch, kept_rows, table_contents
from headrace.engine.functions import functions_of
from headrace.model import bounds
from headrace.model.bounds import Deadline, within
from headrace.model.definition import Project
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.sql.admit import admit, check_analyzed
from headrace.sql.errors import analysis_error

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


LIMIT_MAX = 1 << 30  # of Spark's, where an offset is still to be added


@dataclass(frozen=True, slots=True)
class Found:
    """``more``: whether there are rows beyond; ``stale``: why a view that was read stays behind the commit, by its
    name."""

    commit: int
    rows: pa.Table
    more: bool
    stale: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Read:
    """A relation as of a query's commit. ``files``: its rows; a table without any has them in the ``log`` alone."""

    name: str
    columns: Sequence[Column]
    files: Sequence[str]
    table: Relation | None
    log: Path
    commit: int

    def offer(self, batch: Batch) -> None:
        if self.table is not None and not self.files:
            frame = table_contents(batch.spark, self.log, self.table, self.commit)
        else:
            frame = kept_rows(batch.spark, self.files, self.columns)
        batch.register(self.name, frame, self.columns)


def query(
    pipeline: Pipeline, text: str, seconds: float | None = None, still_wanted: Callable[[], bool] = lambda: True,
    limit: int | None = None,
) -> Found:  # fmt: skip
    """What it gives, all of one commit, at most ``limit`` rows. See ``bounds.within`` and ``enclosed``.

    Raises what is wrong with it: sql.syntax, sql.refused, sql.unknown_relation, query.bounds, query.timeout, ...
    """
    allowed = within(seconds, pipeline.project.settings.query_seconds, "seconds")
    asking, project = pipeline.asking, pipeline.project
    asking.begin()  # which takes no time of the query
    deadline = Deadline.after(allowed)
    names = [*pipeline.catalog.relations(), *pipeline.catalog.views()]
    with asking.turn(deadline):
        wanted = asking.do(relations, project, text, names, deadline=deadline, still_wanted=still_wanted)
        with pipeline.log.held():  # where rows of tables lie that are pinned
            (ticket, commit, files), tables, views = pipeline.on_engine(
                lambda: (
                    pipeline.maintainer.pin(wanted), pipeline.catalog.relations(), pipeline.catalog.views(),
                )
            )  # fmt: skip
            try:
                reads, stale = list[Read](), dict[str, str]()
                for name in wanted:
                    if name not in tables and name not in views:
                        raise HeadraceError(
                            "sql.unknown_relation", f"the view or table '{name}' was dropped", next="ask again"
                        )
                    table = tables[name][1] if name in tables else None
                    columns = views[name].schema.columns if table is None else table.columns
                    reads.append(Read(name, columns, files[name], table, pipeline.folder / "log", commit))
                    if table is None and views[name].state != "live":
                        stale[name] = views[name].reason
                rows, more = asking.do(
                    answered, project, text, reads, limit, deadline=deadline, still_wanted=still_wanted
                )
                return Found(commit, rows, more, stale)
            finally:
                pipeline.maintainer.unpin(ticket)


def relations(spark: SparkSession, project: Project, text: str, names: Sequence[str]) -> list[str]:
    """Those of the names that an admitted SELECT reads."""
    return list(admit(Batch(spark, functions=functions_of(project)).catalyst, text, names).relations)


def answered(
    spark: SparkSession, project: Project, text: str, reads: Sequence[Read], limit: int | None
) -> tuple[pa.Table, bool]:
    """Its rows, at most ``limit``, and whether there are more."""
    batch = Batch(spark, functions=functions_of(project))
    try:
        for read in reads:
            read.offer(batch)
        analyzed: Any = batch.spark.sql(text)
        check_analyzed(batch.catalyst, analyzed._jdf.queryExecution().analyzed())
        rows = batch.run(text, limit + 1 if limit is not None and limit < LIMIT_MAX else None)
    except HeadraceError:
        raise
    except Exception as error:
        if "OutOfMemoryError" in str(error):
            raise bounds.memory("it found no room in a heap of `driver_memory`") from error
        raise analysis_error(error, "") from error
    return rows.slice(0, limit), limit is not None and rows.num_rows > limit
