"""Goal: a stored query that is moved to another view takes its matches of the old one back and begins with those of the
new one, and who does not reach the new one learns nothing of it.

Method: two views published by hand with rows that both match; what is followed is added up, over HTTP and in the folder.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from served_project import Site, site

from headrace.catalog import searches
from headrace.governance.roles import Role
from headrace.model.definition import StoredQuery
from headrace.serve.search import watched
from headrace.serve.search.watched import Watched, changes
from psql_project import Views

BOTH = [(1, "late"), (2, "late")]  # rows of each of the two
OLD, NEW = [*BOTH, (3, "late")], [*BOTH, (4, "late")]
Event = tuple[str, Any, str]  # kind, data, id


@pytest.fixture
def views(tmp_path: Path) -> Views:
    made = Views(tmp_path / "shop")
    for name in ("orders", "returns"):
        made.view(name, {"id": "int", "note": "string"}, ("id",))
    made.step(orders=[(*row, 1) for row in [*OLD, (9, "fine")]], returns=[(*row, 1) for row in [*NEW, (9, "fine")]])
    searches.add(made.folder, StoredQuery("late", "orders", "late"))
    return made


@pytest.fixture
def served(views: Views) -> Iterator[Site]:
    with site(views.folder) as running:
        yield running


def events(response: httpx.Response) -> Iterator[Event]:
    kind, number, end = "", "", time.monotonic() + 20
    for line in response.iter_lines():
        assert time.monotonic() < end, "it goes on"
        name, _, value = line.partition(":")
        if name == "event":
            kind, number = value.strip(), ""
        elif name == "id":
            number = value.strip()
        elif name == "data" and kind != "progress":
            yield kind, orjson.loads(value), number


def held(told: list[Event]) -> Counter[tuple[int, str]]:
    rows = Counter[tuple[int, str]]()
    for kind, data, _ in told:
        if kind == "behind":
            rows.clear()
        for each in data.get("rows", ()):
            rows[each["row"]["id"], each["row"]["note"]] += each["weight"]
    return Counter({row: count for row, count in rows.items() if count})


def move(views: Views, view: str) -> None:
    searches.change(views.folder, StoredQuery("late", view, "late"))


def test_over_http_it_ends_with_nothing_and_begins_anew(views: Views, served: Site) -> None:
    """Of a reader of both and of one that reaches the old one alone."""
    narrow = served.tokens.create("narrow", Role.VIEWER, ["orders"])[1]
    with served.client() as owner, served.client(narrow) as viewer:
        with (
            owner.stream("GET", "/api/queries/late/changes") as whole,
            viewer.stream("GET", "/api/queries/late/changes") as part,
        ):
            streams = [events(whole), events(part)]
            told = [[next(stream)] for stream in streams]
            move(views, "returns")
            views.step(orders=[(5, "late", 1)], returns=[(6, "late", 1)])
            for seen, stream in zip(told, streams, strict=True):
                assert held(seen) == Counter(OLD)
                seen.extend(stream)
                assert [kind for kind, *_ in seen[-2:]] == ["behind", "snapshot"] and held(seen) == {}
                assert {(6, "late"), (4, "late")}.isdisjoint(held(seen[:-2]))
        assert "returns" not in str(told[1])
        with owner.stream("GET", "/api/queries/late/changes", headers={"Last-Event-ID": told[0][-1][2]}) as whole:
            stream = events(whole)
            told[0] += [next(stream), next(stream)]
            assert [kind for kind, *_ in told[0][-2:]] == ["behind", "snapshot"]
            assert held(told[0]) == Counter([*NEW, (6, "late")])
            views.step(orders=[(7, "late", 1)], returns=[(8, "late", 1)])
            told[0].append(next(stream))
            assert held(told[0]) == Counter([*NEW, (6, "late"), (8, "late")])
        move(views, "orders")  # the very query that it was, of which a reader of its end has nothing any more
        with owner.stream("GET", "/api/queries/late/changes", headers={"Last-Event-ID": told[1][-1][2]}) as whole:
            stream = events(whole)
            told[1] += [next(stream), next(stream)]
            assert held(told[1]) == Counter([*OLD, (5, "late"), (7, "late")])
        move(views, "returns")
        assert viewer.get("/api/queries").json() == []
        for path in ("matches", "changes"):
            refused = viewer.get(f"/api/queries/late/{path}")
            assert (refused.status_code, refused.json()["code"]) == (404, "search.unknown")
            assert "returns" not in refused.text


class Ends(threading.Event):
    """After a time."""

    def __init__(self) -> None:
        super().__init__()
        self.end = time.monotonic() + 10

    def is_set(self) -> bool:
        return time.monotonic() > self.end


def test_in_the_folder_the_old_view_gives_them_back_and_the_new_one_has_them_once(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There and back, with steps in between that neither tells twice."""
    monkeypatch.setattr(watched, "LOOK_S", 0.0)
    old, new = (Watched(views.folder, name, None, pytest.fail).follow(Ends()) for name in ("orders", "returns"))

    def told(stream: Iterator[Any]) -> Counter[tuple[int, str]]:
        return Counter({(c["row"]["id"], c["row"]["note"]): c["weight"] for c in changes(next(stream)[1])})

    assert told(old) == Counter(OLD) and told(new) == {}
    move(views, "returns")
    assert told(old) == dict.fromkeys(OLD, -1) and told(new) == Counter(NEW)
    views.step(orders=[(5, "late", 1)], returns=[(6, "late", 1)])
    assert told(new) == {(6, "late"): 1}
    move(views, "orders")
    assert told(old) == Counter([*OLD, (5, "late")]) and told(new) == dict.fromkeys([*NEW, (6, "late")], -1)
    views.step(orders=[(7, "late", 1)], returns=[(8, "late", 1)])
    assert told(old) == {(7, "late"): 1}
