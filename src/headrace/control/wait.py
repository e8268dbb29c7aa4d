"""wait: until views and sinks have reached a write, so that its writer reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.control import socket
from headrace.control.running import Progress, Running
from headrace.model.errors import HeadraceError


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"token", "commit", "reached", "of"}``. Ends early when the caller leaves.

    ``token``: a commit number or SOURCE:POINT; ``view`` or ``sink``: only that one, else every live view and every
    sink; ``timeout`` in seconds; ``whose``: the token of who asks by it.
    """
    view, sink = arguments.get("view"), arguments.get("sink")
    timeout_s = float(arguments.get("timeout", 60.0))
    whose = arguments.get("whose")
    return running.pipeline.wait_for(str(arguments["token"]), timeout_s, view, sink, progress, whose)


def ask(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same by the running `up`; without one only for what its files show as reached, else project.not_running."""
    if socket.running(path):
        return socket.request(path, "wait", arguments, progress)
    from headrace.engine.reached import reached  # loads pyarrow

    answer = reached(path, str(arguments["token"]), arguments.get("view"), arguments.get("sink"))
    if answer["reached"] is None:
        stopped = socket.not_running(path)
        raise HeadraceError(stopped.code, stopped.what, where=stopped.where, why=answer["why"], next=stopped.next)
    return answer
