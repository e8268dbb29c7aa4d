"""Goal: a view of a project at work is searched and its stored queries are followed; an edited view is found anew.

Method: the product in this process, transactions pushed into it; what the followed matches add up to is held against what
was pushed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

import headrace
from headrace.catalog import searches
from headrace.catalog.project import read
from headrace.model.definition import StoredQuery
from headrace.serve.search import index
from headrace.serve.search.found import search
from headrace.serve.search.watched import Watched
from project_folder import ProjectFolder


def order(id: int, note: str, op: str = "insert") -> dict[str, Any]:
    return {"table": "orders", "op": op, "row": {"id": id, "note": note}}


class Followed:
    """The matches of all stored queries of a view, added up by a thread."""

    def __init__(self, project: ProjectFolder, view: str) -> None:
        self.matches, self.commit, self.stop = Counter[tuple[str, int]](), -1, threading.Event()
        self._watched = Watched(project.path, view, None, print)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for commit, delta in self._watched.follow(self.stop):
            matches = Counter(self.matches)
            for query, id, weight in zip(*(delta[name].to_pylist() for name in ("_query", "id", "_w")), strict=True):
                matches[query, id] += weight
            self.matches, self.commit = matches, commit  # each as a whole

    def becomes(self, expected: set[tuple[str, int]]) -> None:
        end = time.monotonic() + 60
        while +self.matches != Counter(dict.fromkeys(expected, 1)) and time.monotonic() < end:
            time.sleep(0.02)
        assert +self.matches == Counter(dict.fromkeys(expected, 1))
        assert min(self.matches.values(), default=0) >= 0

    def end(self) -> None:
        self.stop.set()
        self._thread.join(20)


@pytest.mark.spark
def test_a_view_at_work_is_searched_and_its_stored_queries_are_followed(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "FRESH_S", 0.0)
    project.settings()
    columns = {"id": "bigint", "note": "string"}
    project.source("shop", "http", port=0, tables={"orders": {"columns": columns, "key": "id"}})
    project.view("notes", "select id, note from orders where id < 100")

    def found(query: str) -> list[int]:
        return sorted(search(project.path, "notes", query).rows["id"].to_pylist())

    with headrace.open(project.path) as shop:
        shop.wait_for(shop.push("shop", [order(1, "late parcel"), order(2, "paid"), order(200, "late")]), view="notes")
        assert found("late") == [1]
        searches.add(project.path, StoredQuery("late", "notes", "late OR refund"))
        followed = Followed(project, "notes")
        try:
            followed.becomes({("late", 1)})
            shop.push("shop", [order(2, "refund", "update"), order(3, "a refund is late")])
            shop.wait_for(shop.push("shop", [order(1, "arrived", "update")]), view="notes")
            assert found("late OR refund") == [2, 3]
            followed.becomes({("late", 2), ("late", 3)})
            searches.add(project.path, StoredQuery("three", "notes", "id:3"))
            followed.becomes({("late", 2), ("late", 3), ("three", 3)})
            project.view(
                "notes", "select id, concat(note, ' refund') as note, id > 2 as late from orders where id < 100"
            )
            shop.apply(read(project.path))
            followed.becomes({("late", 1), ("late", 2), ("late", 3), ("three", 3)})
            assert found("refund late:true") == [3]
            searches.remove(project.path, "late")
            followed.becomes({("three", 3)})
        finally:
            followed.end()
