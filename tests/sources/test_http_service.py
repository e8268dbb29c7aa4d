"""The HTTP source around the rows: tokens, limits, a log that refuses, repeated requests, restarts, ports, options."""

from __future__ import annotations

import json
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from pushing import TABLES, Running, Start, insert, order, starting

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.http.connector import HttpSource


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as one:
        yield one


def test_a_token_is_made_kept_and_asked_for(start: Start, tmp_path: Path) -> None:
    shop = start()
    path = tmp_path / ".headrace" / "tokens" / "shop"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    token = path.read_text().strip()
    assert token.startswith("headrace_")
    assert len(token) >= 50
    url = str(shop.client.base_url)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {token}"}):
        for answer in (
            httpx.post(f"{url}/transactions", json=insert("orders", order(1)), headers=headers),
            httpx.get(f"{url}/tables", headers=headers),
        ):
            assert (answer.status_code, answer.json()["code"]) == (401, "source.auth")
            assert token not in answer.text
    assert httpx.get(f"{url}/health").json() == {"status": "ok", "source": "shop", "waiting": 0}
    assert shop.engine.kept == []
    assert HttpSource("shop", {"tables": TABLES}, base=tmp_path).token() == token


def test_a_source_whose_token_would_be_the_owners_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"^\[config\.invalid\] a source of type http cannot be called 'api'"):
        HttpSource("api", {"tables": TABLES}, "sources/api.yaml", tmp_path)


def test_a_configured_token_is_a_reference(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSH_TOKEN", "s3cret-of-the-shop")
    shop = start(token="env:PUSH_TOKEN")
    assert shop.client.headers["Authorization"] == "Bearer s3cret-of-the-shop"
    assert shop.push(insert("orders", order(1))).json() == {"commit": 1}
    assert not shop.source.token_path.exists()


def test_without_authentication_web_pages_are_kept_out(start: Start) -> None:
    shop = start(auth="none")
    assert shop.push(insert("orders", order(1))).json() == {"commit": 1}
    form = shop.client.post("/transactions", content=b"{}", headers={"content-type": "text/plain"})
    assert form.status_code == 415
    assert shop.push(insert("orders", order(2)), Host="evil.example").status_code == 401
    assert len(shop.engine.rows("orders")) == 1


def test_a_request_that_is_too_large_is_refused(start: Start) -> None:
    shop = start(max_body="1KiB")
    large = insert("clicks", {"page": "x" * 1024})
    answer = shop.push(large)
    assert (answer.status_code, answer.json()["code"]) == (413, "source.request")

    def pieces() -> Iterator[bytes]:  # no content-length
        yield from (json.dumps(large).encode()[at : at + 100] for at in range(0, 1200, 100))

    assert shop.client.post("/transactions", content=pieces()).status_code == 413
    assert shop.push(insert("clicks", {"page": "x"})).json() == {"commit": 1}


def test_a_log_that_refuses_is_told_and_nothing_is_kept(start: Start) -> None:
    shop = start()
    shop.engine.refuse = HeadraceError("log.full", "no space is left", next="free some")
    answer = shop.push(insert("orders", order(1)), **{"Idempotency-Key": "a"})
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "log.full", "1")
    shop.engine.refuse = OSError("device gone")
    assert shop.push(insert("orders", order(1))).json()["code"] == "log.failed"
    shop.engine.refuse = None
    assert shop.push(insert("orders", order(1)), **{"Idempotency-Key": "a"}).json() == {"commit": 1}


def test_too_much_waiting_is_told_to_come_again(start: Start) -> None:
    shop = start(max_body="1KiB")
    shop.source.when_full = "refuse"
    shop.engine.pause()
    futures = [shop.source.submit(insert("clicks", {"n": n})) for n in range(17)]
    answer = shop.push(insert("clicks", {"n": 99}))
    assert (answer.status_code, answer.json()["code"]) == (503, "source.busy")
    full = futures[-1].exception(1)
    assert isinstance(full, HeadraceError)
    assert full.code == "source.busy"
    shop.engine.paused.clear()
    assert [future.result(10) for future in futures[:-1]] == list(range(1, 17))
    assert shop.push(insert("clicks", {"n": 99})).json() == {"commit": 17}


def test_a_key_makes_a_request_count_once(start: Start) -> None:
    shop = start()
    key = {"Idempotency-Key": "request-1"}
    two = [insert("orders", order(1)), insert("orders", order(2))]
    assert shop.push(two, **key).json() == {"commits": [1, 2]}
    assert shop.push(two, **key).json() == {"commits": [1, 2], "repeated": True}
    assert shop.push(insert("orders", order(3)), **key).status_code == 409
    assert shop.push(insert("orders", order(3)), **{"Idempotency-Key": "request-2"}).json() == {"commit": 3}
    assert [row["id"] for row in shop.engine.rows("orders")] == [1, 2, 3]
    refused = insert("orders", order("bad"))
    assert shop.push(refused, **{"Idempotency-Key": "request-3"}).status_code == 422
    assert shop.push(insert("orders", order(4)), **{"Idempotency-Key": "request-3"}).json() == {"commit": 4}


def test_a_key_counts_once_while_the_first_request_waits(start: Start) -> None:
    shop = start()
    shop.engine.pause()
    futures = [shop.source.submit(insert("orders", order(1)), key="k") for _ in range(3)]
    shop.engine.paused.clear()
    assert [future.result(10) for future in futures] == [1, 1, 1]
    assert len(shop.engine.rows("orders")) == 1


def test_the_last_key_counts_once_after_a_restart(start: Start) -> None:
    shop = start()
    key = {"Idempotency-Key": "request-1"}
    three = [insert("orders", order(n)) for n in (1, 2, 3)]
    assert shop.push(three, **key).json() == {"commits": [1, 3]}
    positions = shop.engine.positions
    shop.engine.stop()
    shop.source.close()

    whole = start(position=positions[-1])
    assert whole.push(three, **key).json() == {"commits": None, "repeated": True}
    assert whole.engine.kept == []
    assert whole.push(insert("orders", order(4))).json() == {"commit": 1}
    assert json.loads(whole.engine.positions[-1]) == {"n": 4}

    torn = start(position=positions[0])  # the log's tail was lost: it has the first of the three alone
    assert torn.push(three, **key).json() == {"commits": [1, 2], "repeated": True}
    assert [row["id"] for row in torn.engine.rows("orders")] == [2, 3]


def test_a_source_that_was_closed_starts_again(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.push(insert("orders", order(1)))
    running.source.close()
    running.source.start(frozenset({"orders"}), running.engine.positions[-1])
    url = f"http://127.0.0.1:{running.source.port}/transactions"
    answer = httpx.post(url, json=insert("orders", order(2)), headers=running.client.headers)
    assert answer.json() == {"commit": 2}
    running.close()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        source = HttpSource("shop", {"port": port, "tables": TABLES}, "sources/shop.yaml", tmp_path)
        with pytest.raises(HeadraceError) as caught:
            source.start(frozenset(), None)
    error = caught.value
    assert (error.code, error.where) == ("source.port", "sources/shop.yaml")
    assert error.what == f"port {port} on 127.0.0.1 is taken"
    assert error.why == "another process listens there"
    assert error.next == f"stop it, or set another port here: port: {port + 1}"
    source.close()


def test_closing_answers_those_who_wait_and_frees_the_port(tmp_path: Path) -> None:
    running = Running(tmp_path)
    port = running.source.port
    running.engine.stop()
    waiting: Future[httpx.Response]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(running.push, insert("orders", order(1)))
        while not len(running.source.queue):
            time.sleep(0.005)
        polled = running.source.submit(insert("orders", order(2)))
        running.source.close()
        assert (waiting.result(10).status_code, waiting.result().json()["code"]) == (503, "source.busy")
    assert isinstance(polled.exception(1), HeadraceError)
    late = running.source.submit(insert("orders", order(3))).exception(1)
    assert isinstance(late, HeadraceError)
    assert late.code == "source.busy"
    running.client.close()
    again = Running(tmp_path, port=port)
    assert again.push(insert("orders", order(1))).json() == {"commit": 1}
    again.close()


@pytest.mark.parametrize(
    ("options", "code", "what", "hint"),
    [
        ({"prot": 1, "tables": TABLES}, "config.unknown_key", "unknown key 'prot'", "did you mean 'port'?"),
        ({"tables": {"a": {"colums": {}}}}, "config.unknown_key", "unknown key 'tables.a.colums'", "did you mean 'col"),
        ({"tables": {}}, "config.invalid", "'tables'", ""),
        ({"port": 70000, "tables": TABLES}, "config.invalid", "'port'", ""),
        ({"host": "0.0.0.0", "auth": "none", "tables": TABLES}, "config.invalid", "'auth: none' is for the loop", ""),
        ({"tables": {"a": {"columns": {"x": "bigintt"}}}}, "config.invalid", "column 'x' of 'a': 'bigintt' is not", ""),
        ({"tables": {"a b": None}}, "config.invalid", "'a b' is not a table name", "call it a_b"),
    ],
)
def test_bad_options(options: Mapping[str, Any], code: str, what: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError) as caught:
        HttpSource("shop", options, "sources/shop.yaml", tmp_path)
    error = caught.value
    assert (error.code, error.where) == (code, "sources/shop.yaml")
    assert error.what.startswith(what)
    assert error.next.startswith(hint)


def test_a_table_that_is_not_declared_cannot_be_followed(tmp_path: Path) -> None:
    source = HttpSource("shop", {"listen": False, "tables": TABLES}, "sources/shop.yaml", tmp_path)
    with pytest.raises(HeadraceError) as caught:
        source.start(frozenset({"oders"}), None)
    assert (caught.value.code, caught.value.next) == ("source.no_table", "did you mean 'orders'?")
