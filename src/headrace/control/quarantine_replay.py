"""quarantine_replay: entries of the quarantine are sent again, in one new transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.control.quarantine_drop import bounds, ids
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"commit", "changes", "again"}``: see ``Quarantined.replay``. Chosen as by ``quarantine_drop``; ``as``."""
    return running.pipeline.quarantine.replay(*ids(arguments), **bounds(arguments), as_=arguments.get("as"))
