"""drop: a view goes, with its contents here and in the sinks; its file is kept under another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.catalog.project import read
from headrace.control.names import known_view
from headrace.control.running import Progress, Running
from headrace.model.errors import HeadraceError

SUFFIX = ".dropped"  # views/NAME.sql.dropped: not read, and nothing a user wrote is deleted


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"view", "kept": the file's new name, ...}``.

    Refused with ``view.has_readers``, and the names, while other views or a sink's own list name it.
    """
    project = read(running.path)
    held = [str(view["name"]) for view in running.pipeline.status()["views"]]
    view = known_view(str(arguments["view"]), {*held, *(view.name for view in project.views)})
    sinks = [sink for sink in project.sinks if sink.views is not None and view in sink.views]
    if sinks:
        raise HeadraceError(
            "view.has_readers",
            f"the view '{view}' is delivered by {', '.join(sink.name for sink in sinks)}",
            where=", ".join(str(sink.path.relative_to(running.path)) for sink in sinks if sink.path),
            why="the sink lists it under 'views'",
            next="take it out of the list first",
        )
    answer = {"view": view, **running.pipeline.drop(view)}
    path = next((v.path for v in project.views if v.name == view), None)
    if path is not None and path.exists():
        kept = path.with_name(path.name + SUFFIX)
        path.replace(kept)
        answer["kept"] = kept.relative_to(running.path).as_posix()
    return answer
