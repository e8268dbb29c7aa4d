"""Goal: the page is served at every path that is no route, to anyone, and nothing else of the disk is.

Method: its files are asked for over HTTP and compared with those of the build.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from headrace.api.page import STATIC, router
from headrace.web.listening import listen
from headrace.web.server import ServerThread


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    app = FastAPI()
    app.include_router(router)
    server = ServerThread(app, listen("127.0.0.1", 0, "a test", code="api.port", next=""))
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        yield client
    server.close()


@pytest.mark.parametrize(
    "path", ["/", "/index.html", "/views/revenue", "/views/a.b", "/a/b/c", "/views/%2e%2e%2fapp.py"]
)
def test_the_first_file_stands_at_every_path_of_the_page(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (200, (STATIC / "index.html").read_bytes())
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-cache"


def test_each_file_of_the_build_is_itself(client: httpx.Client) -> None:
    files = [file for file in STATIC.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".html", ".json", ".svg", ".js", ".css"}
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
    for file in files:
        name = file.relative_to(STATIC).as_posix()
        answer = client.get(f"/{name}")
        assert answer.content == file.read_bytes()
        assert answer.headers["content-type"].startswith(kinds.get(file.suffix, "application/json"))
        # A name under assets/ holds the hash of its content, so it never changes.
        assert ("immutable" in answer.headers["cache-control"]) == name.startswith("assets/")


@pytest.mark.parametrize("path", ["/api", "/api/nothing", "/assets/old.js", "/assets/%2e%2e/%2e%2e/page.py"])
def test_what_is_no_page_is_not_found(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_it_is_only_read(client: httpx.Client) -> None:
    assert client.head("/").status_code == 200
    assert client.post("/views/revenue").status_code == 405
