"""What was damaged is made anew from the log: marked in the catalogue here, built by the next start or ``apply``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.catalog.project import HISTORY, STATE
from headrace.catalog.salvage import go_on, salvage
from headrace.catalog.state_layout import STATE_LAYOUT
from headrace.catalog.store import HELD, Catalog
from headrace.catalog.synced import synced
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

    The same where it names files of another layout. ``lost``: the tables of the catalogue there was that could not be
    taken over. With a new one the sinks get all views anew, since nothing tells any more what they have been sent.
    """
    path = catalog_path(project)
    go_on(path)
    lost, damaged = list[str](), False
    try:
        catalog = Catalog(path, any_state=True)
    except HeadraceError as error:
        if error.code != "state.corrupt":
            raise
        damaged, lost = True, _anew(project, "damaged")
        catalog = Catalog(path)
    try:
        if catalog.state_layout != STATE_LAYOUT:
            catalog.close()
            damaged, lost = True, _anew(project, "layout")
            catalog = Catalog(path)
        catalog.forget_state()
        if "relation" in lost or "meta" in lost:
            _hold(catalog, LogReader(project / STATE / "log"))
        return {"views": sorted(catalog.views()), "catalogue": damaged, "lost": lost}
    finally:
        catalog.close()


def opened(project: Path, tell: Callable[[dict[str, Any]], None]) -> Catalog:
    """The catalogue for a start. Files of an earlier layout are not read: all is made anew, and that is told, once.

    Raises ``state.layout`` where they are of a later one.
    """
    go_on(catalog_path(project))
    catalog = Catalog(catalog_path(project), any_state=True)
    layout = catalog.state_layout
    if layout == STATE_LAYOUT:
        return catalog
    catalog.close()
    if layout < STATE_LAYOUT:
        _anew(project, "layout")
        tell({
            "event": "state.anew", "layout": STATE_LAYOUT, "before": layout,
            "reason": "kept files of an earlier layout are made anew from the log",
        })  # fmt: skip
    return Catalog(catalog_path(project))


def _anew(project: Path, why: str) -> list[str]:
    (project / STATE / HISTORY).unlink(missing_ok=True)
    # Before the catalogue: a new one with the old history would have sinks sent too little.
    synced(project / STATE)
    return salvage(catalog_path(project), why)


def _hold(catalog: Catalog, log: LogReader) -> None:
    """The tables of which the log has rows: sources must not bring those a second time."""
    with catalog.transaction():
        for table in {name for ref in log.refs(0, log.end) for name in ref.rows} - catalog.relations().keys():
            catalog.set_meta(HELD + table, "log")
