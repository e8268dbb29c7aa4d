"""Sources that take nothing in while a view fails that says so: `-- on_error: stop_source`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

STOP_SOURCE = "stop_source"


def hold(pipeline: Pipeline) -> None:
    """Stop the sources of the rows that such views fail on, and let the others go on. On the engine's thread."""
    stopped = dict(_stopped(pipeline))
    for name, ingest in list(pipeline.ingests.items()):
        ingest.held = stopped.get(name)


def _stopped(pipeline: Pipeline) -> Iterator[tuple[str, HeadraceError]]:
    failures = pipeline.maintainer.failures
    views = [d.name for d in pipeline.project.views if d.on_error == STOP_SOURCE and d.name in failures.known]
    owners = {t: source for t, (source, _) in pipeline.catalog.relations().items()} if views else {}
    for name in views:
        reason = failures.reason(name)
        error = HeadraceError(
            "view.failed", f"nothing is taken in while view {name} fails", where=f"views/{name}.sql", why=reason,
            next="edit the view, or the line `-- on_error: stop_source` that it begins with, then `headrace apply`",
        )  # fmt: skip
        for table in _tables(pipeline, name):
            if table in owners:
                yield owners[table], error


def _tables(pipeline: Pipeline, view: str) -> set[str]:
    """Those of the rows that it fails on; all that it reads, through other views too, where these are not known."""
    failed = pipeline.maintainer.failures.known[view]
    named = {row.feed for row in failed.rows if row.content and row.feed in failed.compiled.reads}
    if named:
        return named
    known = {**pipeline.maintainer.views, **{n: f.compiled for n, f in pipeline.maintainer.failures.known.items()}}
    found = {view}
    while more := {name for of in found & known.keys() for name in known[of].reads} - found:
        found |= more
    return found
