"""Stored queries as they are told, and whether they are queries of the views that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.catalog.document import did_you_mean
from headrace.catalog.project import files
from headrace.catalog.searches import FOLDER, StoredQueries
from headrace.catalog.store import Catalog, ViewRecord
from headrace.model.definition import StoredQuery
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve import snapshot
from headrace.serve.search.fields import fields
from headrace.serve.search.parse import parse


def listed(project: Path) -> list[dict[str, Any]]:
    """Every stored query by name, ``{"name", "view", "query", "problem"}``; what is wrong with it, or None."""
    queries, unread = StoredQueries(project).read()
    wrong = unread | problems(project, queries.values())
    return [
        {
            "name": name,
            "view": queries[name].view if name in queries else "",
            "query": queries[name].query if name in queries else "",
            "problem": wrong[name].as_dict() if name in wrong else None,
        }
        for name in sorted(queries | unread)
    ]


def checked(project: Path, query: StoredQuery) -> StoredQuery:
    """The query, its view spelled as its file is. Raises what is wrong with it."""
    for error in problems(project, [query]).values():
        raise error
    defined = {name.lower(): name for name, _ in files(project, "views", ".sql", [])}
    return replace(query, view=defined.get(query.view.lower(), query.view))


def built(query: StoredQuery, views: Mapping[str, ViewRecord]) -> StoredQuery:
    """The query, its view spelled as it is among ``views``. Raises what is wrong with it, or view.unknown."""
    record = {name.lower(): record for name, record in views.items()}.get(query.view.lower())
    if record is None:
        raise no_view(query, sorted(views))
    if (error := problem(query, record.schema)) is not None:
        raise error
    return replace(query, view=record.schema.name)


def problem(query: StoredQuery, schema: ViewSchema) -> HeadraceError | None:
    """What is wrong with a query of that view."""
    try:
        parse(query.query, fields(schema))
    except HeadraceError as error:
        return HeadraceError(
            error.code, error.what, where=f"{FOLDER}/{query.name}.yaml", why=error.why, next=error.next
        )
    return None


def problems(project: Path, queries: Iterable[StoredQuery]) -> dict[str, HeadraceError]:
    """What is wrong with which of these; of a view that is not built yet only its name can be looked at."""
    schemas = dict[str, ViewSchema]()
    if (path := snapshot.catalog_path(project)).exists():
        with closing(Catalog(path, read_only=True)) as catalog:
            schemas = {name.lower(): record.schema for name, record in catalog.views().items()}
    defined = [name for name, _ in files(project, "views", ".sql", [])]
    known = {name.lower() for name in defined} | schemas.keys()
    found = dict[str, HeadraceError]()
    for query in queries:
        schema = schemas.get(query.view.lower())
        if schema is not None:
            error = problem(query, schema)
        else:
            error = None if query.view.lower() in known else no_view(query, sorted(known))
        if error is not None:
            found[query.name] = error
    return found


def no_view(query: StoredQuery, known: list[str]) -> HeadraceError:
    """The error for a query of a view that is not among ``known``."""
    return HeadraceError(
        "view.unknown", f"there is no view '{query.view}'", where=f"{FOLDER}/{query.name}.yaml",
        next=did_you_mean(query.view, known) or f"views: {', '.join(known) or 'none yet'}",
    )  # fmt: skip
