"""create: a source, view or sink is planned, its file written, and taken; what is refused leaves nothing behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from headrace.catalog.project import place, read, with_definition
from headrace.catalog.written import write
from headrace.control.followed import followed
from headrace.control.names import defined
from headrace.control.running import Progress, Running
from headrace.control.socket import ClientGone
from headrace.model.definition import Project
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
    notices = take(running, before, wanted, (kind, name), _writing(running, kind, name, text), progress)
    return {"kind": kind, "name": name, "done": True, "file": place(kind, name), "notices": notices}


def take(
    running: Running,
    before: Project,
    wanted: Project,
    changed: tuple[str, str],
    change: Callable[[], Callable[[], None]],
    progress: Progress,
) -> list[str]:
    """Plan ``wanted``, ``change`` the files to it and have them taken; what else has changed by it.

    ``before``: the files as they are; ``changed``: kind and name; ``change`` returns what undoes it. Raises what
    refuses it, or a view because of it: then the files are as before.
    """
    planned = running.pipeline.plan(wanted)
    for error in planned["unread"].values():
        raise HeadraceError(**error)
    _refuse(planned, changed, lambda: _refused(running.pipeline.plan(before)))
    work = running.pipeline.project
    undo = change()
    try:
        with contextlib.suppress(ClientGone):
            progress({"text": "applying"})
        with followed(running, progress):
            running.pipeline.apply(read(running.path))
    except BaseException:
        undo()
        raise
    return [*_also(planned, changed, work), *map(str, planned["warnings"])]


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


def _also(planned: Mapping[str, Any], changed: tuple[str, str], work: Project) -> list[str]:
    """Files that were edited and not applied are taken too, as `headrace apply` takes them; readers begin anew.

    ``work``: the definitions at work; of a source without a table that is used the plan says that it is to be created.
    """
    told = []
    for entry in planned["changes"]:
        kind, name, action = entry["kind"], entry["name"], entry["action"]
        if action != "keep" and (kind, name) != changed and (action != "create" or not defined(work, kind, name)):
            told.append(f"{action} {kind} {name}: {entry['reason']}")
    return told


def _writing(running: Running, kind: str, name: str, text: str) -> Callable[[], Callable[[], None]]:
    path = running.path / place(kind, name)

    def change() -> Callable[[], None]:
        was = path.read_text(encoding="utf-8") if path.exists() else None
        write(path, text)
        return path.unlink if was is None else lambda: write(path, was)

    return change
