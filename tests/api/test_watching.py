"""Goal: `headrace.watch` and `headrace watch --url` follow a view over HTTP without gap or repeat, whatever ends.

Method: a server behind a gate that cuts connections in mid-stream and after; oracle: the rows that the test adds up.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from served_project import site

import headrace
from headrace.catalog import searches
from headrace.model.definition import StoredQuery
from headrace.model.errors import HeadraceError
from headrace.model.view_step import ViewStep
from headrace.serve import live as live_module
from headrace.web import event_source
from published_view import Published, Rows

COMMAND = Path(sys.executable).with_name("headrace")


class CutOff(threading.Thread):
    """A port that passes bytes on to another, and cuts each connection after as many bytes as it is told to."""

    def __init__(self, port: int, after: list[int]) -> None:
        super().__init__(daemon=True)
        self._to, self._after, self.connections = port, after, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def run(self) -> None:
        with suppress(OSError):
            while True:
                self._pass_on(self._listening.accept()[0])

    def _pass_on(self, ours: socket.socket) -> None:
        left = self._after[self.connections] if self.connections < len(self._after) else 1 << 30
        self.connections += 1
        with ours, socket.create_connection(("127.0.0.1", self._to)) as theirs:
            while left > 0:
                for ready in select.select([ours, theirs], [], [], 20)[0]:
                    piece = ready.recv(min(left, 4096))
                    if not piece:
                        return
                    (theirs if ready is ours else ours).sendall(piece)
                    left -= len(piece) if ready is theirs else 0

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@contextmanager
def cut_off(url: str, *after: int) -> Iterator[CutOff]:
    gate = CutOff(int(url.rpartition(":")[2]), list(after))
    gate.start()
    try:
        yield gate
    finally:
        gate.close()
        gate.join(20)


def applied(rows: Rows, step: ViewStep) -> Rows:
    rows = Rows() if step.kind == "behind" else rows
    for change in step.changes:
        rows[change["row"]["id"], change["row"]["n"]] += change["weight"]
    return Rows({row: count for row, count in rows.items() if count})


def change(published: Published, rng: random.Random) -> None:
    """Steps up to one that changes something: of others nobody is told."""
    while True:
        delta = published.changes(rng)
        published.step([delta])
        if any(delta.values()):
            return


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    monkeypatch.setattr(live_module, "PART_ROWS", 2)
    monkeypatch.setattr(event_source, "AGAIN_S", (0.01, 0.05))
    made, rng = Published(tmp_path / "shop"), random.Random(4)
    made.held.append(Rows({(n, 0): 1 for n in range(100, 112)}))
    made.step([made.held[-1]])
    for _ in range(8):
        made.step([made.changes(rng)])
    return made


def test_each_step_arrives_once_whatever_ends_the_connection(published: Published) -> None:
    """Cut amid the contents, in a change, and between; what was begun and not whole is told to be forgotten."""
    rng, rows, kinds = random.Random(5), Rows(), list[str]()
    with site(published.folder) as running, cut_off(running.url, *range(300, 1_600, 60)) as gate:
        for step in headrace.watch("sums", url=gate.url, token=running.owner):
            rows = applied(rows, step)
            kinds.append(step.kind)
            if step.kind == "change" or (step.kind == "snapshot" and step.last):
                assert rows == published.held[step.commit]
                if step.commit >= 40:
                    break
                change(published, rng)
        assert gate.connections >= 10
        again = next(iter(headrace.watch("sums", url=running.url, token=running.owner, after=30)))
        assert again.kind == "change" and again.commit > 30
    assert "behind" in kinds and kinds.count("change") >= 15


def test_a_part_of_a_view_stays_that_part_whatever_ends_the_connection(published: Published) -> None:
    """``n`` of a row changes: it begins to pass the filter, and ceases to, also while the connection is away."""
    rng, rows = random.Random(7), Rows()

    def passes(row: tuple[int, int]) -> bool:
        return row[1] > 0 and row[0] < 300

    published.held.append(Rows({**published.held[-1], (300, 1): 1}))
    published.step([Rows({(300, 1): 1})])
    with site(published.folder) as running, cut_off(running.url, *range(300, 1_600, 100)) as gate:
        for step in headrace.watch("sums", url=gate.url, token=running.owner, where={"n": "gt.0", "id": "lt.300"}):
            rows = applied(rows, step)
            if step.kind == "change" or (step.kind == "snapshot" and step.last):
                assert rows == Rows({row: n for row, n in published.held[step.commit].items() if passes(row)})
                if step.commit >= 40:
                    break
                delta = Rows()
                while not any(passes(row) for row, n in delta.items() if n):
                    delta = published.changes(rng)
                    published.step([delta])
        assert gate.connections >= 5
        with pytest.raises(HeadraceError, match="'m'"):
            next(iter(headrace.watch("sums", url=running.url, token=running.owner, where={"m": "eq.1"})))
    with pytest.raises(HeadraceError, match="by its 'url'"):
        next(iter(headrace.watch("sums", project=published.folder, where={"n": "gt.0"})))


def test_a_fault_of_the_server_is_told_and_asked_again(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    spelled, lost, faults = live_module.weighted, list[str](), iter([OSError("no room")])

    def fails_once(rows: Any) -> Any:
        for fault in faults:
            raise fault
        return spelled(rows)

    with site(published.folder) as running:
        source = event_source.EventSource(running.url, "sums", running.owner, 8, lost.append)
        steps = source.steps(threading.Event())
        assert next(steps).commit == 9
        monkeypatch.setattr(live_module, "weighted", fails_once)
        published.step([Rows({(70, 1): 1})])
        assert next(steps).changes == [{"weight": 1, "row": {"id": 70, "n": 1}}]
    assert lost == ["ConnectionError: the request failed by a fault in Headrace"]


def test_in_the_folder_the_same_steps(published: Published) -> None:
    rng, rows = random.Random(6), Rows()
    for step in headrace.watch("sums", project=published.folder):
        rows = applied(rows, step)
        assert rows == published.held[step.commit]
        if step.commit >= 20:
            break
        change(published, rng)


def test_what_cannot_be_followed_is_an_error_at_once(published: Published) -> None:
    def refused(view: str, url: str, token: str) -> HeadraceError:
        with pytest.raises(HeadraceError) as caught:
            next(iter(headrace.watch(view, url=url, token=token)))
        return caught.value

    with site(published.folder) as running:
        assert refused("sums", running.url, "headrace_wrong").code == "access.token"
        unknown = refused("sms", running.url, running.owner)
        assert (unknown.code, unknown.next) == ("view.unknown", "did you mean 'sums'?")
        assert refused("sums", f"{running.url}/elsewhere", running.owner).code in ("api.route", "api.unreachable")
        url = running.url
    gone = refused("sums", url, "headrace_x")
    assert gone.code == "api.unreachable" and gone.where == url and "refused" in gone.why
    for wrong in ("shop:7080", "http://127.0.0.1:70800", "http://127.0.0.1:abc", "http://[::1", "http://"):
        assert refused("sums", wrong, "").code == "config.invalid"
    shown = refused("sums", url, "headrace_a secret\nheadrace_b")
    assert shown.code == "access.token" and "secret" not in str(shown.as_dict())


def test_a_token_is_taken_from_its_file_as_it_is(published: Published) -> None:
    """With the line's end that it has there."""
    with site(published.folder) as running:
        first = next(iter(headrace.watch("sums", url=running.url, token=f"{running.owner}\r\n")))
    assert first.kind == "snapshot"


@contextmanager
def following(url: str, token: str, *arguments: str) -> Iterator[Callable[[], Any]]:
    """A command that follows over HTTP: what gives its next line."""
    command = subprocess.Popen(
        [COMMAND, *arguments, "--url", url, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "HEADRACE_TOKEN": token},
    )  # fmt: skip
    stdout = command.stdout
    assert stdout is not None
    try:
        yield lambda: json.loads(stdout.readline())
    finally:
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=20)
    assert (command.returncode, out) == (0, "") and "Traceback" not in err


def test_the_command_follows_a_part(published: Published) -> None:
    wanted = ("watch", "sums", "--after", "9", "--where", "n=eq.1", "--where", "id=lt.80")
    with site(published.folder) as running, following(running.url, running.owner, *wanted) as line:
        published.step([Rows({(70, 1): 1, (71, 2): 1, (90, 1): 1})])
        assert line() == {"commit": 10, "snapshot": False, "changes": [{"weight": 1, "row": {"id": 70, "n": 1}}]}


def test_the_command_follows_a_stored_query_beside_a_break(published: Published) -> None:
    searches.add(published.folder, StoredQuery("seventies", "sums", "id:70"))
    published.step([Rows({(70, 1): 1, (71, 2): 1})])
    wanted, row = ("queries", "watch", "seventies"), {"query": "seventies", "row": {"id": 70, "n": 1}}
    first = {"commit": 10, "snapshot": True, "changes": [{**row, "weight": 1}]}
    with (
        site(published.folder) as running,
        cut_off(running.url, 400) as gate,
        following(gate.url, running.owner, *wanted) as line,
    ):
        told = line()
        while told != first or gate.connections < 2:  # `behind` stands between what is told twice
            assert told == first or (told["behind"] and told["changes"] == [])
            told = line()
        published.step([Rows({(70, 1): -1})])
        assert line() == {"commit": 11, "snapshot": False, "changes": [{**row, "weight": -1}]}


def test_a_stored_query_is_followed_from_python_whatever_ends_the_connection(published: Published) -> None:
    searches.add(published.folder, StoredQuery("twos", "sums", "n:2"))
    rng, rows = random.Random(9), Rows()
    with site(published.folder) as running, cut_off(running.url, *range(300, 1_600, 100)) as gate:
        for step in headrace.watch_query("twos", url=gate.url, token=running.owner):
            rows = applied(rows, step)
            if step.kind == "change" or (step.kind == "snapshot" and step.last):
                assert rows == Rows({row: n for row, n in published.held[step.commit].items() if row[1] == 2})
                if step.commit >= 40:
                    break
                delta = Rows()
                while not any(row[1] == 2 for row, n in delta.items() if n):
                    delta = published.changes(rng)
                    published.step([delta])
        assert gate.connections >= 5
        with pytest.raises(HeadraceError) as unknown:
            next(headrace.watch_query("threes", url=running.url, token=running.owner))
    assert unknown.value.code == "search.unknown"


def test_without_the_contents_none_are_sent(published: Published) -> None:
    """Steps go on until the first is told, as nothing says before that it is followed."""
    searches.add(published.folder, StoredQuery("all", "sums", "*"))
    over = threading.Event()

    def steps() -> None:
        while not over.wait(0.2):
            published.step([Rows({(1_000 + published.number, 7): 1})])

    def told(commit: int) -> list[dict[str, Any]]:
        return [{"weight": 1, "row": {"id": 999 + commit, "n": 7}}]

    beside = threading.Thread(target=steps)
    with site(published.folder) as running:
        beside.start()
        try:
            for kind, name in (("views", "sums"), ("queries", "all")):
                source = event_source.EventSource(running.url, name, running.owner, kind=kind, snapshot=False)  # type: ignore[arg-type]
                first = next(source.steps(threading.Event()))
                assert (first.kind, first.changes) == ("change", told(first.commit))
            with following(running.url, running.owner, "watch", "sums", "--no-snapshot") as line:
                first_line = line()
                over.set()
                beside.join()
                assert first_line == {
                    "commit": first_line["commit"], "snapshot": False, "changes": told(first_line["commit"]),
                }  # fmt: skip
                for commit in range(first_line["commit"] + 1, published.upto + 1):
                    assert line()["commit"] == commit
        finally:
            over.set()
            beside.join()


def test_the_command_goes_on_after_the_connection_was_cut(published: Published) -> None:
    with site(published.folder) as running, cut_off(running.url, 1 << 30) as gate:
        environment = {**os.environ, "HEADRACE_TOKEN": running.owner}
        watch = subprocess.Popen(
            [COMMAND, "watch", "sums", "--url", gate.url, "--json", "--after", "8"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert watch.stdout is not None
        try:
            assert json.loads(watch.stdout.readline())["commit"] == 9
            published.step([Rows({(70, 1): 1})])
            assert json.loads(watch.stdout.readline()) == {
                "commit": 10, "snapshot": False, "changes": [{"weight": 1, "row": {"id": 70, "n": 1}}],
            }  # fmt: skip
        finally:
            watch.send_signal(signal.SIGINT)
            out, err = watch.communicate(timeout=20)
    assert (watch.returncode, out) == (0, "") and "Traceback" not in err
