"""Law 1 on the user's own data: every view against the same SQL by Spark batch over the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.catalog.store import ViewRecord
from headrace.engine.batch import Batch, compare
from headrace.engine.clock import shown
from headrace.engine.compile import Compiled
from headrace.engine.functions import functions_of
from headrace.model.clock import CLOCK
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

    def held() -> tuple[int, Found, list[Compiled], Lacking, dict[str, Relation], int | None]:
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
        return pipeline.maintainer.frontier, found, chosen, aside, tables, shown(pipeline.maintainer.kept)

    results = []
    with pipeline.batch_lock, pipeline.log.held():
        commit, found, chosen, aside, tables, now_us = pipeline.on_engine(held)
        batch = Batch(pipeline.spark, now_us, functions_of(pipeline.project))
        read = {name for compiled in chosen for name in compiled.reads}
        try:
            batch.over_log(pipeline.folder / "log", tables, commit)
            for compiled in chosen:
                name = compiled.schema.name
                lacks = aside.get(name, {})
                batch.define(name, compiled.definition.sql, compiled.schema.columns, read=name in read, without=lacks)
            for done, (name, (record, rows)) in enumerate(found.items()):
                if on_progress is not None:
                    on_progress({"text": f"verifying {name}", "done": done, "total": len(found)})
                began = time.monotonic()
                result = compare(batch.contents(name), rows, record)
                results.append({**result, "seconds": round(time.monotonic() - began, 3)})
        finally:
            batch.close()
    return {"commit": commit, "views": results, "differences": sum(r["differences"] for r in results)}
