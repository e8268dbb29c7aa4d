"""explain: how a view is maintained, operator by operator, and what bounds what it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.catalog.project import read
from headrace.control.names import known_view
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"view", "sql", "operators": [{"name", "rule", "state", "bound", "cost"}], "text"}``."""
    view = known_view(str(arguments["view"]), [view.name for view in read(running.path).views])
    progress({"text": f"explaining {view}"})
    return running.pipeline.explain(view)
