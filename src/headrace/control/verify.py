"""verify: every view against the same SQL run by Spark batch over the log, at one frontier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.catalog.project import read
from headrace.control.names import known_view
from headrace.control.running import Progress, Running


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"commit", "views": [{"view", "rows", "differences", "seconds", "first"}], "differences"}``.

    ``views`` names some; all of them by default. Ends early when the caller leaves.
    """
    known = [view.name for view in read(running.path).views]
    asked = [known_view(str(view), known) for view in arguments.get("views") or []]
    progress({"text": "verifying"})
    answer = running.pipeline.verify(asked or None, progress)
    from headrace.formats.types.spelled import value  # loads pyarrow: not for the client's side of the socket

    views = [
        {**view, "first": [{**row, "row": value(row["row"])} for row in view["first"]]} for view in answer["views"]
    ]
    return {**answer, "views": views}
