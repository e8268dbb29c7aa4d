"""What a limited token is told of a project: what it reaches, and of all else not even the names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.api.who import Asking

HIDDEN = "(hidden)"  # in the place of a name; no relation can have it
_COUNTS = ("state", "commit", "frontier")

Told = Mapping[str, Any]


def of_view(who: Asking, view: Told) -> dict[str, Any]:
    """What a view reads, why it has failed and on which rows, as far as who asks may know of those relations."""
    return {
        "reason": who.principal.told(view["reason"]),
        "reads": [each for each in view.get("reads", []) if who.reaches(each)],
        "failing": [row for row in view["failing"] if who.reaches(row.get("table") or row.get("view") or view["name"])],
    }


def status(who: Asking, told: Told) -> Told:
    """The commits and the views that are reached: sources and sinks are of the whole project."""
    if not who.limited:
        return told
    views = [{**view, **of_view(who, view)} for view in told["views"] if who.reaches(view["name"])]
    return {**{name: told[name] for name in _COUNTS if name in told}, "views": views, "sources": [], "sinks": []}


def graph(who: Asking, told: Told) -> Told:
    """Of ``control.lineage.graph``, and of the columns that it may have, what is reached."""
    if not who.limited:
        return told
    nodes = [node for node in told["nodes"] if node["kind"] in ("table", "view") and who.reaches(node["name"])]
    there = {node["id"] for node in nodes}
    found = {"nodes": nodes, "edges": [edge for edge in told["edges"] if {edge["from"], edge["to"]} <= there]}
    if "columns" in told:
        found["columns"] = [_column(who, each) for each in told["columns"] if who.reaches(each["relation"])]
    return found


def lineage(who: Asking, told: Told) -> Told:
    """Of ``control.columns.of``; places in relations that are not reached are hidden, each kind once."""
    if not who.limited:
        return told
    columns = [_column(who, each) for each in told["columns"]]
    return {**told, "columns": columns, "rows": _places(who, told["rows"]), "sinks": []}


def explained(who: Asking, told: Told, relations: Iterable[str]) -> Told:
    """Of ``control.explain``, without the names of those of all ``relations`` that are not reached.

    The view's SQL stays as it is: who reaches a view is told its definition.
    """
    others = sorted((re.escape(name) for name in relations if not who.reaches(name)), key=len, reverse=True)
    if not who.limited or not others:
        return told
    named = re.compile(rf"(?<!\w)(?:{'|'.join(others)})(?!\w)", re.IGNORECASE)

    def hidden(value: Any) -> Any:
        if isinstance(value, str):
            return named.sub(HIDDEN, value)
        if isinstance(value, Mapping):
            return {name: hidden(each) for name, each in value.items()}
        return [hidden(each) for each in value] if isinstance(value, list) else value

    return {name: value if name in ("view", "sql") else hidden(value) for name, value in told.items()}


def _column(who: Asking, column: Told) -> dict[str, Any]:
    return {**column, **{by: _places(who, column[by]) for by in ("value", "rows", "into") if by in column}}


def _places(who: Asking, places: Iterable[Told]) -> list[Told]:
    found = list[Told]()
    for place in places:
        told = place if who.reaches(place["relation"]) else {**place, "relation": HIDDEN, "column": HIDDEN}
        if told not in found:
            found.append(told)
    return found
