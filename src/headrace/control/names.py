"""Names that a caller gave, against those that exist."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.catalog.document import did_you_mean
from headrace.model.definition import Project, SinkDefinition, SourceDefinition, ViewDefinition
from headrace.model.errors import HeadraceError


def known_view(name: str, known: Iterable[str]) -> str:
    """``name`` as it is spelled in the project (SQL does not tell case apart), or ``view.unknown``."""
    views = sorted(known)
    for view in views:
        if view.lower() == name.lower():
            return view
    hint = did_you_mean(name, views) or (f"views: {', '.join(views)}" if views else "")
    raise HeadraceError(
        "view.unknown",
        f"there is no view '{name}'",
        why="" if views else "the project has no views yet",
        next=hint or "a view is a file views/NAME.sql with one SELECT",
    )


def defined(project: Project, kind: str, name: str) -> SourceDefinition | ViewDefinition | SinkDefinition | None:
    """The source, view or sink of that name, in any case."""
    every: dict[str, Iterable[SourceDefinition | ViewDefinition | SinkDefinition]] = {
        "source": project.sources, "view": project.views, "sink": project.sinks,
    }  # fmt: skip
    return next((each for each in every[kind] if each.name.lower() == name.lower()), None)


def known(project: Project, kind: str, name: str) -> SourceDefinition | ViewDefinition | SinkDefinition:
    """The same. Raises ``definition.unknown``, with the nearest name; of a view ``view.unknown``."""
    found = defined(project, kind, name)
    if found is not None:
        return found
    if kind == "view":
        known_view(name, [view.name for view in project.views])
    names = [each.name for each in (project.sources if kind == "source" else project.sinks)]
    hint = did_you_mean(name, names) or f"{kind}s: {', '.join(names) or 'none'}"
    raise HeadraceError("definition.unknown", f"there is no {kind} '{name}'", next=hint)
