"""What a user does with the quarantine of a project at work; no Spark is needed for any of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalog.quarantine import SetAside
from headrace.catalog.store import Catalog
from headrace.serve import quarantine
from headrace.serve.quarantine import FOLDER, Chosen
from headrace.serve.snapshot import STATE

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


class Quarantined:
    """The quarantine of a pipeline, as ``Pipeline.quarantine``; from any thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def entries(self, table: str | None = None) -> list[dict[str, Any]]:
        """``{"id", "table", "commit", "operation", "reason", "row"}`` of each change, oldest first of each table."""
        return quarantine.entries(self._pipeline.project.path, table, None)[0]

    def drop(self, *ids: str, table: str | None = None, upto: int | None = None) -> int:
        """These changes, or all of a table, or (with neither) all there are leave the quarantine; how many.

        ``upto``: only those of commits up to that one. Raises ``HeadraceError``: quarantine.unknown, source.no_table.
        """
        catalog, wanted = self._pipeline.catalog, Chosen(ids, table, upto)
        return self._pipeline.on_engine(lambda: drop(catalog, self._pipeline.project.path, wanted))

    def begin(self) -> None:
        """At a start: what a crash has left half done."""
        sweep(self._pipeline.folder / FOLDER, self._pipeline.catalog)


def drop(catalog: Catalog, project_path: Path, wanted: Chosen) -> int:
    """The same for whoever has the project's lock."""
    found = quarantine.chosen(catalog, wanted)
    with catalog.transaction():
        for table, changes in found:
            catalog.settle(quarantine.named(table, changes), time.time_ns() // 1000)
        recount(catalog, {table for table, _ in found})
    sweep(project_path / STATE / FOLDER, catalog)
    return sum(changes.num_rows for _, changes in found)


def recount(catalog: Catalog, tables: Iterable[str]) -> None:
    """Some changes of these tables have left: how many of each file are still there."""
    files = [entry for entry in catalog.set_aside() if entry.relation in tables]
    catalog.put_set_aside(
        SetAside(entry.relation, entry.step, entry.path, changes.num_rows)
        for entry, changes in quarantine.there(catalog, files)
    )


def sweep(folder: Path, catalog: Catalog) -> None:
    """Remove the files of the quarantine that the catalogue does not name."""
    named = {entry.path for entry in catalog.set_aside()}
    for path in folder.glob("*.arrow"):
        if str(path) not in named:
            path.unlink()
