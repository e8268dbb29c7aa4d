"""quarantine_replay: changes of the quarantine are sent again, in one new transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.control.quarantine_drop import asked
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"commit", "changes", "again"}``: see ``Quarantined.replay``. Of ``ids``, of a ``table``, or all; ``as``."""
    ids, table, upto = asked(arguments)
    return running.pipeline.quarantine.replay(*ids, table=table, upto=upto, as_=arguments.get("as"))
