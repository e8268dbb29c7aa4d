"""top: what the running project takes of its machine, and how fast it goes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"pid", ...}``, see ``headrace.engine.usage.usage``."""
    return {"pid": os.getpid(), **running.pipeline.usage()}


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The later of two answers with rates: ``steps_s``, ``commits_s``, ``rows_s``, each process's ``cpu`` and ``gc``.

    ``cpu``, ``gc``: seconds a second; a process that is new has none yet, which is None.
    """
    seconds: float = after["at_s"] - before["at_s"]
    known = {process["pid"]: process["cpu_s"] for process in before["processes"]}

    def rate(now: float, then: float) -> float:
        return round(max(0.0, now - then) / seconds, 3)

    return {
        **after,
        "steps_s": rate(after["steps"], before["steps"]),
        "commits_s": rate(after["commit"], before["commit"]),
        "rows_s": rate(after["rows"], before["rows"]),
        "processes": [
            {**p, "cpu": rate(p["cpu_s"], known[p["pid"]]) if p["pid"] in known else None} for p in after["processes"]
        ],
        "jvm": {**after["jvm"], "gc": rate(after["jvm"]["gc_s"], before["jvm"]["gc_s"])},
    }
