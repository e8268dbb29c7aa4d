"""create: a source, view or sink is planned, its file written, and taken; what is refused leaves nothing behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from headrace.catalog.project import place, read, with_definition
from headrace.catalog.written import written
from headrace.control.followed import followed
from headrace.control.names import defined
from headrace.control.running import Progress, Running
from headrace.control.socket import ClientGone
from headrace.model.definition import Project, SourceDefinition
from headrace.model.errors import HeadraceError


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"kind", "name", "done", "file", "notices"}``: whether there was anything to do, and what else has changed.

    ``text`` is that of the file. With ``replace`` it takes the place of the one that is there; with ``missing_only``
    that one stays; with neither it is refused with ``definition.exists``. Goes on to the end when the caller leaves.
    """
    kind, name, text = str(arguments["kind"]), str(arguments["name"]), str(arguments["text"])
    before = read(running.path)
    known = defined(before, kind, name)
    if known is not None:
        name, file = known.name, place(kind, known.name)
        if arguments.get("missing_only"):
            return {"kind": kind, "name": name, "done": False, "file": file, "notices": [f"there is a {kind} '{name}'"]}
        if not arguments.get("replace"):
            raise HeadraceError(
                "definition.exists", f"there is a {kind} '{name}' already", where=file,
                next=f"CREATE OR REPLACE {kind.upper()} {name} ..., or DROP {kind.upper()} {name} first",
            )  # fmt: skip
    wanted = with_definition(before, kind, name, text)
    with contextlib.suppress(ClientGone):
        progress({"text": f"planning {kind} {name}"})
    file = place(kind, name)
    change = written(running.path / file, text, new=known is None, private=kind != "view")
    notices = take(running, before, wanted, (kind, name), change, progress)
    failed = _failures(running, name) if kind == "view" else []
    return {"kind": kind, "name": name, "done": True, "file": file, "notices": [*failed, *notices]}


def _failures(running: Running, view: str) -> list[str]:
    """It is there, and yet without contents: its SQL throws on rows that there are."""
    views = running.pipeline.status()["views"]
    return [
        f"view {view} has failed: {each['reason']}"
        for each in views
        if each["name"] == view and each["state"] == "failed"
    ]


def take(
    running: Running,
    before: Project,
    wanted: Project,
    changed: tuple[str, str],
    change: AbstractContextManager[None],
    progress: Progress,
) -> list[str]:
    """Plan ``wanted``, ``change`` the files to it and have them taken; what else has changed by it.

    ``before``: the files as they are; ``changed``: kind and name; ``change`` undoes itself where its block fails.
    Raises what refuses it, or a view because of it: then the files, and what is at work, are as before.
    """
    work = running.pipeline.project
    planned = running.pipeline.plan(wanted)
    left = _left(planned["unread"], wanted, work, changed)
    _refuse(planned, changed, lambda: _refused(running.pipeline.plan(before)))
    with change:
        with contextlib.suppress(ClientGone):
            progress({"text": "applying"})
        try:
            with followed(running, progress):
                running.pipeline.apply(_without(left, read(running.path), work))
        except Exception:
            with contextlib.suppress(Exception):  # what is raised is why; sources that began, or ended, are as before
                running.pipeline.apply(work)
            raise
    notices = [f"source {name} is left as it was: {error['what']}: {error['why']}" for name, error in left.items()]
    return [*_also(planned, (changed, *(("source", name) for name in left)), work), *notices, *planned["warnings"]]


def _left(unread: Mapping[str, Any], wanted: Project, work: Project, changed: tuple[str, str]) -> Mapping[str, Any]:
    """Of the sources whose tables nobody can tell those that were edited and not applied: they hold up nobody."""
    for name, error in unread.items():
        if ("source", name) == changed or defined(wanted, "source", name) in work.sources:
            raise HeadraceError(**error)
    return unread


def _without(left: Collection[str], project: Project, work: Project) -> Project:
    """The project with the sources ``left`` as they are at work, or not at all."""
    at_work = {source.name: source for source in work.sources}
    kept = (at_work.get(source.name) if source.name in left else source for source in project.sources)
    return replace(project, sources=tuple(source for source in kept if isinstance(source, SourceDefinition)))


def _refuse(planned: Mapping[str, Any], changed: tuple[str, str], before: Callable[[], Mapping[str, Any]]) -> None:
    """Raises what refuses the view itself, or another one that was not refused before."""
    refused = _refused(planned)
    if changed[0] == "view" and changed[1] in refused:
        raise HeadraceError(**refused[changed[1]])
    left = sorted(refused.keys() - before().keys()) if refused else []
    if left:
        error = refused[left[0]]
        raise HeadraceError(
            "view.has_readers", f"view {left[0]} could not go on: {error['what']}", where=f"views/{left[0]}.sql",
            why=f"it reads {changed[0]} {changed[1]}", next=f"change or drop {', '.join(left)} first",
        )  # fmt: skip


def _refused(planned: Mapping[str, Any]) -> dict[str, Any]:
    return {view["name"]: view["refused"] for view in planned["views"] if view["refused"]}


def _also(planned: Mapping[str, Any], changed: Collection[tuple[str, str]], work: Project) -> list[str]:
    """Files that were edited and not applied are taken too, as `headrace apply` takes them; readers begin anew.

    ``work``: the definitions at work; of a source without a table that is used the plan says that it is to be created.
    """
    told = []
    for entry in planned["changes"]:
        kind, name, action = entry["kind"], entry["name"], entry["action"]
        if action != "keep" and (kind, name) not in changed and (action != "create" or not defined(work, kind, name)):
            told.append(f"{action} {kind} {name}: {entry['reason']}")
    return told
