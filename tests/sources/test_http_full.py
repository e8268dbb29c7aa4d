"""Goal: who pushes faster than the log takes is held, refused or dropped, as the source says; what was acknowledged is there,
what was not is not, and every drop is counted and told.

Method: a real server with a small queue and clients at once, the engine stopped and let go on.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from pushing import Start, insert, order, starting

from headrace.model.errors import HeadraceError

BIG = "x" * 600  # two of them do not fit into a queue of 1 KiB
FIVE = insert("orders", *(order(number) for number in range(50, 55)))  # counts for 640 bytes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as one:
        yield one


def big(number: int) -> dict[str, Any]:
    return insert("orders", order(number, note=BIG))


def ids(shop: Any) -> list[int]:
    return sorted(row["id"] for row in shop.engine.rows("orders"))


def queued(shop: Any) -> int:
    """The bytes that are queued, once something is."""
    end = time.monotonic() + 20
    while not (found := int(shop.source.pressure()["queued_bytes"])):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def stopped(start: Start, when_full: str, **options: Any) -> Any:
    shop = start(max_queue="1KiB", **options)
    shop.source.when_full = when_full
    shop.engine.pause()
    return shop


def test_wait_holds_each_request_until_there_is_room(start: Start) -> None:
    shop = stopped(start, "wait")
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(shop.push, big(number)) for number in range(8)]
        time.sleep(0.5)
        assert not any(answer.done() for answer in answers)
        assert shop.source.pressure()["queued_bytes"] <= 1024
        shop.engine.paused.clear()
        assert sorted(answer.result(20).json()["commit"] for answer in answers) == list(range(1, 9))
    assert ids(shop) == list(range(8))
    assert (shop.source.pressure()["queued_bytes"], shop.source.pressure()["refused"]) == (0, 0)


def test_wait_ends_with_come_again(start: Start) -> None:
    shop = stopped(start, "wait", wait_seconds=0.4)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shop.push, big(1))
        assert queued(shop)
        began = time.monotonic()
        answer = shop.push(big(2))
        assert 0.3 < time.monotonic() - began < 10
        assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "source.busy", "1")
        late = shop.source.submit(FIVE)
        assert isinstance(late.exception(10), HeadraceError)
        shop.engine.paused.clear()
        assert first.result(10).json() == {"commit": 1}
    assert (ids(shop), shop.source.pressure()["refused"]) == ([1], 2)


def test_refuse_answers_at_once(start: Start) -> None:
    shop = stopped(start, "refuse")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shop.push, big(1))
        assert queued(shop)
        began = time.monotonic()
        assert [shop.push(big(2)).status_code for _ in range(3)] == [503] * 3
        assert time.monotonic() - began < 5
        shop.engine.paused.clear()
        assert first.result(10).json() == {"commit": 1}
    assert (ids(shop), shop.source.pressure()["refused"], shop.source.pressure()["dropped"]) == ([1], 3, 0)


def test_drop_says_so_and_counts(start: Start) -> None:
    shop = stopped(start, "drop")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shop.push, big(1))
        assert queued(shop)
        answers = [shop.push(big(number)) for number in (2, 3, 4)]
        size = len(answers[0].request.content)
        for answer in answers:
            assert (answer.status_code, answer.json()["dropped"]) == (202, True)
            assert answer.json()["error"]["code"] == "source.dropped"
        dropped = shop.source.submit(FIVE).exception(1)
        assert isinstance(dropped, HeadraceError)
        assert dropped.code == "source.dropped"
        shop.engine.paused.clear()
        assert first.result(10).json() == {"commit": 1}
    assert shop.push(big(6)).json() == {"commit": 2}
    told = shop.source.pressure()
    assert (ids(shop), told["dropped"], told["refused"]) == ([1, 6], 4, 0)
    assert told["dropped_bytes"] == 3 * size + 640
    assert told["when_full"] == "drop"


def test_clients_that_send_half_a_body_do_not_keep_the_others_out_for_ever(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.sources.connectors.http.server.STALLED_S", 3.0)
    shop = start(max_queue="1KiB")
    body = json.dumps(big(1)).encode()
    head = (
        f"POST /transactions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {shop.source.token()}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shop.source.port)) as lazy:
        lazy.sendall(head.encode() + body[:100])
        assert queued(shop) == len(body)
        assert shop.push(big(2)).json() == {"commit": 1}
        lazy.settimeout(10)
        assert lazy.recv(100).startswith(b"HTTP/1.1 408")
    assert (ids(shop), shop.source.pressure()["queued_bytes"]) == ([2], 0)


def test_a_stop_answers_those_that_are_held(start: Start) -> None:
    shop = stopped(start, "wait")
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(shop.push, big(number)) for number in (1, 2)]
        assert queued(shop)
        time.sleep(0.3)  # the other one is held
        shop.source.close()
        found: list[httpx.Response] = [answer.result(10) for answer in answers]
    assert {(answer.status_code, answer.json()["code"]) for answer in found} == {(503, "source.busy")}
