"""sink_pause: a sink is given nothing until it is resumed; the others go on, and the log keeps what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"sink", "state", "commit"}``; ``commit`` is its frontier."""
    return running.pipeline.pause(str(arguments["sink"]), True)
