"""Removing what was made for a project, while nothing runs it: at a source, in the sinks, in .headrace."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from headrace.catalog import place
from headrace.catalog.document import did_you_mean
from headrace.catalog.project import STATE, read
from headrace.catalog.store import ANEW, Catalog
from headrace.control import lock, socket
from headrace.engine import connectors
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot


def drop_source(path: Path, name: str) -> dict[str, Any]:
    """``{"source"}``: what was made at that source is gone (a replication slot, a publication).

    A source that copies its tables begins anew when it is started again: the copy takes the place of what was there.

    Raises ``config.invalid`` for a source that is not defined, ``project.locked`` while the project runs,
    ``project.copied`` where what was made is another folder's, and the source's own errors when it cannot be reached or
    refuses.
    """
    project = read(path)
    definition = next((source for source in project.sources if source.name == name), None)
    if definition is None:
        names = [source.name for source in project.sources]
        raise HeadraceError(
            "config.invalid",
            f"there is no source '{name}'",
            where=str(path / "sources"),
            next=did_you_mean(name, names) or f"sources: {', '.join(names) or 'none'}",
        )
    _stopped(path)
    place.check(path)
    with lock.hold(path, "headrace drop"):
        source = connectors.make_source(definition, project)
        source.drop()
        if source.copies and snapshot.catalog_path(path).exists():
            catalog = Catalog(snapshot.catalog_path(path), any_state=True)
            catalog.set_meta(ANEW + name, "yes")
            catalog.close()
    return {"source": name}


def drop_all(path: Path) -> dict[str, Any]:
    """``{"sources", "sinks"}``: whose objects are gone; then the log and the state went too. Definitions stay.

    The log goes last and only when all else has gone: it is what the rest could be made from again. So a sink
    that cannot be reached leaves everything to be dropped again later. Raises ``project.copied`` as above.
    """
    project = read(path)
    _stopped(path)
    place.check(path)
    with lock.hold(path, "headrace drop"):
        for sink in project.sinks:
            store = connectors.make_sink(sink, project)
            try:
                store.drop()
            finally:
                store.close()
        for source in project.sources:
            connectors.make_source(source, project).drop()
        for kept in sorted((path / STATE).iterdir()):
            if kept.name == lock.FILE.name:
                continue  # we hold it, and who waits for it must find the same file
            if kept.is_dir() and not kept.is_symlink():
                shutil.rmtree(kept)
            else:
                kept.unlink()
    return {"sources": [source.name for source in project.sources], "sinks": [sink.name for sink in project.sinks]}


def _stopped(path: Path) -> None:
    if socket.running(path):
        raise HeadraceError(
            "project.locked", "`headrace up` runs this project", where=str(path), next="`headrace stop` first"
        )
