"""The connectors that a project defines, made without connecting to anything."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from headrace.catalog.document import did_you_mean, load
from headrace.catalog.project import SINK_KEYS, SOURCE_KEYS, history, identity
from headrace.model.definition import Project, SinkDefinition, SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.sinks import registry as sinks
from headrace.sinks.base import Sink
from headrace.sources import registry as sources
from headrace.sources.base import DROP, REFUSE, Source

_KEY = re.compile(r"'([^'\[]+)")


def check(project: Project) -> None:
    """Raise what is wrong with the type or the options of a connector, before anything slow is started.

    ``config.unknown_type``, ``config.unknown_key`` or ``config.invalid``, with file and line.
    """
    for source in project.sources:
        make_source(source, project)
    for sink in project.sinks:
        make_sink(sink, project)


def make_source(definition: SourceDefinition, project: Project) -> Source:
    """The source of that definition. Raises as ``check`` does."""
    kind = sources.load(definition.type, _place(definition, project.path))
    more = {"project": identity(project)} if "project" in inspect.signature(kind).parameters else {}
    made: Source = _made(kind, definition, project.path, **more)
    if definition.when_full not in made.fullness:
        raise _located(_cannot(definition, made.fullness, project.path), definition, project.path)
    made.when_full = definition.when_full
    return made


def _cannot(definition: SourceDefinition, fullness: tuple[str, ...], folder: Path) -> HeadraceError:
    why = {
        DROP: "what it leaves out would not come again, and its tables would be wrong from then on",
        REFUSE: "it is read from: nobody is there who could be refused",
    }
    return HeadraceError(
        "config.invalid", f"'when_full': a source of type {definition.type} cannot {definition.when_full}",
        where=_place(definition, folder), why=why[definition.when_full],
        next=f"when_full: {' or '.join(fullness)}; what is not read yet waits at the source",
    )  # fmt: skip


def make_sink(definition: SinkDefinition, project: Project) -> Sink:
    """The sink of that definition. Raises as ``check`` does."""
    kind = sinks.load(definition.type, _place(definition, project.path))
    more = {"keys": definition.keys, "project": project.settings.name, "log": history(project)}
    made: Sink = _made(kind, definition, project.path, **more)
    if definition.searches and not made.tells:
        error = HeadraceError(
            "config.invalid", f"'searches': a sink of type {definition.type} takes views",
            where=_place(definition, project.path),
            why="what stored queries match is told, by webhook, mail or the page",
            next="type: webhook, mail or page, or make the condition a view",
        )  # fmt: skip
        raise _located(error, definition, project.path)
    return made


def _made(kind: type, definition: SourceDefinition | SinkDefinition, folder: Path, **more: Any) -> Any:
    if "base" in inspect.signature(kind).parameters:  # only a connector that reads or writes files asks for it
        more["base"] = folder
    try:
        return kind(definition.name, definition.options, where=_place(definition, folder), **more)
    except HeadraceError as error:
        raise _located(error, definition, folder) from error


def _place(definition: SourceDefinition | SinkDefinition, folder: Path) -> str:
    return definition.path.relative_to(folder).as_posix() if definition.path else definition.name


def _located(error: HeadraceError, definition: SourceDefinition | SinkDefinition, folder: Path) -> HeadraceError:
    """The error with the line of the key that it names first; a connector knows its file, but not its lines."""
    key = _KEY.search(error.what)
    if definition.path is None or key is None or error.where != _place(definition, folder):
        return error
    where, hint = load(definition.path, folder).place(*key[1].split(".")), error.next
    if error.code == "config.unknown_key" and "did you mean" not in hint:  # a key that every such file may have
        hint = did_you_mean(key[1], SINK_KEYS if isinstance(definition, SinkDefinition) else SOURCE_KEYS) or hint
    return HeadraceError(error.code, error.what, where=where, why=error.why, next=hint)
