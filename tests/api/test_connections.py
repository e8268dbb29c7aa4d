"""Goal: however many connect, say nothing or say half of it, those who ask are answered, and those who follow follow.

Method: the process that serves, with few descriptors; a server with short times; sockets that say what the test lets them.
"""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_project import Site, site

from headrace.api.descriptors import Bounds, Seldom, bounds
from headrace.api.server import Servers
from headrace.model.definition import ApiSettings, Project, Settings
from headrace.serve.live import READERS
from headrace.web import connection
from published_view import Published, Rows

FEW, READ = 256, 144  # descriptors of the process, and the readers that it takes then
FOLLOW = b"GET /api/views/sums/changes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HEALTH = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
ORDER = b"POST /api/sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Headrace: 1\r\n"


class Line:
    """A connection, by whole answers and pieces of them."""

    def __init__(self, port: int, said: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.had = b""
        self.say(said)

    def say(self, what: bytes) -> None:
        self.socket.sendall(what)

    def until(self, text: bytes) -> bytes:
        while text not in self.had:
            piece = self.socket.recv(1 << 16)
            assert piece, (self.had, "it ended")
            self.had += piece
        before, _, self.had = self.had.partition(text)
        return before

    def ends(self) -> None:
        """Returns once it has ended."""
        with suppress(ConnectionResetError):
            while self.socket.recv(1 << 16):
                pass


@pytest.fixture
def lines() -> Iterator[Callable[..., Line]]:
    """Makes them, and closes them at the end."""
    made = list[Line]()

    def line(port: int, said: bytes = b"") -> Line:
        made.append(Line(port, said))
        return made[-1]

    yield line
    for each in made:
        each.socket.close()


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """The port of a project's server, which has fewer descriptors at first than it may have."""
    told = list[dict[str, Any]]()
    servers = Servers(Project(folder, Settings(api=ApiSettings(port=0, auth="none"))), told.append)
    servers.listen()
    servers.begin(None)
    try:
        yield int(told[0]["url"].rpartition(":")[2])
    finally:
        servers.close()


@pytest.mark.timeout(120)
def test_with_few_descriptors_all_readers_follow_and_others_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], lines: Callable[..., Line]
) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nulimit -Sn 64; ulimit -Hn {FEW}; exec {sys.executable} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    published = Published(tmp_path / "shop")
    published.step([Rows({(1, 1): 1})])
    with serving(published.folder) as port:
        readers = [lines(port, FOLLOW) for _ in range(READ)]
        for line in readers:
            line.until(b"event: snapshot\nid: 1\n")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/", timeout=20) as client:

            def answered() -> None:
                busy = client.get("views/sums/changes")
                assert (busy.status_code, busy.json()["what"]) == (503, f"{READ} follow views already")
                assert client.get("views/sums/rows?at=1").json()["rows"] == [{"id": 1, "n": 1}]

            answered()
            silent = [lines(port) for _ in range(2 * FEW)]
            since = time.monotonic()
            silent[0].ends()
            assert time.monotonic() - since < 5  # in which nobody has become too late
            answered()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/", timeout=20) as another:
            assert another.get("views/sums/row?id=1").json()["row"] == {"id": 1, "n": 1}
        published.step([Rows({(2, 2): 1})])
        for line in readers:
            line.until(b"event: change\nid: 2\n")
    assert capfd.readouterr().err == ""


def test_most_of_what_a_process_may_have_open_is_for_connections() -> None:
    assert bounds(256, 0) == Bounds(192, READ) and bounds(256, 64) == Bounds(96, 72)
    assert bounds(1_024, 64) == Bounds(672, 504) and bounds(128, 100) == Bounds(16, 12)
    assert bounds(1 << 20, 64) == Bounds(2 * READERS, READERS)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    published = Published(tmp_path_factory.mktemp("connections") / "shop")
    published.step([Rows({(1, 1): 1})])
    with site(published.folder, asks=False) as running:
        yield running


def test_who_says_half_a_request_has_an_end(
    running: Site, monkeypatch: pytest.MonkeyPatch, lines: Callable[..., Line]
) -> None:
    """Also amid a second one; who is answered, or follows, or waits with all said, has not."""
    monkeypatch.setattr(connection, "HEAD_S", 0.4)
    monkeypatch.setattr(connection, "BODY_S", 0.8)
    port = int(running.url.rpartition(":")[2])
    follows, waits = lines(port, FOLLOW), lines(port, HEALTH)
    follows.until(b"event: snapshot\nid: 1\n")
    follows.say(b"\r\n")
    assert b" 200 OK" in waits.until(b"\r\n\r\n")
    for said, s in ((b"", 0.4), (HEALTH[:-2], 0.4), (ORDER + b"Content-Length: 9\r\n\r\n{", 0.8)):
        since = time.monotonic()
        lines(port, said).ends()
        assert s - 0.1 < time.monotonic() - since < s + 3, said
    again = lines(port, HEALTH)
    again.until(b"}")
    since = time.monotonic()
    again.say(b"\r\n")  # which is no answer's, and no request's
    again.ends()
    assert 0.3 < time.monotonic() - since < 3
    trickle, since = lines(port, HEALTH[:-2]), time.monotonic()
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        while time.monotonic() < since + 5:
            trickle.say(b"X")
            time.sleep(0.05)
    assert time.monotonic() < since + 3
    body = lines(port, ORDER + b"Content-Length: 12\r\n\r\n")
    for byte in b'{"sql": "x"}':  # slower in all than the longest time, and always again
        time.sleep(0.1)
        body.say(bytes([byte]))
    assert b" 400 " in body.until(b"\r\n\r\n") and b'"sql.syntax"' in body.until(b"}")
    waits.say(HEALTH)
    assert b" 200 OK" in waits.until(b"\r\n\r\n")
    assert running.live.readers == 1


def test_lines_that_begin_alike_are_told_once_a_minute() -> None:
    seldom, told = Seldom(), list[tuple[float, str]]()
    for at in (1_000.0, 1_030.0, 1_059.0, 1_061.0):
        for text in ("accept() out of system resource\nsocket: %d", "another"):
            record = logging.LogRecord("asyncio", logging.ERROR, "", 0, text, (at,) if "%" in text else (), None)
            record.created = at
            if seldom.filter(record):
                told.append((at, text.partition("\n")[0]))
    assert told == [(at, text) for at in (1_000.0, 1_061.0) for text in ("accept() out of system resource", "another")]
