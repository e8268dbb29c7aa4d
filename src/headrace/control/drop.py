"""drop: a view goes, with its contents here and in the sinks, or a source or sink from the project; its file is kept
under another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.catalog.project import read
from headrace.control import define
from headrace.control.names import known_view
from headrace.control.running import Progress, Running
from headrace.model.errors import HeadraceError


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"view", "kept": the file's new name, ...}``; of a ``source`` or ``sink`` ``{KIND, "kept", "notices"}``.

    Refused with ``view.has_readers``, and the names, while other views read it, or a table of the source, or a
    sink names it or a query of it; with ``definition.in_use`` while something waits for the sink.
    """
    for kind in ("source", "sink"):
        if kind in arguments:
            told = define.alone(running, {"kind": kind, "name": arguments[kind]}, progress)
            return {kind: told["name"], "kept": told["kept"], "notices": told["notices"]}
    project = read(running.path)
    held = [str(view["name"]) for view in running.pipeline.status()["views"]]
    view = known_view(str(arguments["view"]), {*held, *(view.name for view in project.views)})
    define.undelivered(running.path, project, view)
    path = next((v.path for v in project.views if v.name == view), None)
    try:
        answer = {"view": view, **running.pipeline.drop(view)}
    except HeadraceError as error:
        if error.code != "view.unknown" or path is None:
            raise
        told = define.alone(running, {"kind": "view", "name": view}, progress)  # refused: it has a file alone
        return {"view": view, "kept": told["kept"], "notices": told["notices"]}
    if path is not None and path.exists():
        answer["kept"] = path.replace(define.free_name(path)).relative_to(running.path).as_posix()
    return answer
