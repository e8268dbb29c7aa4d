"""explain: how a view is maintained, or would be, operator by operator, and what bounds what it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.catalog.project import read
from headrace.control.names import known_view
from headrace.control.running import Progress, Running

QUERY = "explained_query"  # the name of a view that is not defined


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"view", "sql", "operators": [{"name", "rule", "state", "bound", "cost"}], "text"}``.

    With the argument ``sql`` of a view that would be: what refuses it is raised.
    """
    if sql := arguments.get("sql"):
        progress({"text": "explaining the query"})
        return running.pipeline.explain(QUERY, str(sql))
    view = known_view(str(arguments["view"]), [view.name for view in read(running.path).views])
    progress({"text": f"explaining {view}"})
    return running.pipeline.explain(view)
