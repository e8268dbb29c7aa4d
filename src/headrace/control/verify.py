"""verify: every view against Spark batch over the log, at one frontier; or a sink's rows against the views."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.catalog.project import read
from headrace.control.names import known_view
from headrace.control.running import Progress, Running
from headrace.control.sink_rows import asked, catalogue, spelled


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"commit", "views": [{"view", "rows", "differences", "seconds", "first"}], "differences"}``.

    ``views`` names some; all of them by default. Ends early when the caller leaves. With ``sink`` the answer is that
    of ``headrace.engine.check_sink.verify``.
    """
    if arguments.get("sink"):
        return spelled(running.pipeline.verify_sink(*asked(arguments), progress))
    known = [view.name for view in read(running.path).views]
    views = [known_view(str(view), known) for view in arguments.get("views") or []]
    progress({"text": "verifying"})
    return spelled(running.pipeline.verify(views or None, progress))


def sink_alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same for a ``sink`` while nothing runs: no Spark is started, and nothing is taken over."""
    from headrace.engine import check_sink

    project = read(path)
    with catalogue(path) as catalog:
        return spelled(check_sink.verify(project, catalog, *asked(arguments), progress))
