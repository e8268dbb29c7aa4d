"""log_retain: the log's beginning goes, as far as it is not needed; log_compact: all of it that may."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.catalog.project import read
from headrace.control import lock
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``engine.retain.told``. ``before``: the commit with which the log is to begin, or None: as the settings say.

    ``compact``: as late as can be; ``dry_run``: it only looks.
    """
    progress({"text": "removing what is not needed"})
    before, compact = arguments.get("before"), bool(arguments.get("compact"))
    dry_run = bool(arguments.get("dry_run"))
    return running.pipeline.retention.by_hand(before, dry_run=dry_run, closing=compact)


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same while nothing runs: no Spark is started."""
    from headrace.catalog.store import Catalog
    from headrace.engine import retain
    from headrace.log.append import LogWriter
    from headrace.serve.snapshot import STATE, catalog_path

    progress({"text": "removing what is not needed"})
    before, dry_run, folder = arguments.get("before"), bool(arguments.get("dry_run")), path / STATE
    retention = read(path).settings.retention
    with lock.hold(path, "headrace log retain"), LogWriter(folder / "log") as log:
        catalog = Catalog(catalog_path(path))
        try:
            if arguments.get("compact") and not dry_run:
                log.roll()
            wanted = log.end if arguments.get("compact") else before - 1 if before is not None else None
            if wanted is None:
                wanted = retain.Ages(folder / "log").outlived(retention, time.time_ns() // 1000)
            plan = retain.planned(folder / "log", catalog, wanted, retention.wait_for)
            removed = False
            if plan.segments and not dry_run:
                retain.take_out(folder, catalog, plan)
                removed = retain.carry_out(folder, catalog, log, plan) is not None
            return retain.told(plan, removed=removed)
        finally:
            catalog.close()
