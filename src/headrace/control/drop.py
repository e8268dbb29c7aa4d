"""drop: a view goes, with its contents here and in the sinks, or a source or sink from the project; its file is kept
under another name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from headrace.catalog.project import FILE, place, read, without_definition
from headrace.catalog.searches import StoredQueries
from headrace.control.create import take
from headrace.control.names import known, known_view
from headrace.control.running import Progress, Running
from headrace.model.definition import Project
from headrace.model.errors import HeadraceError

SUFFIX = ".dropped"  # views/NAME.sql.dropped: not read, and nothing a user wrote is deleted


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"view", "kept": the file's new name, ...}``; of a ``source`` or ``sink`` ``{KIND, "kept", "notices"}``.

    Refused with ``view.has_readers``, and the names, while other views read it, or a table of the source, or a
    sink names it or a query of it; with ``definition.in_use`` while something waits for the sink.
    """
    for kind in ("source", "sink"):
        if kind in arguments:
            return _connector(running, kind, str(arguments[kind]), progress)
    project = read(running.path)
    held = [str(view["name"]) for view in running.pipeline.status()["views"]]
    view = known_view(str(arguments["view"]), {*held, *(view.name for view in project.views)})
    queries = {
        query.name for query in StoredQueries(running.path).read()[0].values() if query.view.lower() == view.lower()
    }
    sinks = [
        sink for sink in project.sinks
        if view in (sink.views or ()) or view in sink.keys or queries & {*sink.searches}
    ]  # fmt: skip
    if sinks:
        raise HeadraceError(
            "view.has_readers",
            f"the view '{view}' is delivered by {', '.join(sink.name for sink in sinks)}",
            where=", ".join(str(sink.path.relative_to(running.path)) for sink in sinks if sink.path),
            why="the sink names it under 'views' or 'keys', or a stored query of it under 'searches'",
            next="take it out of the list first",
        )
    answer = {"view": view, **running.pipeline.drop(view)}
    path = next((v.path for v in project.views if v.name == view), None)
    if path is not None and path.exists():
        answer["kept"] = path.replace(_free_name(path)).relative_to(running.path).as_posix()
    return answer


def _connector(running: Running, kind: str, name: str, progress: Progress) -> dict[str, Any]:
    before = read(running.path)
    name = known(before, kind, name).name
    if kind == "sink":
        _free(before, name)
    wanted = without_definition(before, kind, name)
    path = running.path / place(kind, name)
    kept = _free_name(path)
    notices = take(running, before, wanted, (kind, name), _moved(path, kept), progress)
    what = "at it" if kind == "source" else "in its store"
    return {
        kind: name,
        "kept": kept.relative_to(running.path).as_posix(),
        "notices": [f"what was made {what} stays", *notices],
    }


def _free_name(path: Path) -> Path:
    """NAME.dropped, or NAME.dropped.2 and so on: what was dropped under the same name before stays."""
    names = (path.with_name(path.name + SUFFIX + (f".{n}" if n > 1 else "")) for n in count(1))
    return next(name for name in names if not name.exists())


@contextmanager
def _moved(path: Path, kept: Path) -> Iterator[None]:
    path.replace(kept)
    try:
        yield
    except BaseException:
        kept.replace(path)
        raise


def _free(project: Project, sink: str) -> None:
    """Raises ``definition.in_use`` where a file names the sink as one that is waited for."""
    waiting = [place("source", source.name) for source in project.sources if sink in source.waits_for]
    if sink in (project.settings.retention.wait_for or ()):
        waiting.append(f"{FILE}: retention.wait_for")
    if waiting:
        raise HeadraceError(
            "definition.in_use", f"the sink '{sink}' is waited for", where=", ".join(waiting),
            next="take its name out of there first",
        )  # fmt: skip
