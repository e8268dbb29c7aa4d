"""The frontier: which commit each view and sink has reached, and the least of them. No lock, no JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.catalog.project import files
from headrace.catalog.store import Catalog
from headrace.log.read import LogReader
from headrace.serve import snapshot


class Clock:
    """Tells how long ago the log got what someone lacks. May be asked from any thread."""

    def __init__(self, log: Path) -> None:
        self._reader = LogReader(log)
        self._lock = threading.Lock()

    def behind_s(self, reached: int, end: int) -> float:
        """Seconds since the source made the first commit after ``reached``; 0 when there is none up to ``end``."""
        if reached >= end:
            return 0.0
        with self._lock:
            at = max(reached, self._reader.base.commit)  # a sink may have been left behind
            found = next(self._reader.origins(at, at + 1), None) if at < end else None
        return max(0.0, round(time.time() - found[1].committed_us / 1e6, 3)) if found else 0.0


def frontier(
    end: int,
    published: int,
    views: Sequence[dict[str, Any]],
    sinks: Sequence[dict[str, Any]],
    behind_s: Callable[[int, int], float],
) -> dict[str, Any]:
    """``{"commit", "least", "lag", "behind_s", "views", "sinks"}``; ``commit`` is the log's end.

    ``least``: what every live view and every sink has reached. A failed view has left the consistent set: it is
    listed with ``in_least`` false and holds nothing back. ``published``: the commit that live views have reached.
    Views and sinks are given with their ``commit``, and get the commits (``lag``) and the seconds that they lack.
    """
    least = min([published, *(sink["commit"] for sink in sinks)])

    def placed(part: dict[str, Any], counts: bool) -> dict[str, Any]:
        return {**part, **_lack(part["commit"], end, behind_s), "in_least": counts}

    return {
        "commit": end,
        "least": least,
        **_lack(least, end, behind_s),
        "views": [placed(view, view["state"] == "live") for view in views],
        "sinks": [placed(sink, True) for sink in sinks],
    }


def _lack(commit: int, end: int, behind_s: Callable[[int, int], float]) -> dict[str, Any]:
    return {"lag": max(0, end - commit), "behind_s": behind_s(commit, end)}


def views(catalog: Catalog, published: int) -> list[dict[str, Any]]:
    """Name, state, reason and commit of every view."""
    return [
        {"name": n, "state": r.state, "reason": r.reason, "commit": snapshot.reached(catalog, r, published)}
        for n, r in catalog.views().items()
    ]


def look(project_path: Path) -> dict[str, Any]:
    """The frontier as the files of a project tell it that nothing runs.

    A sink that is defined but was never written to is at commit 0. Raises ``project.not_running`` for a project that
    has never run.
    """
    catalog = Catalog(snapshot.catalog_path(project_path), read_only=True)
    try:
        log = project_path / snapshot.STATE / "log"
        last = catalog.last_published()
        published = last.upto if last else 0
        reached = {name: 0 for name, _ in files(project_path, "sinks", ".yaml")}
        reached |= {name: at for name, (at, _, _) in catalog.sinks().items()}
        sinks = [{"name": name, "state": "stopped", "commit": at} for name, at in sorted(reached.items())]
        end = max(LogReader(log).end, published)
        return frontier(end, published, views(catalog, published), sinks, Clock(log).behind_s)
    finally:
        catalog.close()
