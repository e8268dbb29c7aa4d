"""quarantine_fix: a change of the quarantine is sent again, corrected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """As ``quarantine_replay``, for one ``id``; ``cells``: column -> text, or ``row``: JSON of the row in its place."""
    row, cells = arguments.get("row"), arguments.get("cells")
    return running.pipeline.quarantine.fix(str(arguments["id"]), row=row, cells=cells, as_=arguments.get("as"))
