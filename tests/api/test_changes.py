"""Goal: over the wire a view's changes come as server-sent events that a browser's EventSource can resume by.

Method: real HTTP, events read by the rules of the standard; oracle: the rows that the test adds up itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from served_project import Site, site

from headrace.api.bells import Bells
from headrace.api.routes import changes
from headrace.api.routes.changes import Stream, followed
from headrace.governance.roles import Role
from headrace.serve import live as live_module
from headrace.web import connection
from published_view import Published, Rows, Versions


class Source:
    """An EventSource over one connection: the events, and the id to come back with."""

    def __init__(self, response: httpx.Response) -> None:
        self.last_id = ""
        self._lines = response.iter_lines()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        kind, data = "message", list[str]()
        for line in self._lines:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield kind, orjson.loads("\n".join(data))
                kind, data = "message", []
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                self.last_id = value


@contextmanager
def events(running: Site, last_id: str | None = None, query: str = "", token: str | None = None) -> Iterator[Source]:
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    with (
        running.client(token) as client,
        client.stream("GET", f"/api/views/sums/changes{query}", headers=headers) as response,
    ):
        assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
        yield Source(response)


@contextmanager
def standing_still(running: Site, token: str) -> Iterator[socket.socket]:
    """A connection by which a view is followed, and nothing read."""
    with socket.socket() as still:
        still.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        still.connect(("127.0.0.1", int(running.url.rpartition(":")[2])))
        head = f"GET /api/views/sums/changes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        still.sendall(head.encode())
        yield still


def applied(rows: Rows, told: dict[str, Any]) -> Rows:
    for change in told.get("rows", ()):
        rows[change["row"]["id"], change["row"]["n"]] += change["weight"]
    return Rows({row: count for row, count in rows.items() if count})


def test_contents_then_changes_are_what_the_view_holds_also_after_a_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "PART_ROWS", 2)
    published, rng, rows = Published(tmp_path / "shop"), random.Random(1), Rows()
    for _ in range(9):
        published.step([published.changes(rng)])
    with site(published.folder) as running:
        with events(running) as source:
            for kind, told in source:
                rows = applied(rows, told)
                if told.get("last"):
                    break
                assert (kind, source.last_id) == ("snapshot", "")  # who leaves now has nothing yet
            assert source.last_id == "9" and rows == published.held[9]
            published.step([published.changes(rng)])
            seen_at = time.monotonic()
            kind, told = next(iter(source))
            assert kind == "change" and told["commit"] == 10 and time.monotonic() - seen_at < 10
            rows = applied(rows, told)
        for _ in range(5):
            published.step([published.changes(rng)])
        with events(running, last_id="10") as source:
            for kind, told in source:
                assert kind in ("change", "progress") and int(source.last_id) == told["commit"]
                rows = applied(rows, told)
                assert rows == published.held[told["commit"]]
                if told["commit"] == 15:
                    break
        with events(running, query="?after=15") as source:
            published.step([Rows({(1, 1): 1})])
            published.held.append(published.held[15] + Rows({(1, 1): 1}))
            assert next(iter(source)) == ("change", {"commit": 16, "rows": [{"weight": 1, "row": {"id": 1, "n": 1}}]})


def test_who_reads_the_contents_elsewhere_is_told_where_the_changes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the beginning, and of one that comes back after too long; nothing of the view is read or sent for it."""
    published, rng = Versions(tmp_path / "shop"), random.Random(2)
    for _ in range(9):
        published.step([published.changes(rng)])
    published.base()
    published.forget(kept=2)
    monkeypatch.setattr(live_module._Followed, "contents", None)
    with site(published.folder) as running:
        for query, told in (
            ("?snapshot=false", [("progress", 9)]),
            ("?snapshot=false&after=2", [("behind", 2), ("progress", 9)]),
        ):
            with events(running, query=query) as source:
                assert [(kind, each["commit"]) for kind, each in itertools.islice(source, len(told))] == told
                assert source.last_id == "9"
        with events(running, query="?snapshot=false&after=2") as source:
            published.step([Rows({(1, 1): 1})])
            change = next(each for kind, each in source if kind == "change")
            assert change == {"commit": 10, "rows": [{"weight": 1, "row": {"id": 1, "n": 1}}]}


def test_of_what_a_filter_takes_rows_come_and_go_as_they_begin_and_cease_to_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over a break; equal filters are followed once; who follows all of it, or another part, has its own."""
    monkeypatch.setattr(changes, "PROGRESS_S", 0.05)  # of a step that changes nothing of it
    published, rng = Published(tmp_path / "shop"), random.Random(3)
    for _ in range(9):
        published.step([published.changes(rng)])

    def passing(commit: int) -> Rows:
        return Rows({(id, n): count for (id, n), count in published.held[commit].items() if n > 0 and id in (1, 2, 3)})

    query, rows, last, steps = "?n=gt.0&id=in.(1,2,3)", Rows(), None, 9
    with site(published.folder) as running, events(running, query=query), events(running, query="?n=gt.1"):
        for upto in (19, 29):
            with events(running, last_id=last, query=query) as source:
                for kind, told in source:
                    rows = applied(rows, told)
                    if told.get("last", True):
                        assert rows == passing(told["commit"]), kind
                        last = source.last_id
                        assert len(running.live._followed) == 2
                        if told["commit"] == steps == upto:
                            break
                        if told["commit"] == steps:
                            published.step([published.changes(rng)])
                            steps += 1
            if upto == 19:
                for _ in range(5):  # while nobody is there
                    published.step([published.changes(rng)])
                steps += 5


def test_a_reader_that_stands_still_is_told_that_it_is_behind_and_others_are_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not take is not kept for it: beyond the ring it gets the contents anew, with no id in between."""
    monkeypatch.setattr(live_module, "RING_BYTES", 64 << 10)
    published = Published(tmp_path / "shop")
    published.step([Rows({(0, 0): 1})])
    with site(published.folder) as running, standing_still(running, running.owner) as slow:
        with events(running) as source:
            quick = iter(source)
            assert next(quick)[0] == "snapshot"
            for number in range(1, 40):
                delta = Rows({(number, n): 1 for n in range(2_000)})
                published.step([delta])
                kind, told = next(quick)
                assert (kind, told["commit"], len(told["rows"])) == ("change", number + 1, 2_000)
        assert running.live.held < 1 << 20
        slow.settimeout(20)
        text = b""
        while b"event: behind" not in text:
            piece = slow.recv(1 << 20)
            assert piece, "it ended before it was told"
            text = text[-200:] + piece


def test_a_reader_that_takes_nothing_is_let_go_also_once_its_token_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amid contents that find no room on their way; who has taken them and waits for news is kept."""
    monkeypatch.setattr(connection, "SEND_S", 2.0)
    published = Published(tmp_path / "shop")
    published.step([Rows({(id, 0): 1 for id in range(60_000)})])
    with site(published.folder) as running, events(running) as source:
        told = iter(source)
        while not next(told)[1]["last"]:
            pass
        for revoked in (True, False):
            _, token = running.tokens.create("still", Role.VIEWER)
            with standing_still(running, token) as still:
                assert readers(running, 2)
                if revoked:
                    running.tokens.revoke("still")
                assert readers(running, 1)
                still.settimeout(10)
                with contextlib.suppress(ConnectionResetError):
                    while still.recv(1 << 20):  # what was on its way, and then the end
                        pass
        published.step([Rows({(1, 1): 1})])
        assert next(each for kind, each in told if kind == "change")["commit"] == 2


def test_readers_of_one_token_leave_room_for_those_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "READERS_OF_ONE", 1)
    published = Published(tmp_path / "shop")
    published.step([Rows({(1, 1): 1})])
    with site(published.folder) as running, events(running) as source:
        assert next(iter(source))[0] == "snapshot"
        with running.client() as owner:
            owner.post("/api/queries", json={"name": "all", "view": "sums", "query": "*"}).raise_for_status()
            for path in ("views/sums/changes", "queries/all/changes"):
                busy = owner.get(f"/api/{path}")
                assert (busy.status_code, busy.json()["code"]) == (503, "wait.busy")
        _, token = running.tokens.create("another", Role.VIEWER)
        with events(running, token=token) as other:
            assert next(iter(other))[0] == "snapshot"


def test_who_follows_is_let_go_when_the_server_ends_and_none_is_left(tmp_path: Path) -> None:
    published = Published(tmp_path / "shop")
    published.step([published.changes(random.Random(1))])
    ended = list[float]()
    with site(published.folder) as running:

        def read() -> None:
            with events(running) as source:
                for _ in source:
                    pass
            ended.append(time.monotonic())

        threads = [threading.Thread(target=read) for _ in range(5)]
        for thread in threads:
            thread.start()
        while running.live.readers < 5:
            time.sleep(0.01)
        begin = time.monotonic()
    for thread in threads:
        thread.join()
    assert max(ended) - begin < 5 and running.live.readers == 0


def test_contents_that_take_long_end_with_the_token_that_asked_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "PART_ROWS", 1)
    published = Published(tmp_path / "shop")
    published.step([Rows({(id, 0): 1 for id in range(60_000)})])
    with site(published.folder) as running:
        _, token = running.tokens.create("reader", Role.VIEWER)
        with events(running, token=token) as source:
            told = iter(source)
            assert next(told)[0] == "snapshot"
            running.tokens.revoke("reader")
            began = time.monotonic()
            assert not any(each["last"] for _, each in told), "all of the contents came"
            assert time.monotonic() - began < 10
        assert readers(running, 0)


def test_a_client_that_leaves_before_the_first_event_leaves_no_reader(tmp_path: Path) -> None:
    """While the head of the answer still waits for room, say: nothing has asked for an event yet."""
    published = Published(tmp_path / "shop")
    published.step([Rows({(1, 1): 1})])

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def no_room(message: Any) -> None:
        await asyncio.sleep(60)

    with site(published.folder) as running:
        reader = running.live.subscribe("sums")
        stream = Stream(followed(reader, Bells(), "sums", lambda: False), reader)
        asyncio.run(stream({"type": "http"}, gone, no_room))
        assert running.live.readers == 0


def test_a_fault_within_is_told_as_the_last_event_and_written_down_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Amid changes and at the beginning; of what it says nothing is told; who asks again later goes on."""
    published, why = Published(tmp_path / "shop"), "no room for the row Ada"

    def fails(*_: Any) -> None:
        raise OSError(why)

    published.step([Rows({(1, 1): 1})])
    with site(published.folder) as running:
        for begun in (True, False):
            with monkeypatch.context() as broken, ExitStack() as open_streams:
                if begun:
                    told = iter(open_streams.enter_context(events(running)))
                    assert next(told)[0] == "snapshot"
                broken.setattr(live_module, "weighted", fails)
                if begun:
                    published.step([Rows({(2, 2): 1})])
                else:
                    told = iter(open_streams.enter_context(events(running)))
                last = list(told)
            assert [(kind, each["code"]) for kind, each in last] == [("error", "internal")]
            assert why not in str(last) and readers(running, 0)
            failed = [record for record in caplog.records if record.exc_info]
            assert [record.message for record in failed] == ["a stream of changes failed"]
            assert why in str(failed[0].exc_info)
            caplog.clear()
        with events(running, last_id="1") as source:
            assert next(iter(source))[1]["rows"] == [{"weight": 1, "row": {"id": 2, "n": 2}}]


def readers(running: Site, count: int) -> bool:
    """Whether there are so many, within a moment: others were given back."""
    for _ in range(2_000):
        if running.live.readers == count:
            return True
        time.sleep(0.01)
    return False
