"""rebuild: views, or all that is kept, are made anew from the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.catalog import place
from headrace.control import lock
from headrace.control.followed import followed
from headrace.control.running import Progress, Running
from headrace.model.errors import HeadraceError


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """As ``engine.rebuild.views``; the views are built, and swapped in by one step, before it returns."""
    from headrace.engine import rebuild

    if arguments.get("all"):
        raise HeadraceError(
            "project.locked", "the running `headrace up` works with what is to be made anew",
            next="`headrace stop`, then `headrace rebuild --all`, then `headrace up`",
        )  # fmt: skip
    answer = rebuild.views(running.path, arguments["views"])
    progress({"text": "building"})
    with followed(running, progress):
        running.pipeline.apply(running.pipeline.project)
    return {**answer, "built": True}


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The same while nothing runs, without Spark: the next start builds them."""
    from headrace.engine import rebuild

    place.check(path)  # what is rebuilt takes its sinks over
    with lock.hold(path, "headrace rebuild"):
        answer = rebuild.everything(path) if arguments.get("all") else rebuild.views(path, arguments["views"])
    return {**answer, "built": False}
