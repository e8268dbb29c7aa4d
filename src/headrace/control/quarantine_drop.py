"""quarantine_drop: changes leave the quarantine for good."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.control import lock
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"dropped": how many}``. As ``serve.quarantine.Chosen``: ``ids``, ``table``, ``upto``, ``refused_upto``."""
    return {"dropped": running.pipeline.quarantine.drop(*ids(arguments), **bounds(arguments))}


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same while nothing runs: no Spark is started."""
    from headrace.catalog.store import Catalog
    from headrace.engine.quarantined import drop, sweep
    from headrace.serve.quarantine import FOLDER, Chosen
    from headrace.serve.snapshot import catalog_path

    with lock.hold(path, "headrace quarantine drop"):
        catalog = Catalog(catalog_path(path))
        try:
            dropped = drop(catalog, Chosen(ids(arguments), **bounds(arguments)))
            sweep(catalog_path(path).parent / FOLDER, catalog)
            return {"dropped": dropped}
        finally:
            catalog.close()


def ids(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids that a call names."""
    return tuple(str(id) for id in arguments.get("ids") or ())


def bounds(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What else a call says of which entries it means."""
    return {name: arguments.get(name) for name in ("table", "upto", "refused_upto")}
