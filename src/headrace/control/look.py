"""What SHOW tells of definitions and relations: of the files as they are, and of what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.catalog.document import did_you_mean, load
from headrace.catalog.project import survey
from headrace.catalog.store import Catalog
from headrace.control.names import known
from headrace.formats.secrets import masked
from headrace.model.definition import Project, SinkDefinition, ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column
from headrace.sql.definitions import List, ShowColumns, ShowCreate
from headrace.sql.spelled import Defined, statement


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of texts."""

    columns: tuple[str, ...]
    rows: list[list[str]]


def look(
    path: Path, asked: List | ShowCreate | ShowColumns, reaches: Callable[[str], bool], *, secrets: bool = True
) -> Shown:
    """``reaches``: whether who asks may know of a view or a table; ``secrets``: of those in plain text in a file.

    Raises ``view.unknown``, ``definition.unknown``, ``sql.unknown_relation``.
    """
    project, _ = survey(path)
    if isinstance(asked, ShowCreate):
        return _create(path, project, asked, reaches, secrets=secrets)
    relations, states = _kept(path)
    if isinstance(asked, ShowColumns):
        return _columns(asked.name, {name: columns for name, (_, columns) in relations.items() if reaches(name)})
    if asked.what == "sources":
        return Shown(("name", "type"), [[each.name, each.type] for each in project.sources])
    if asked.what == "sinks":
        every = [[each.name, each.type, _taken(each)] for each in project.sinks]
        return Shown(("name", "type", "views"), every)
    if asked.what == "tables":
        tables = sorted((name, owner) for name, (owner, _) in relations.items() if name not in states)
        return Shown(("name", "source"), [[name, owner] for name, owner in tables if reaches(name)])
    views = {**{view.name: "new" for view in project.views}, **states}
    return Shown(("name", "state"), [[name, views[name]] for name in sorted(views) if reaches(name)])


def _taken(sink: SinkDefinition) -> str:
    matches = (f"matches of {query}" for query in sink.searches)
    return ", ".join(sink.views or matches if sink.views or sink.searches else ("all",))


def _create(path: Path, project: Project, asked: ShowCreate, reaches: Callable[[str], bool], *, secrets: bool) -> Shown:
    if asked.kind == "view":  # what may not be known of is as what is not there
        project = Project(path, views=tuple(view for view in project.views if reaches(view.name)))
    found = known(project, asked.kind, asked.name)
    if isinstance(found, ViewDefinition):
        text = statement(Defined("view", found.name, sql=found.sql))
    else:
        assert found.path is not None
        left = {name: value for name, value in load(found.path, path).values.items() if name not in ("type", "views")}
        views = found.views or () if isinstance(found, SinkDefinition) else ()
        text = statement(
            Defined(asked.kind, found.name, type=found.type, views=views, options=left if secrets else masked(left))
        )
    return Shown(("name", "create_statement"), [[found.name, text]])


def _columns(name: str, relations: dict[str, tuple[Column, ...]]) -> Shown:
    spelled = {each.lower(): each for each in relations}
    if name.lower() not in spelled:
        near = did_you_mean(name, relations) or "SHOW VIEWS, SHOW TABLES"
        raise HeadraceError("sql.unknown_relation", f"there is no view or table '{name}'", next=near)
    rows = [[each.name, each.type, str(each.nullable).lower()] for each in relations[spelled[name.lower()]]]
    return Shown(("name", "type", "nullable"), rows)


def _kept(path: Path) -> tuple[dict[str, tuple[str, tuple[Column, ...]]], dict[str, str]]:
    """(relation -> source or "", and columns; view -> state); nothing before the first `headrace up`."""
    from headrace.serve.snapshot import catalog_path  # loads pyarrow

    if not catalog_path(path).exists():
        return {}, {}
    catalog = Catalog(catalog_path(path), read_only=True)
    try:
        views = catalog.views()
        found = {name: (owner, relation.columns) for name, (owner, relation) in catalog.relations().items()}
        found |= {name: ("", record.schema.columns) for name, record in views.items()}
        return found, {name: record.state for name, record in views.items()}
    finally:
        catalog.close()
