"""frontier: which commit each view and sink has reached, and the least of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.control import socket
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"state": "running", "commit", "least", "lag", "behind_s", "views", "sinks"}``."""
    return {"state": "running", **running.pipeline.frontier()}


def look(path: Path) -> dict[str, Any]:
    """The same from the running `up`, or with the state "stopped" from what its files tell."""
    if socket.running(path):
        return socket.request(path, "frontier")
    from headrace.serve import frontier  # loads pyarrow

    return {"state": "stopped", **frontier.look(path)}
