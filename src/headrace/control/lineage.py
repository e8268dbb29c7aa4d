"""What flows from which to which: sources, their tables, views, sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def graph(status: Mapping[str, Any]) -> dict[str, Any]:
    """``{"nodes": [{"id", "kind", "name", "state"}], "edges": [{"from", "to"}]}`` of a status, without doubles.

    An id is ``KIND:NAME``. A table is as well as its source is.
    """
    nodes, edges = list[dict[str, str]](), list[dict[str, str]]()
    views = {str(view["name"]) for view in status["views"]}

    def node(kind: str, name: str, state: str) -> str:
        nodes.append({"id": f"{kind}:{name}", "kind": kind, "name": name, "state": state})
        return f"{kind}:{name}"

    for source in status["sources"]:
        of = node("source", source["name"], source["state"])
        edges += [{"from": of, "to": node("table", table, source["state"])} for table in source["tables"]]
    for view in status["views"]:
        to = node("view", view["name"], view["state"])
        edges += [{"from": f"{'view' if n in views else 'table'}:{n}", "to": to} for n in view.get("reads", ())]
    for sink in status["sinks"]:
        to = node("sink", sink["name"], sink["state"])
        edges += [{"from": f"view:{name}", "to": to} for name in sink.get("views", ())]
    there = {each["id"] for each in nodes}
    return {"nodes": nodes, "edges": [edge for edge in edges if edge["from"] in there]}
