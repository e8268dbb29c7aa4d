"""define: sources, views and sinks are created and dropped as one: planned, written and taken together, or refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from headrace.catalog.project import FILE, place, read, with_definition, without_definition
from headrace.catalog.searches import StoredQueries
from headrace.catalog.written import written
from headrace.control.followed import followed
from headrace.control.names import defined, known
from headrace.control.running import Progress, Running
from headrace.control.socket import ClientGone
from headrace.model.definition import Project, SourceDefinition
from headrace.model.errors import HeadraceError

SUFFIX = ".dropped"  # views/NAME.sql.dropped: not read, and nothing a user wrote is deleted
Names = Collection[tuple[str, str]]  # kind and name


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"done": [{"kind", "name", "done", "file", "notices"}, ...], "notices"}``: one for each of ``changes``, with
    whether there was anything to do; and what else has changed. What was dropped has ``kept``, the file's new name.

    A change has ``kind`` and ``name``. One with ``text``, that of the file, creates: with ``replace`` it takes the
    place of the one that is there; with ``missing_only`` that one stays; with neither it is refused with
    ``definition.exists``. One without drops: with ``existing_only`` what is not there is no error.

    Raises what refuses any of them, or a view because of them; ``view.has_readers`` and ``definition.in_use`` while
    something names what goes. Goes on to the end when the caller leaves.
    """
    before = wanted = read(running.path)
    done: list[dict[str, Any]] = []
    texts: dict[tuple[str, str], str | None] = {}
    for change in arguments["changes"]:
        wanted, told = _created(wanted, change) if "text" in change else _dropped(wanted, change)
        done.append(told)
        if told["done"]:
            texts[told["kind"], told["name"]] = change.get("text")
    if not texts:
        return {"done": done, "notices": []}
    for kind, name in (changed for changed, text in texts.items() if text is None):
        _free(running.path, wanted, kind, name)
    with contextlib.suppress(ClientGone):
        progress({"text": f"planning {' and '.join(f'{kind} {name}' for kind, name in texts)}"})
    kept = _kept(running.path, before, texts)
    notices = _take(running, before, wanted, texts, kept, progress)
    failed = _failures(running)
    for change, told in zip(arguments["changes"], done, strict=True):
        kind, name = told["kind"], told["name"]
        if "text" not in change and (kind, name) in kept:
            told["kept"] = kept[kind, name].relative_to(running.path).as_posix()
        if "text" in change and kind == "view" and told["done"] and name in failed:
            told["notices"].append(f"view {name} has failed: {failed[name]}")
    return {"done": done, "notices": notices}


def alone(running: Running, change: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """One change: what is told of it, with what else has changed among its ``notices``."""
    answer = run(running, {"changes": [change]}, progress)
    [told] = answer["done"]
    return {**told, "notices": [*told["notices"], *answer["notices"]]}


def _created(project: Project, change: Mapping[str, Any]) -> tuple[Project, dict[str, Any]]:
    """The project as it would be, and what is told."""
    kind, name = str(change["kind"]), str(change["name"])
    there = defined(project, kind, name)
    name = there.name if there is not None else name
    told = {"kind": kind, "name": name, "done": True, "file": place(kind, name), "notices": []}
    if there is not None and change.get("missing_only"):
        return project, {**told, "done": False, "notices": [f"there is a {kind} '{name}'"]}
    if there is not None and not change.get("replace"):
        raise HeadraceError(
            "definition.exists", f"there is a {kind} '{name}' already", where=place(kind, name),
            next=f"CREATE OR REPLACE {kind.upper()} {name} ..., or DROP {kind.upper()} {name} first",
        )  # fmt: skip
    return with_definition(project, kind, name, str(change["text"])), told


def _dropped(project: Project, change: Mapping[str, Any]) -> tuple[Project, dict[str, Any]]:
    kind, name = str(change["kind"]), str(change["name"])
    try:
        name = known(project, kind, name).name
    except HeadraceError as error:
        if not change.get("existing_only"):
            raise
        notices = [f"{error.what}: nothing is dropped"]
        return project, {"kind": kind, "name": name, "done": False, "file": place(kind, name), "notices": notices}
    stays = {"source": ["what was made at it stays"], "sink": ["what was made in its store stays"]}.get(kind, [])
    told = {"kind": kind, "name": name, "done": True, "file": place(kind, name), "notices": stays}
    return without_definition(project, kind, name), told


def _kept(folder: Path, before: Project, texts: Mapping[tuple[str, str], str | None]) -> dict[tuple[str, str], Path]:
    """Where the files go of what is there and is dropped."""
    gone = [changed for changed, text in texts.items() if text is None and _there(before, *changed)]
    return {changed: free_name(folder / place(*changed)) for changed in gone}


def _there(before: Project, kind: str, name: str) -> bool:
    """Whether it has a file of that name; one of another case, that is dropped, has another file."""
    found = defined(before, kind, name)
    return found is not None and found.name == name


@contextmanager
def _changed(
    folder: Path, before: Project, texts: Mapping[tuple[str, str], str | None], kept: Mapping[tuple[str, str], Path]
) -> Iterator[None]:
    """The files are as they are to be, and keep it unless the block fails: then all are as they were."""
    with ExitStack() as files:
        for (kind, name), text in texts.items():
            file, new = folder / place(kind, name), not _there(before, kind, name)
            if text is not None:
                files.enter_context(written(file, text, new=new, private=kind != "view"))
            elif not new:
                files.enter_context(_moved(file, kept[kind, name]))
        yield


@contextmanager
def _moved(path: Path, kept: Path) -> Iterator[None]:
    path.replace(kept)
    try:
        yield
    except BaseException:
        kept.replace(path)
        raise


def free_name(path: Path) -> Path:
    """NAME.dropped, or NAME.dropped.2 and so on: what was dropped under the same name before stays."""
    names = (path.with_name(path.name + SUFFIX + (f".{n}" if n > 1 else "")) for n in count(1))
    return next(name for name in names if not name.exists())


def _free(folder: Path, project: Project, kind: str, name: str) -> None:
    if defined(project, kind, name) is None:
        if kind == "view":
            undelivered(folder, project, name)
        elif kind == "sink":
            _unwaited(project, name)


def undelivered(folder: Path, project: Project, view: str) -> None:
    """Raises ``view.has_readers`` while a sink names the view, or a query of it."""
    stored = StoredQueries(folder).read()[0].values()
    queries = {query.name for query in stored if query.view.lower() == view.lower()}
    sinks = [
        sink for sink in project.sinks
        if view in (sink.views or ()) or view in sink.keys or queries & {*sink.searches}
    ]  # fmt: skip
    if sinks:
        raise HeadraceError(
            "view.has_readers",
            f"the view '{view}' is delivered by {', '.join(sink.name for sink in sinks)}",
            where=", ".join(place("sink", sink.name) for sink in sinks),
            why="the sink names it under 'views' or 'keys', or a stored query of it under 'searches'",
            next="take it out of the list first",
        )


def _unwaited(project: Project, sink: str) -> None:
    """Raises ``definition.in_use`` where a file names the sink as one that is waited for."""
    waiting = [place("source", source.name) for source in project.sources if sink in source.waits_for]
    if sink in (project.settings.retention.wait_for or ()):
        waiting.append(f"{FILE}: retention.wait_for")
    if waiting:
        raise HeadraceError(
            "definition.in_use", f"the sink '{sink}' is waited for", where=", ".join(waiting),
            next="take its name out of there first",
        )  # fmt: skip


def _failures(running: Running) -> dict[str, str]:
    """Views that are there, and yet without contents: their SQL throws on rows that there are; each with why."""
    views = running.pipeline.status()["views"]
    return {str(each["name"]): str(each["reason"]) for each in views if each["state"] == "failed"}


def _take(
    running: Running,
    before: Project,
    wanted: Project,
    texts: Mapping[tuple[str, str], str | None],
    kept: Mapping[tuple[str, str], Path],
    progress: Progress,
) -> list[str]:
    """Plan ``wanted``, change the files to it and have them taken; what else has changed by it.

    ``before``: the files as they are; ``texts``: of what changes, None where it goes, its file to ``kept``.
    Raises what refuses it, or a view because of it: then the files, and what is at work, are as before.
    """
    work = running.pipeline.project
    planned = running.pipeline.plan(wanted)
    left = _left(planned["unread"], wanted, work, texts)
    _refuse(planned, texts, lambda: _refused(running.pipeline.plan(before)))
    with _changed(running.path, before, texts, kept):
        with contextlib.suppress(ClientGone):
            progress({"text": "applying"})
        with followed(running, progress):
            running.pipeline.apply(_without(left, read(running.path), work))
    notices = [f"source {name} is left as it was: {error['what']}: {error['why']}" for name, error in left.items()]
    return [*_also(planned, (*texts, *(("source", name) for name in left)), work), *notices, *planned["warnings"]]


def _left(unread: Mapping[str, Any], wanted: Project, work: Project, changed: Names) -> Mapping[str, Any]:
    """Of the sources whose tables nobody can tell those that were edited and not applied: they hold up nobody."""
    for name, error in unread.items():
        if ("source", name) in changed or defined(wanted, "source", name) in work.sources:
            raise HeadraceError(**error)
    return unread


def _without(left: Collection[str], project: Project, work: Project) -> Project:
    """The project with the sources ``left`` as they are at work, or not at all."""
    at_work = {source.name: source for source in work.sources}
    kept = (at_work.get(source.name) if source.name in left else source for source in project.sources)
    return replace(project, sources=tuple(source for source in kept if isinstance(source, SourceDefinition)))


def _refuse(planned: Mapping[str, Any], changed: Names, before: Callable[[], Mapping[str, Any]]) -> None:
    """Raises what refuses a view that changes, or another one that was not refused before."""
    refused = _refused(planned)
    for kind, name in changed:
        if kind == "view" and name in refused:
            raise HeadraceError(**refused[name])
    left = sorted(refused.keys() - before().keys()) if refused else []
    if left:
        error = refused[left[0]]
        raise HeadraceError(
            "view.has_readers", f"view {left[0]} could not go on: {error['what']}", where=f"views/{left[0]}.sql",
            why=f"it reads {' or '.join(f'{kind} {name}' for kind, name in changed)}",
            next=f"change or drop {', '.join(left)} first",
        )  # fmt: skip


def _refused(planned: Mapping[str, Any]) -> dict[str, Any]:
    return {view["name"]: view["refused"] for view in planned["views"] if view["refused"]}


def _also(planned: Mapping[str, Any], changed: Names, work: Project) -> list[str]:
    """Files that were edited and not applied are taken too, as `headrace apply` takes them; readers begin anew.

    ``work``: the definitions at work; of a source without a table that is used the plan says that it is to be created.
    """
    told = []
    for entry in planned["changes"]:
        kind, name, action = entry["kind"], entry["name"], entry["action"]
        if action != "keep" and (kind, name) not in changed and (action != "create" or not defined(work, kind, name)):
            told.append(f"{action} {kind} {name}: {entry['reason']}")
    return told
