"""What the definitions change: each source, view and sink created, replaced, dropped or kept, and who is affected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.catalog.store import ViewRecord
from headrace.engine.compile import Compilation, Compiled
from headrace.engine.functions import shown
from headrace.model.definition import Project, SinkDefinition, SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.sources.base import Source


def changes(
    project: Project,
    before: Project,
    compilation: Compilation,
    records: Mapping[str, ViewRecord],
    relations: Mapping[str, tuple[str, Relation]],
    sinks: set[str],
) -> list[dict[str, Any]]:
    """One entry a source, view and sink: ``action``, ``kind``, ``name``, ``reason``, ``affects``.

    ``before``: the definitions of the sources and sinks at work (``project`` itself when nothing runs).
    """
    entries: list[dict[str, Any]] = []
    entries += _connectors("source", project.sources, before.sources, {source for source, _ in relations.values()})
    readers = {
        name: sorted(other for other, compiled in compilation.views.items() if name in compiled.reads)
        for name in [*compilation.views, *records]
    }
    for definition in project.views:
        record = records.get(definition.name)
        compiled = compilation.views.get(definition.name)
        if compiled is None:
            kept = "the version before it goes on" if record is not None else "it is not created"
            entries.append(_entry("keep", "view", definition.name, f"refused; {kept}", []))
        elif record is None:
            entries.append(_entry("create", "view", definition.name, "new", []))
        elif record.schema.version != compiled.schema.version or record.state != "live":
            affected = readers[definition.name] + _sinks_of(project, definition.name)
            entries.append(_entry("replace", "view", definition.name, _why(record, compiled), affected))
        else:
            entries.append(_entry("keep", "view", definition.name, "", []))
    for name in records:
        if name not in {d.name for d in project.views}:
            entries.append(_entry("drop", "view", name, "its file is gone", _sinks_of(project, name)))
    return entries + _connectors("sink", project.sinks, before.sinks, sinks)


def without_tables(
    compilation: Compilation, sources: Mapping[str, Source], unread: Mapping[str, HeadraceError]
) -> Compilation:
    """The same, where the tables of some sources are not known: a table that is not there may be one of theirs."""
    refused = {
        view: unasked(compilation.absent[view], was, sources, unread) if view in compilation.absent else was
        for view, was in compilation.refused.items()
    }
    return replace(compilation, refused=refused)


def unasked(
    table: str, was: HeadraceError, sources: Mapping[str, Source], unread: Mapping[str, HeadraceError], then: str = ""
) -> HeadraceError:
    """What ``was`` said of a table that is not known; that a source could not be asked, where it may be one of its own.

    ``then``: what helps, where that is not to look again.
    """
    names = [name for name in unread if _may_have(sources[name], table)]
    if not names:
        return was
    name, error = names[0], unread[names[0]]
    also = [f"source {other} could not be asked either" for other in names[1:]]
    return HeadraceError(
        error.code, f"source {name} could not be asked for its tables: {error.what}", where=was.where,
        why="; ".join([*error.why.splitlines()[:1], *also, f"of those that are known, {was.what}"]),
        next=then or f"when source {name} answers, look again with `headrace plan`",
    )  # fmt: skip


def _may_have(source: Source, table: str) -> bool:
    return source.named is None or table.lower() in {name.lower() for name in source.named}


def waits(refused: HeadraceError) -> bool:
    """Whether what refuses a view is a table that may still come to be known."""
    return refused.code == "sql.unknown_relation" or refused.code.startswith("source.")


def called(project: Project, compilation: Compilation) -> list[dict[str, Any]]:
    """The functions of the project: ``name``, ``file``, whether it is ``allowed`` to run, ``views`` that call it."""
    return [
        {
            "name": name,
            "file": shown(file),
            "allowed": project.settings.code,
            "views": [view for view, compiled in compilation.views.items() if name.lower() in compiled.calls],
        }
        for file in project.functions
        for name in file.declares
    ]


def _connectors(
    kind: str,
    wanted: Sequence[SourceDefinition | SinkDefinition],
    before: Sequence[SourceDefinition | SinkDefinition],
    known: set[str],
) -> list[dict[str, Any]]:
    """Entries of sources or sinks; ``known``: the names that are in the catalogue."""
    entries = []
    at_work = {d.name: d for d in before}
    for d in wanted:
        if d.name in at_work and at_work[d.name] != d:
            entries.append(_entry("replace", kind, d.name, f"{d.type}; its options change", []))
        else:
            entries.append(_entry("keep" if d.name in known else "create", kind, d.name, d.type, []))
    left = "what was made at it stays" if kind == "source" else "its tables stay in the store"
    for name in sorted((known | at_work.keys()) - {d.name for d in wanted}):
        entries.append(_entry("drop", kind, name, f"its file is gone; {left}", []))
    return entries


def _why(record: ViewRecord, compiled: Compiled) -> str:
    columns = compiled.schema.names
    if record.state == "failed":
        return f"it failed: {record.reason}"
    if record.schema.names != columns:
        return f"columns change from {', '.join(record.schema.names)} to {', '.join(columns)}"
    if record.fingerprint.partition(".")[0] == compiled.root.fingerprint:
        return "built by another version of Spark or Headrace, or with another time_zone or ansi"
    return "its query, a function it calls, or a view it reads, changes"


def _sinks_of(project: Project, view: str) -> list[str]:
    return [f"sink {s.name}" for s in project.sinks if s.views is None or view in s.views]


def _entry(action: str, kind: str, name: str, reason: str, affects: list[str]) -> dict[str, Any]:
    return {"action": action, "kind": kind, "name": name, "reason": reason, "affects": affects}
