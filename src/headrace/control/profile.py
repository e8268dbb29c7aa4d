"""profile: where the time of the steps that change a view goes, and a flame graph of it where that is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.catalog.project import read
from headrace.control import flame, socket
from headrace.control.names import known_view
from headrace.control.running import Progress, Running

STEPS, SECONDS = 10, 10.0


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The answer of ``headrace.engine.profile.Profiles.profile``. Ends early when the caller leaves.

    ``steps``: how many at most; ``seconds``: how long to wait for them.
    """
    view = known_view(str(arguments["view"]), [view.name for view in read(running.path).views])
    steps, seconds = int(arguments.get("steps", STEPS)), float(arguments.get("seconds", SECONDS))
    return running.pipeline.profiles.profile(view, steps, seconds, progress)


def ask(path: Path, arguments: Mapping[str, Any], progress: Progress, picture: Path | None) -> dict[str, Any]:
    """The same by the running `up`; with ``picture`` also ``{"flame": its path}``, an SVG file of the same time.

    Raises ``project.not_running``, and of a ``picture`` config.library and profile.flame.
    """
    with contextlib.ExitStack() as recorded:
        if picture is not None:
            pid = int(socket.request(path, "status")["pid"])
            known_view(str(arguments["view"]), [view.name for view in read(path).views])
            recorded.enter_context(flame.recorded(pid, picture, float(arguments.get("seconds", SECONDS))))
        answer = socket.request(path, "profile", arguments, progress)
    return answer if picture is None else {**answer, "flame": str(picture)}
