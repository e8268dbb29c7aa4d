"""A view dropped: here, and in every sink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.engine.swap import swap
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


def drop(pipeline: Pipeline, view: str) -> dict[str, Any]:
    """``{"dropped", "version"}``. On the engine's thread.

    Raises ``HeadraceError``: view.unknown, view.has_readers.
    """
    maintainer = pipeline.maintainer
    record = snapshot.known(pipeline.catalog, view)
    failed = {n: f.compiled for n, f in maintainer.failures.known.items()}
    readers = sorted(n for n, c in {**maintainer.views, **failed}.items() if view in c.reads)
    if readers:
        raise HeadraceError(
            "view.has_readers", f"view {view} is read by {', '.join(readers)}",
            where=", ".join(f"views/{reader}.sql" for reader in readers), why="what they read would be gone",
            next=f"`headrace drop {readers[0]}` first",
        )  # fmt: skip
    rest = {n: c for n, c in maintainer.views.items() if n != view}
    used = {t: r for t, r in maintainer.tables.items() if any(t in c.reads for c in rest.values())}
    swap(maintainer, used, rest, {view})
    left = tuple(definition for definition in pipeline.project.views if definition.name != view)
    pipeline.project = replace(pipeline.project, views=left)  # what is taken again by itself takes it no more
    pipeline.refused = {n: e for n, e in pipeline.refused.items() if n != view}  # an edit of it may have been
    for deliver in pipeline.delivers.values():
        deliver.wake()
    return {"dropped": view, "version": record.schema.version}
