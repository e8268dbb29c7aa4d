"""backup: the project as of one commit, copied into an empty folder, while it runs or not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.control import lock
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"folder", "commit", "log_end", "files", "bytes"}``; ``to``: the folder, absolute."""
    return running.pipeline.backup(Path(str(arguments["to"])), progress)


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same while nothing runs: nothing moves then."""
    from headrace.catalog.store import Catalog
    from headrace.engine import backup
    from headrace.engine.disk import telling
    from headrace.serve.snapshot import catalog_path

    with lock.hold(path, "headrace backup"):
        catalog = Catalog(catalog_path(path), read_only=True)
        try:
            target = backup.begin(Path(str(arguments["to"])))
            with telling(target, backup.AGAIN):
                return backup.copy(path, backup.cut(catalog, path, target), target, progress)
        finally:
            catalog.close()
