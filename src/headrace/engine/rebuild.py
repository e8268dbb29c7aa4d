"""What was damaged is made anew from the log: marked in the catalogue here, built by the next start or ``apply``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.catalog.project import HISTORY, STATE
from headrace.catalog.salvage import salvage
from headrace.catalog.store import HELD, Catalog
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.serve.snapshot import catalog_path, known


def views(project: Path, names: Sequence[str]) -> dict[str, Any]:
    """``{"views": names, "catalogue": False, "lost": []}``. Raises ``view.unknown``."""
    catalog = Catalog(catalog_path(project))
    try:
        for name in names:
            known(catalog, name)
        catalog.build_again(names)
        return {"views": list(names), "catalogue": False, "lost": []}
    finally:
        catalog.close()


def everything(project: Path) -> dict[str, Any]:
    """As ``views``, of all views and all state; a damaged catalogue is made anew before.

    ``lost``: the tables of the damaged catalogue that could not be taken over. With a new catalogue the sinks get all
    views anew, since nothing tells any more what they have been sent.
    """
    path = catalog_path(project)
    lost, damaged = list[str](), False
    try:
        catalog = Catalog(path)
    except HeadraceError as error:
        if error.code != "state.corrupt":
            raise
        damaged, lost = True, salvage(path)
        (project / STATE / HISTORY).unlink(missing_ok=True)
        catalog = Catalog(path)
    try:
        catalog.forget_state()
        if "relation" in lost or "meta" in lost:
            _hold(catalog, LogReader(project / STATE / "log"))
        return {"views": sorted(catalog.views()), "catalogue": damaged, "lost": lost}
    finally:
        catalog.close()


def _hold(catalog: Catalog, log: LogReader) -> None:
    """The tables of which the log has rows: sources must not bring those a second time."""
    with catalog.transaction():
        for table in {name for ref in log.refs(0, log.end) for name in ref.rows} - catalog.relations().keys():
            catalog.set_meta(HELD + table, "log")
