"""Goal: consumer groups are read, acknowledged and given back over HTTP by who has the token for it, and by nobody else.

Method: a real server and clients over a random log, whose transactions the test has made itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from benchmarks.published import PublishedView
from pushing import Running, starting

from headrace.catalog import searches
from headrace.model.definition import StoredQuery
from headrace.serve.groups import Groups

sys.path.append(str(Path(__file__).parents[1] / "groups"))
from grouped import World


class Shop:
    """A source that listens, with the groups of a project; ``reader`` sends the readers' token."""

    def __init__(self, running: Running, world: World, groups: Groups) -> None:
        self.running, self.world, self.groups = running, world, groups
        running.source.groups = groups
        token = running.source.read_token()
        self.reader = httpx.Client(
            base_url=running.client.base_url, headers={"Authorization": f"Bearer {token}"}, timeout=30
        )


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    world = World(tmp_path, 11, 30)
    groups = world.groups()
    groups.create("g", "orders", lease_s=10)
    with starting(tmp_path) as start:
        made = Shop(start(), world, groups)
        yield made
        made.reader.close()
        groups.close()


def test_a_group_is_read_and_acknowledged_over_http(shop: Shop) -> None:
    feed = shop.world.feed("orders")
    found = shop.reader.post("/groups/g/read", json={"most": 3, "consumer": "w"}).json()["deliveries"]
    assert [(d["id"], d["changes"]) for d in found] == [(f"{c}.1", shop.world.holds("orders", c)) for c in feed[:3]]
    assert shop.reader.post("/groups/g/ack", json={"ids": [found[0]["id"]]}).json() == {"acknowledged": 1}
    again = {"ids": [found[1]["id"]], "delay": 0, "reason": "no"}
    assert shop.reader.post("/groups/g/nack", json=again).json() == {"given_back": 1}
    (back,) = shop.reader.post("/groups/g/read", json={}).json()["deliveries"]
    assert back["id"] == f"{feed[1]}.2"
    late = shop.reader.post("/groups/g/ack", json={"ids": [found[1]["id"]]})
    assert (late.status_code, late.json()["code"]) == (409, "group.lease")
    upto = shop.reader.post("/groups/g/ack", json={"upto": found[2]["id"], "consumer": "w"})
    assert upto.json() == {"acknowledged": 1}
    (listed,) = shop.reader.get("/groups").json()["groups"]
    assert (listed["name"], listed["in_flight"], listed["read"]) == ("g", 1, feed[2])
    shop.world.now += 9_000_000
    assert shop.reader.post("/groups/g/extend", json={"ids": [back["id"]]}).json() == {"extended": 1}
    shop.world.now += 9_000_000
    assert shop.reader.post("/groups/g/extend", json={"ids": [back["id"]], "lease": 10}).json() == {"extended": 1}
    shop.world.now += 11_000_000
    over = shop.reader.post("/groups/g/extend", json={"ids": [back["id"]]})
    assert (over.status_code, over.json()["code"]) == (409, "group.lease")
    gone = shop.reader.post("/groups/g/ack", json={"ids": [back["id"]]})
    assert (gone.status_code, "ended 1.0 s ago" in gone.json()["why"]) == (409, True)


def test_what_a_stored_query_matches_is_read_over_http(tmp_path: Path) -> None:
    view = PublishedView(tmp_path / "project", "notes", {"id": "bigint", "note": "string"})
    view.publish([((1, "late parcel"), 1), ((2, "paid"), 1)])
    searches.add(view.folder, StoredQuery("late", "notes", "late"))
    groups = Groups(view.folder)
    groups.create("q", "late")

    def read() -> list[list[object]]:
        found = reader.post("/groups/q/read", json={"consumer": "w"}).json()["deliveries"]
        reader.post("/groups/q/ack", json={"ids": [each["id"] for each in found]} if found else {"upto": "1.1"})
        return [[each["snapshot"], [(c["weight"], c["row"]["id"]) for c in each["changes"]]] for each in found]

    with starting(tmp_path) as start:
        running = start()
        running.source.groups = groups
        headers = {"Authorization": f"Bearer {running.source.read_token()}"}
        with httpx.Client(base_url=running.client.base_url, headers=headers, timeout=30) as reader:
            assert read() == [[True, [(1, 1)]]]
            view.publish([((1, "late parcel"), -1), ((1, "paid parcel"), 1), ((3, "late"), 1)])
            assert read() == [[False, [(-1, 1), (1, 3)]]]
            view.publish([((2, "paid"), -1)])
            assert read() == []
            searches.change(view.folder, StoredQuery("late", "notes", "parcel"))
            assert read() == [[True, [(1, 1)]]]
            searches.remove(view.folder, "late")
            gone = reader.post("/groups/q/read", json={})
            assert (gone.status_code, gone.json()["code"]) == (404, "search.unknown")
            (listed,) = reader.get("/groups").json()["groups"]
            assert (listed["kind"], listed["relation"]) == ("query", "late")
            assert "no stored query 'late'" in listed["problem"]
    groups.close()


def test_a_read_waits_for_what_is_to_come(shop: Shop) -> None:
    while shop.reader.post("/groups/g/read", json={"most": 999}).json()["deliveries"]:
        pass
    began = time.monotonic()
    assert shop.reader.post("/groups/g/read", json={"wait": 0.3}).json() == {"deliveries": []}
    assert 0.25 < time.monotonic() - began < 5
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(shop.reader.post, "/groups/g/read", json={"wait": 20})
        time.sleep(0.2)
        assert not waiting.done()
        shop.world.grow(8)
        (found,) = waiting.result(10).json()["deliveries"]
        assert found["commit"] == next(c for c in shop.world.feed("orders") if c > 30)
        until_closed = pool.submit(shop.reader.post, "/groups/g/read", json={"wait": 20})
        while until_closed.running() and shop.reader.post("/groups/g/read", json={}).json()["deliveries"]:
            pass
        shop.running.source.queue.close()
        assert until_closed.result(10).status_code in (200, 503)


def test_who_may_push_may_not_read_and_who_may_read_may_not_push(shop: Shop) -> None:
    pusher = shop.running.client
    for answer in (
        pusher.post("/groups/g/read", json={}),
        pusher.get("/groups"),
        pusher.post("/groups/g/ack", json={"ids": ["1.1"]}),
        pusher.post("/groups/g/nack", json={"ids": ["1.1"]}),
        pusher.post("/groups/g/extend", json={"ids": ["1.1"]}),
        shop.reader.post("/transactions", json={"changes": []}),
        httpx.post(f"{shop.reader.base_url}/groups/g/read", json={}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, "source.auth")
    assert shop.groups.entries()[0]["in_flight"] == 0
    kept = shop.running.source.read_token_path
    assert kept.stat().st_mode & 0o777 == 0o600
    assert shop.running.source.endpoint()["read_token_file"] == str(kept)


@pytest.mark.parametrize(
    ("path", "asked", "status", "code"),
    [
        ("/groups/h/read", {}, 404, "group.unknown"),
        ("/groups/g/read", {"most": 0}, 400, "source.request"),
        ("/groups/g/read", {"wait": 61}, 400, "source.request"),
        ("/groups/g/read", {"moist": 1}, 400, "source.request"),
        ("/groups/g/read", {"most": True}, 400, "source.request"),
        ("/groups/g/read", [], 400, "source.request"),
        ("/groups/g/ack", {}, 400, "source.request"),
        ("/groups/g/ack", {"ids": ["1.1"], "upto": "1.1"}, 400, "source.request"),
        ("/groups/g/ack", {"ids": ["x"]}, 409, "group.lease"),
        ("/groups/g/ack", {"upto": "1.1"}, 400, "group.invalid"),
        ("/groups/g/nack", {"ids": []}, 400, "source.request"),
        ("/groups/g/nack", {"ids": ["29.1"], "delay": -1}, 400, "group.invalid"),
        ("/groups/g/extend", {}, 400, "source.request"),
        ("/groups/g/extend", {"ids": ["29.1"], "lease": 0}, 400, "group.invalid"),
        ("/groups/g/extend", {"ids": ["29.1"], "lease": "1"}, 400, "source.request"),
    ],
)
def test_what_is_asked_wrongly_is_refused(shop: Shop, path: str, asked: object, status: int, code: str) -> None:
    answer = shop.reader.post(path, json=asked)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_web_page_cannot_read_where_there_is_no_token(tmp_path: Path) -> None:
    world = World(tmp_path, 11, 10)
    groups = world.groups()
    groups.create("g", "orders")
    with starting(tmp_path) as start:
        running = start(auth="none")
        running.source.groups = groups
        page = running.client.post("/groups/g/read", content=b"{}", headers={"content-type": "text/plain"})
        assert page.status_code == 400
        named = running.client.post("/groups/g/read", json={}, headers={"host": "evil.example"})
        assert named.status_code == 401
        assert len(running.client.post("/groups/g/read", json={}).json()["deliveries"]) == 1
    groups.close()
