"""Goal: questions that take long are few at once and end in time, whatever they ask; all others are answered beside them.

Method: real HTTP over a view and a table that are published by hand. Places and seconds are made few, and an index is held
up as it is made.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from served_project import site

from headrace.api import few
from headrace.api.routes import reads
from headrace.catalog.store import Catalog
from headrace.serve.mirror import Mirror
from headrace.serve.places import Places
from headrace.serve.search.index import Progress, RelationIndex, State
from published_view import Published
from random_log import RELATIONS, RandomLog, history

COMMITS = 60
LONG = (
    f"views/sums/rows?at={COMMITS}", f"views/sums/row?id=4711&at={COMMITS}", f"views/orders/rows?at={COMMITS}",
    f"views/sums/rows?limit={reads.PAGE_ROWS + 1}", "views/sums/series?time=n&every=1h", "views/sums/search?q=*",
    "queries/all/matches", f"queries/all/matches?at={COMMITS}",
)  # fmt: skip
SHORT = (f"views/sums/rows?limit={reads.PAGE_ROWS}", "views/sums/row?id=4711", "views/orders/rows", "views", "status")


@pytest.fixture(scope="module")
def made() -> RandomLog:
    return RandomLog(4)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, made: RandomLog) -> Iterator[httpx.Client]:
    published, rng = Published(tmp_path_factory.mktemp("few") / "shop"), random.Random(2)
    published.catalog.put_relation("shop", RELATIONS["orders"])
    made.grow(published.state / "log", COMMITS)
    published.step([published.changes(rng) for _ in range(COMMITS)], each=True)
    with site(published.folder) as running, running.client() as asking:
        asking.base_url = f"{running.url}/api/"
        asking.post("queries", json={"name": "all", "view": "sums", "query": "*"}).raise_for_status()
        yield asking


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_what_is_beyond_the_few_is_told_to_come_back(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few, "_running", Places(1, 1))
    sql = {"sql": "SELECT 1"}
    with few._running.one(None):
        for busy in [*(client.get(path) for path in LONG), client.post("sql", json=sql)]:
            assert (*refusal(busy), busy.headers["retry-after"]) == (503, "wait.busy", "1"), busy.url
        for path in SHORT:
            assert client.get(path).status_code in (200, 404), path
    for path in LONG:  # each leaves its place, whatever it is answered
        assert client.get(path).status_code != 503, path
    late = "SELECT sum(length(repeat('x', 20000) || range)) FROM range(10000000)"
    assert client.post("sql", json=sql).status_code == 200  # what answers is there
    assert refusal(client.post("sql", json={"sql": late, "seconds": 3})) == (504, "query.timeout")
    assert client.post("sql", json=sql).status_code == 200


def test_one_token_leaves_places_to_others(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few, "_running", Places(3, 2))
    monkeypatch.setattr(few, "OF_ONE", 2)
    made = client.post("tokens", json={"name": "greedy", "role": "viewer"}).json()["token"]
    greedy = {"Authorization": f"Bearer {made}"}
    late = {"sql": "SELECT sum(length(repeat('x', 20000) || range)) FROM range(10000000)", "seconds": 3}
    with ThreadPoolExecutor(2) as asking:
        running = [asking.submit(client.post, "sql", json=late, headers=greedy) for _ in range(2)]
        while few._running.taken < 2:
            assert not any(each.done() for each in running)
            time.sleep(0.01)
        busy = client.post("sql", json={"sql": "SELECT 1"}, headers=greedy)
        assert (*refusal(busy), busy.json()["what"]) == (503, "wait.busy", "2 queries by this token run already")
        assert client.post("sql", json={"sql": "SELECT 1"}).status_code == 200
        assert client.get("views/sums/series?time=n&every=1h").status_code != 503
        assert {refusal(each.result()) for each in running} == {(504, "query.timeout")}
    assert few._running.taken == 0
    assert client.post("sql", json={"sql": "SELECT 1"}, headers=greedy).status_code == 200


def test_a_first_read_that_takes_long_ends_in_time_and_is_there_the_next_time(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, go, brought = Mirror.holds, threading.Event(), Mirror._brought

    def slow(mirror: Mirror, *given: Any) -> Any:
        assert go.wait(20)
        return brought(mirror, *given)

    monkeypatch.setattr(Mirror, "holds", lambda mirror, name: go.is_set() and held(mirror, name))
    monkeypatch.setattr(Mirror, "_brought", slow)
    with monkeypatch.context() as brief:
        brief.setattr(few, "SECONDS", 0.2)
        for path in (
            "views/sums/rows",
            "views/sums/row?id=4711",
            "views/orders/rows",
            "views/sums/series?time=n&every=1h",
        ):
            assert refusal(client.get(path)) == (504, "query.timeout"), path
        assert client.get("views").status_code == 200
    go.set()
    assert client.get("views/sums/rows").status_code == 200


def test_what_is_read_of_the_past_and_matched_ends_in_time(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [path for path in LONG if "at=" in path or "matches" in path]
    with monkeypatch.context() as brief:
        brief.setattr(few, "SECONDS", 0.0)
        for path in paths:
            assert refusal(client.get(path)) == (504, "query.timeout"), path
        past = {"sql": "SELECT count(*) FROM orders", "at": COMMITS, "seconds": 1e-6}
        assert refusal(client.post("sql", json=past)) == (503, "wait.busy")  # before it is begun
    assert {client.get(path).status_code for path in paths} <= {200, 404}


def test_an_index_that_takes_longer_is_made_to_its_end_and_once(
    client: httpx.Client, made: RandomLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, begun, go = RelationIndex._made, list[str](), threading.Event()

    def slow(index: RelationIndex, catalog: Catalog, progress: Progress) -> State:
        begun.append(index.of.schema.name)
        assert go.wait(20)
        return make(index, catalog, progress)

    monkeypatch.setattr(RelationIndex, "_made", slow)
    monkeypatch.setattr(few, "_running", Places(2, 2))
    path = "views/orders/search?q=*"
    with monkeypatch.context() as brief:
        brief.setattr(few, "SECONDS", 0.3)
        for _ in range(2):  # the one that makes it, and one that waits for it
            assert refusal(client.get(path)) == (504, "query.timeout")
        end = time.monotonic() + 10
        # The place of the one that waited; who makes it keeps its own.
        while few._running.taken > 1 and time.monotonic() < end:
            time.sleep(0.01)
        with few._running.one(None):
            assert refusal(client.get(path)) == (503, "wait.busy")
    go.set()
    found = client.get(path)
    end = time.monotonic() + 10
    while found.status_code != 200 and time.monotonic() < end:
        found = client.get(path)
    assert found.json()["total"] == len(history(made).rows("orders")) > 0
    assert begun == ["orders"]
