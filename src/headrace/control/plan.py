"""plan: what the definitions in the folder would change, and whether each view is incremental; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.catalog.project import read
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"changes": [...], "tables": {...}, "functions": [...], "views": [...], "warnings": [...], "unread": {...}}``,
    for the files as they are now; ``unread``: the sources that do not say their tables, each with its error."""
    project = read(running.path)
    progress({"text": f"planning {len(project.views)} views"})
    return running.pipeline.plan(project)
