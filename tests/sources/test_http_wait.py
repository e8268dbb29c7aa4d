"""Goal: whoever pushes over HTTP asks there how far views are and waits for them, and holds up nobody meanwhile.

Method: a real server and clients; the engine's answers are a recorder that waits until the test lets it go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from pushing import Running, insert, order, starting

from headrace.model.errors import HeadraceError


class Engine:
    """Waits for commits up to 100 end at once, others when ``go`` is set, unless the caller has left."""

    def __init__(self) -> None:
        self.asked = list[tuple[Any, ...]]()
        self.go, self.left, self.inside = threading.Event(), threading.Event(), threading.Semaphore(0)
        self.error: HeadraceError | None = None

    def frontier(self) -> dict[str, Any]:
        error = {"code": "sink.connect", "what": "no route to 10.0.0.7"}
        return {
            "commit": 7, "least": 5, "lag": 2, "behind_s": 0.5,
            "views": [{"name": "a", "state": "failed", "reason": "row {secret: 1}", "commit": 3, "in_least": False}],
            "sinks": [{"name": "out", "state": "failed", "commit": 5, "error": error, "in_least": True}],
        }  # fmt: skip

    def wait_for(
        self, token: int | str, timeout_s: float, view: str | None, sink: str | None,
        on_progress: Callable[[dict[str, Any]], None] | None, whose: str | None,
    ) -> dict[str, Any]:  # fmt: skip
        self.asked.append((token, timeout_s, view, sink, whose))
        if self.error is not None:
            raise self.error
        assert on_progress is not None
        self.inside.release()
        try:
            while not (token.isdecimal() and int(token) <= 100) and not self.go.wait(0.02):  # type: ignore[union-attr, arg-type]
                on_progress({"text": "waiting"})
        except BaseException:
            self.left.set()
            raise
        return {"token": token, "commit": 7, "reached": 9, "of": "view a"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Running]:
    with starting(tmp_path) as start:
        running = start()
        running.source.answers = Engine()
        yield running
        running.source.answers.go.set()


def engine(shop: Running) -> Engine:
    assert isinstance(shop.source.answers, Engine)
    return shop.source.answers


def test_a_pushed_commit_can_be_waited_for(shop: Running) -> None:
    commit = shop.push(insert("orders", order(1))).json()["commit"]
    answer = shop.client.get("/wait", params={"token": commit, "view": "a", "timeout": 2.5})
    assert (answer.status_code, answer.json()) == (200, {"token": "1", "commit": 7, "reached": 9, "of": "view a"})
    assert shop.client.get("/wait?token=2&sink=out").status_code == 200
    engine(shop).go.set()
    assert shop.client.get("/wait?token=shop:0/16B3748").json()["token"] == "shop:0/16B3748"
    asked = [("1", 2.5, "a", None), ("2", 60.0, None, "out"), ("shop:0/16B3748", 60.0, None, None)]
    assert engine(shop).asked == [(*each, f"source {shop.source.name}") for each in asked]


def test_the_frontier_is_told_without_rows_of_views(shop: Running) -> None:
    found = shop.client.get("/frontier").json()
    assert (found["commit"], found["least"]) == (7, 5)
    assert found["views"] == [{"name": "a", "state": "failed", "commit": 3, "in_least": False}]
    assert found["sinks"][0]["error"] == "sink.connect"
    engine(shop).error = HeadraceError("view.failed", "view a has failed at commit 3", why="row {secret: 1}")
    answer = shop.client.get("/wait?token=1")
    assert (answer.status_code, answer.json()["code"]) == (409, "view.failed")
    assert "secret" not in answer.text


def test_both_ask_for_the_token(shop: Running) -> None:
    url = str(shop.client.base_url)
    for path in ("/frontier", "/wait?token=1"):
        assert httpx.get(f"{url}{path}").status_code == 401
    assert engine(shop).asked == []


@pytest.mark.parametrize(
    "query", ["", "?view=a", "?token=1&veiw=a", "?token=1&token=2", "?token=1&timeout=soon", "?token=1&timeout=-1",
              "?token=1&timeout=nan", "?token=1&timeout=601"],
)  # fmt: skip
def test_a_wrong_parameter_is_refused(shop: Running, query: str) -> None:
    answer = shop.client.get(f"/wait{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "source.request")
    assert answer.json().keys() == {"code", "what", "where", "why", "next"}
    assert engine(shop).asked == []


@pytest.mark.parametrize(
    "code, status",
    [("wait.token", 400), ("wait.timeout", 504), ("wait.busy", 503), ("view.unknown", 404), ("sink.unknown", 404),
     ("project.not_running", 503)],
)  # fmt: skip
def test_what_is_not_reached_has_its_status(shop: Running, code: str, status: int) -> None:
    engine(shop).error = HeadraceError(code, "not reached", why="sink out is at commit 5")
    answer = shop.client.get("/wait?token=1")
    assert (answer.status_code, answer.json()["code"], answer.json()["why"]) == (
        status,
        code,
        "sink out is at commit 5",
    )


def test_many_that_wait_hold_up_no_push(shop: Running) -> None:
    with ThreadPoolExecutor(16) as pool:
        url, headers = str(shop.client.base_url), shop.client.headers
        waits = [pool.submit(httpx.get, f"{url}/wait?token=200", headers=headers, timeout=30) for _ in range(16)]
        for _ in waits:
            assert engine(shop).inside.acquire(timeout=10)
        large = insert("clicks", *({"page": "x" * 1000} for _ in range(100)))  # parsed in a thread, as waits are
        assert shop.push(large).json() == {"commit": 1}
        assert not any(wait.done() for wait in waits)
        engine(shop).go.set()
        assert {wait.result(10).status_code for wait in waits} == {200}


def test_a_wait_ends_when_its_client_leaves(shop: Running) -> None:
    with ThreadPoolExecutor() as pool:
        left = pool.submit(shop.client.get, "/wait?token=200", timeout=3)
        assert engine(shop).inside.acquire(timeout=10)
        with pytest.raises(httpx.ReadTimeout):
            left.result(10)
    assert engine(shop).left.wait(10)


def test_a_wait_ends_when_the_source_stops(shop: Running) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(shop.client.get, "/wait?token=200")
        assert engine(shop).inside.acquire(timeout=10)
        shop.source.close()  # the server gives requests two seconds, then it cuts them off
        assert answer.result(10).json()["code"] == "source.busy"
    assert engine(shop).left.wait(10)


def test_without_an_engine_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    with starting(tmp_path) as start:
        assert start().client.get("/wait?token=1").json()["code"] == "project.not_running"
