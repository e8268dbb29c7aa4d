"""quarantine_drop: changes leave the quarantine for good."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.control import lock
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"dropped": how many}``. Of ``ids``, of a ``table``, or all; ``upto``: of commits up to that one."""
    ids, table, upto = asked(arguments)
    return {"dropped": running.pipeline.quarantine.drop(*ids, table=table, upto=upto)}


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same while nothing runs: no Spark is started."""
    from headrace.catalog.store import Catalog
    from headrace.engine.quarantined import drop
    from headrace.serve.quarantine import Chosen
    from headrace.serve.snapshot import catalog_path

    with lock.hold(path, "headrace quarantine drop"):
        catalog = Catalog(catalog_path(path))
        try:
            return {"dropped": drop(catalog, path, Chosen(*asked(arguments)))}
        finally:
            catalog.close()


def asked(arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None, int | None]:
    """(ids, table, upto) of a call."""
    return tuple(str(id) for id in arguments.get("ids") or ()), arguments.get("table"), arguments.get("upto")
