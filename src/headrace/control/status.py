"""status: how far the log, each view and each sink are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"pid", "state": "running", "commit", "frontier", "views", "sources", "sinks"}``."""
    return {"pid": os.getpid(), "state": "running", **running.pipeline.status()}
