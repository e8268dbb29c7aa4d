"""lineage: the columns that those of a view or table come from, and those that come from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.catalog.searches import StoredQueries
from headrace.control.names import known_view
from headrace.control.running import Progress, Running
from headrace.model.definition import Project

Place = tuple[str, str]  # a relation and a column of it
Told = list[dict[str, str]]


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Of one ``relation`` see ``of``; without one, those of all as ``{"columns", "rows", "reads"}``.

    ``reach``: "direct", or "all" for the columns of tables that it comes from through views, and all that come from it.
    """
    whole = running.pipeline.lineage()
    if arguments.get("relation") is None:
        return whole
    known = {column["relation"] for column in whole["columns"]}
    relation = known_view(str(arguments["relation"]), known)
    delivered = {sink["name"]: list(sink["views"]) for sink in running.pipeline.status()["sinks"]}
    sinks = delivered or _defined(running.pipeline.project, list(whole["rows"]))
    return of(whole, relation, sinks, through=arguments.get("reach") == "all")


def _defined(project: Project, views: list[str]) -> dict[str, list[str]]:
    """What each sink takes by its file, where none is at work; a query that is wrong takes nothing."""
    known = {view.lower(): view for view in views}
    queries, _ = StoredQueries(project.path).read()
    matched = {name.lower(): known.get(query.view.lower()) for name, query in queries.items()}
    taken = {sink.name: list(sink.views or views) for sink in project.sinks if not sink.searches}
    for sink in project.sinks:
        if sink.searches:
            of = {matched.get(query.lower()) for query in sink.searches}
            taken[sink.name] = [view for view in views if view in of]
    return taken


def of(whole: Mapping[str, Any], relation: str, sinks: Mapping[str, list[str]], *, through: bool) -> dict[str, Any]:
    """``{"relation", "kind", "columns", "rows", "sinks"}``; a column has ``value`` and ``rows``, which it comes from,
    and ``into``, each with ``by`` which of both."""
    columns, rows = {_place(each): each for each in whole["columns"]}, whole["rows"]
    sources = {place: (_places(each["value"]), _places(each["rows"])) for place, each in columns.items()}
    deciding = {view: _places(of_view) for view, of_view in rows.items()}
    if through:
        sources, deciding = reached(sources, deciding, whole["reads"])

    def shown(places: Iterable[Place]) -> Told:
        return [
            {"relation": name, "column": column}
            for name, column in sorted(places) if not through or name not in rows
        ]  # fmt: skip

    into: dict[Place, Told] = {place: [] for place in sources}
    for (name, column), found in sources.items():
        for by, places in zip(("value", "rows"), found, strict=True):
            for place in places:
                into[place].append({"relation": name, "column": column, "by": by})
    below = {relation, *(each["relation"] for place in into if place[0] == relation for each in into[place])}
    return {
        "relation": relation,
        "kind": "view" if relation in rows else "table",
        "columns": [
            {
                "column": column, "type": columns[name, column]["type"],
                "value": shown(value), "rows": shown(decides), "into": into[name, column],
            }
            for (name, column), (value, decides) in sources.items() if name == relation
        ],
        "rows": shown(deciding.get(relation, ())),
        "sinks": [sink for sink, views in sinks.items() if (below if through else {relation}) & set(views)],
    }  # fmt: skip


def reached(
    sources: Mapping[Place, tuple[set[Place], set[Place]]], deciding: Mapping[str, set[Place]],
    reads: Mapping[str, list[str]],
) -> tuple[dict[Place, tuple[set[Place], set[Place]]], dict[str, set[Place]]]:  # fmt: skip
    """The same through all views between; ``sources`` are upstream first."""
    found: dict[Place, tuple[set[Place], set[Place]]] = {}
    rows: dict[str, set[Place]] = {}

    def behind(places: set[Place]) -> set[Place]:
        return places.union(*(side for each in places for side in found[each]))

    for place, (value, decides) in sources.items():
        view = place[0]
        if view in deciding and view not in rows:
            # A view that reads no column of another still has as many rows as that gives it.
            rows[view] = behind(deciding[view]).union(*(rows.get(name, set()) for name in reads[view]))
        values = value.union(*(found[each][0] for each in value))
        others = behind(decides).union(rows.get(view, set()), *(found[each][1] for each in value))
        found[place] = values, others - values
    return found, rows


def _place(of: Mapping[str, str]) -> Place:
    return of["relation"], of["column"]


def _places(told: Told) -> set[Place]:
    return {_place(each) for each in told}
