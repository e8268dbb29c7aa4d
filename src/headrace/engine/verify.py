"""Law 1 on the user's own data: every view against the same SQL by Spark batch over the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkContext

from headrace.catalog.store import ViewRecord
from headrace.circuit.build import TABLE
from headrace.engine.batch import Batch, compare
from headrace.engine.clock import shown
from headrace.engine.compile import Compiled
from headrace.engine.functions import functions_of
from headrace.engine.told_jobs import telling
from headrace.model.clock import CLOCK
from headrace.model.pace import Pace
from headrace.model.schema import Relation
from headrace.serve import snapshot

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

Found = dict[str, tuple[ViewRecord, pa.Table]]  # view -> its record and its rows
Lacking = dict[str, dict[str, pa.Table]]  # view -> relation -> rows that it has set aside


def verify(
    pipeline: Pipeline, views: list[str] | None, on_progress: Callable[[dict[str, Any]], None] | None
) -> dict[str, Any]:
    """Law 1 now: every view against the same SQL by Spark batch over the log, at one frontier."""

    def held() -> tuple[int, Found, list[Compiled], Lacking, dict[str, Relation], int | None, dict[str, int]]:
        chosen = list(pipeline.maintainer.views.values())
        records = pipeline.catalog.views()
        found = {
            c.schema.name: (
                records[c.schema.name],
                snapshot.read(pipeline.catalog, records[c.schema.name], pipeline.maintainer.number)[1],
            )
            for c in chosen
            if views is None or c.schema.name in views
        }
        tables = {n: r for n, r in pipeline.maintainer.tables.items() if n != CLOCK.name}
        aside = {c.schema.name: pipeline.maintainer.aside.of(c.schema.name) for c in chosen}
        kept = pipeline.maintainer.kept
        rows = {name: sum(run.rows for run in kept.runs.get(TABLE + name, [])) for name in tables}
        return pipeline.maintainer.frontier, found, chosen, aside, tables, shown(kept), rows

    results = []
    with pipeline.batch_lock, pipeline.log.held():
        commit, found, chosen, aside, tables, now_us, over = pipeline.on_engine(held)
        over |= {name: rows.num_rows for name, (_, rows) in found.items()}
        work = {c.schema.name: sum(over.get(name, 0) for name in (*c.reads, c.schema.name)) for c in chosen}
        told = Told(on_progress, {name: work[name] for name in found})
        batch = Batch(pipeline.spark, now_us, functions_of(pipeline.project))
        read = {name for compiled in chosen for name in compiled.reads}
        try:
            batch.over_log(pipeline.folder / "log", tables, commit)
            for compiled in chosen:
                name = compiled.schema.name
                lacks = aside.get(name, {})
                batch.define(name, compiled.definition.sql, compiled.schema.columns, read=name in read, without=lacks)
            for name, (record, rows) in found.items():
                began = time.monotonic()
                with told.view(batch.spark.sparkContext, name):
                    result = compare(batch.contents(name), rows, record)
                results.append({**result, "seconds": round(time.monotonic() - began, 3)})
        finally:
            batch.close()
    return {"commit": commit, "views": results, "differences": sum(r["differences"] for r in results)}


class Told:
    """How far it is, in rows that views read and hold."""

    def __init__(self, on_progress: Callable[[dict[str, Any]], None] | None, work: Mapping[str, int]) -> None:
        self._on_progress, self._work = on_progress, work
        self._views, self._pace = 0, Pace(sum(work.values()))

    @contextmanager
    def view(self, context: SparkContext, name: str) -> Iterator[None]:
        """The block verifies this view; what Spark has done of it is taken for so much of its rows."""
        self._views += 1
        before, text = self._pace.done, f"verifying {name}, {self._views} of {len(self._work)}, over rows"

        def tell(share: float) -> None:
            self._pace.done = before + int(share * self._work[name])
            if self._on_progress is not None:
                self._on_progress({"text": text, **self._pace.shown()})

        tell(0.0)
        with telling(context, tell):
            yield
        self._pace.done = before + self._work[name]
