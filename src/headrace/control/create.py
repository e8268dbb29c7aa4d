"""create: a source, view or sink is planned, its file written, and taken; what is refused leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.control import define
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"kind", "name", "done", "file", "notices"}`` of one change with ``text``: see ``define.run``."""
    return define.alone(running, arguments, progress)
