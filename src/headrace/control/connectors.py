"""Connectors by the type that a definition names."""

from __future__ import annotations

from pathlib import Path

from headrace.model.definition import Project, SinkDefinition, SourceDefinition
from headrace.sinks import registry as sinks
from headrace.sources import registry as sources


def check(project: Project) -> None:
    """Raise ``config.unknown_type`` for a type that does not exist, before anything slow is started."""
    for source in project.sources:
        sources.load(source.type, _place(source, project.path))
    for sink in project.sinks:
        sinks.load(sink.type, _place(sink, project.path))


def _place(definition: SourceDefinition | SinkDefinition, folder: Path) -> str:
    return definition.path.relative_to(folder).as_posix() if definition.path else definition.name
