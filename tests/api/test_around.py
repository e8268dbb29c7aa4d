"""Goal: what goes around every answer is there: headers, limits, errors in one form, measures that can be read.

Method: real HTTP; the metrics are read by a parser that is written here, and compared with the status they are of.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from served_project import STATUS, Site, site

from headrace.api import around
from published_view import Published

GOLDEN = Path(__file__).with_name("openapi.json")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(Published(tmp_path_factory.mktemp("around") / "shop").folder) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Site) -> Iterator[httpx.Client]:
    with served.client() as asking:
        yield asking


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/health", 200), ("GET", "/api/nothing", 404), ("GET", "/metrics", 200), ("POST", "/api/sql", 400)],
)
def test_browsers_are_told_to_run_nothing_of_others(client: httpx.Client, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'self'" and policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store" and "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


def test_a_body_that_is_too_large_is_not_read(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "BODY_BYTES", 1 << 20)
    large = b'{"sql": "' + b" " * (1 << 20) + b'"}'
    told = client.post("/api/sql", content=large, headers={"Content-Type": "application/json"})
    assert (told.status_code, told.json()["code"]) == (413, "api.request")
    pieces = client.post(
        "/api/sql", content=iter([large[:99], large[99:]]), headers={"Content-Type": "application/json"}
    )
    assert (pieces.status_code, pieces.json()["code"]) == (413, "api.request")


@pytest.mark.parametrize("depth", [34, 900, 100_000])
def test_values_that_are_too_deep_are_refused(client: httpx.Client, depth: int) -> None:
    for body in (
        b'{"sql": "SELECT ?", "parameters": [%b]}' % (b"[" * depth + b"]" * depth),
        b'{"row": {"a": %b1%b}}' % (b'{"a": ' * depth, b"}" * depth),
    ):
        path = "/api/sql" if b"sql" in body else "/api/quarantine/orders:1:1/fix"
        told = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (told.status_code, told.json()["code"]) == (400, "api.request")


def test_what_is_no_request_does_not_stop_the_server(served: Site, client: httpx.Client) -> None:
    port = int(served.url.rpartition(":")[2])
    for sent in (b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000, b"GET /" + b"a" * 100_000):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            try:
                while connection.recv(1 << 16):
                    pass
            except ConnectionResetError:
                pass
    assert client.get("/api/health").json()["status"] == "ok"


def test_a_fault_tells_no_row(client: httpx.Client, served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> dict[str, object]:
        raise ValueError("row of a customer")

    monkeypatch.setattr(type(served.verbs), "__call__", broken)
    told = client.get("/api/status")
    assert (told.status_code, told.json()["code"]) == (500, "internal") and "customer" not in told.text


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The values of a page in Prometheus's text format; whatever is not of that form fails."""
    values, types = {}, {}
    for line in text.splitlines():
        if found := re.fullmatch(r"# TYPE (\w+) (counter|gauge|histogram)", line):
            assert found[1] not in types
            types[found[1]] = found[2]
        elif not re.fullmatch(r"# HELP \w+ [^\n]+", line):
            name, labels, value = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line).groups()
            pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)', labels or "")
            family = re.sub(r"_(bucket|sum|count)$", "", name) if name not in types else name
            assert family in types, line
            key = (name, frozenset(pairs))
            assert key not in values, line
            values[key] = float(value)
    return values


def test_metrics_tell_the_status_and_the_requests(client: httpx.Client) -> None:
    for _ in range(3):
        client.get("/api/health")
    page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4") and page.text.endswith("\n")
    values = parsed(page.text)

    def value(name: str, **labels: str) -> float:
        return values[name, frozenset(labels.items())]

    assert value("headrace_commits_total") == STATUS["commit"] and value("headrace_frontier_commit") == 11
    assert value("headrace_step_seconds") == 0.25 and value("headrace_steps_total") == 7
    assert (value("headrace_view_commit", view="sums"), value("headrace_view_lag_seconds", view="sums")) == (11, 0.5)
    assert (value("headrace_view_up", view="sums"), value("headrace_view_up", view="top")) == (1, 0)
    assert value("headrace_source_backlog_rows", source="shop") == 3
    assert value("headrace_sink_lag_commits", sink="store") == 1 and value("headrace_sink_up", sink="store") == 0
    assert value("headrace_quarantine_rows", relation="orders") == 1
    assert value("headrace_quarantine_rows", relation="sums", sink="store") == 4
    assert value("headrace_stored_bytes", of="log") == 4096 and value("headrace_memory_bytes", process="JVM") == 50
    health = value("headrace_api_requests_total", route="/health", method="GET", status="200")
    assert health >= 3 and value("headrace_api_request_seconds_count", route="/health") == health
    buckets = [v for (n, labels), v in values.items() if n.endswith("_bucket") and ("route", "/health") in labels]
    assert buckets == sorted(buckets) and buckets[-1] == health


def test_the_contract_is_the_golden_one(client: httpx.Client) -> None:
    """After a change on purpose: HEADRACE_UPDATE_GOLDEN=1 pytest tests/api/test_around.py, then read the difference."""
    answer = client.get("/api/openapi.json")
    assert answer.status_code == 200, answer.text
    answers = [
        operation["responses"]["200"]["content"]
        for path in answer.json()["paths"].values()
        for operation in path.values()
    ]
    assert len(answers) > 50 and all(of["schema"] for content in answers for of in content.values())  # none is anything
    found = orjson.dumps(answer.json(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
    if os.environ.get("HEADRACE_UPDATE_GOLDEN"):
        GOLDEN.write_bytes(found)
    assert found == GOLDEN.read_bytes()
