"""stop: the process that runs the project ends after the step it is in; nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"pid"}`` of the process that now stops; it has ended when the project's lock is free."""
    if running.stop is not None:
        running.stop()
    return {"pid": os.getpid()}
