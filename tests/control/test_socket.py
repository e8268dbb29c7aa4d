"""A verb reaches the running process through its control socket, once and whole, whatever the other side does.

Method: real Unix sockets in temporary folders, the server in this process, clients here, raw and in other
processes. The pipeline behind the verbs is a recorder: it answers fixed values and notes what it was asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket as sockets
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.control import lock, socket, up, verbs
from headrace.engine.frontier import WAITERS
from headrace.engine.heard import Heard
from headrace.model.definition import Project
from headrace.model.errors import HeadraceError


class Recorder:
    """Answers as a pipeline does, and records the calls."""

    tell, error = Heard(None), None

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def plan(self, project: Project) -> dict[str, Any]:
        self.calls.append(("plan", [view.name for view in project.views]))
        return {"changes": [], "tables": {}, "views": [], "warnings": []}

    def apply(self, project: Project) -> dict[str, Any]:
        self.calls.append(("apply", [view.name for view in project.views]))
        return {"changes": [{"action": "create", "kind": "view", "name": "a", "reason": "", "affects": []}]}

    def explain(self, view: str) -> dict[str, Any]:
        self.calls.append(("explain", view))
        return {"view": view, "sql": "", "operators": [], "text": "one\ntwo"}

    def query(self, text: str, seconds: float | None, still_wanted: object, limit: int) -> SimpleNamespace:
        self.calls.append(("sql", text))
        rows = pa.table({"n": [1, 2, 3], "d": pa.array([Decimal("1.50"), None, Decimal("-2.00")])})
        return SimpleNamespace(commit=7, rows=rows.slice(0, limit), more=True, stale={"a": "it has failed"})

    def verify(self, views: list[str] | None, on_progress: verbs.Progress | None = None) -> dict[str, Any]:
        self.calls.append(("verify", views))
        assert on_progress is not None
        for done in (1, 2):
            on_progress({"text": "a", "done": done, "total": 2})
        return {"commit": 7, "views": [], "differences": 0}

    def drop(self, view: str) -> dict[str, Any]:
        self.calls.append(("drop", view))
        return {"dropped": view}

    def status(self) -> dict[str, Any]:
        return {"commit": 7, "frontier": 7, "views": [{"name": "a"}], "sources": [], "sinks": []}

    def frontier(self) -> dict[str, Any]:
        return {"commit": 7, "least": 5, "lag": 2, "behind_s": 0.5, "views": [], "sinks": []}

    def wait_for(
        self, token: str, timeout_s: float, view: str | None, sink: str | None, on_progress: verbs.Progress,
        whose: str | None,
    ) -> dict[str, Any]:  # fmt: skip
        self.calls.append(("wait", token, timeout_s, view, sink))
        while token == "8":
            on_progress({"text": "waiting"})
            time.sleep(0.01)
        return {"token": token, "commit": 7, "reached": 7, "of": f"view {view}"}

    def start(self) -> None:
        self.calls.append(("start",))

    def stop(self) -> None:
        self.calls.append(("stop",))

    def wait(self, timeout_s: float | None) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "views").mkdir()
    (tmp_path / "headrace.yaml").write_text("")
    (tmp_path / "views/a.sql").write_text("SELECT 1 AS one")
    (tmp_path / "views/b.sql").write_text("SELECT one FROM a")
    return tmp_path.resolve()


@contextlib.contextmanager
def serving(folder: Path, recorder: Recorder) -> Iterator[threading.Event]:
    stopping = threading.Event()
    dispatcher = verbs.Dispatcher(folder, stopping.set)
    dispatcher.attach(recorder)
    with lock.hold(folder, "headrace up"), socket.ControlServer(folder, dispatcher.handle):
        yield stopping


def ask(folder: Path, verb: str, **arguments: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    return verbs.call(folder, verb, arguments, told.append), told


def raw(folder: Path, sent: bytes) -> list[dict[str, Any]]:
    with sockets.socket(sockets.AF_UNIX) as connection:
        connection.connect(str(folder / socket.FILE))
        connection.sendall(sent)
        return [json.loads(line) for line in connection.makefile("rb")]


def test_each_verb_reaches_the_pipeline_with_its_arguments(folder: Path) -> None:
    recorder = Recorder()
    with serving(folder, recorder):
        assert ask(folder, "plan")[0]["changes"] == []
        assert ask(folder, "apply")[0]["changes"][0]["name"] == "a"
        assert ask(folder, "explain", view="A")[0]["text"] == "one\ntwo"
        answer, told = ask(folder, "verify", views=["b"])
        assert answer == {"commit": 7, "views": [], "differences": 0}
        assert told[-2:] == [{"text": "a", "done": 1, "total": 2}, {"text": "a", "done": 2, "total": 2}]
        ask(folder, "verify", views=[])
        assert ask(folder, "status")[0]["pid"] == os.getpid()
        assert ask(folder, "frontier")[0]["least"] == 5
        assert ask(folder, "wait", token="shop:0/1", view="a", timeout=2)[0]["reached"] == 7
        ask(folder, "wait", token=7, sink="out")
    assert recorder.calls == [
        ("plan", ["a", "b"]),
        ("apply", ["a", "b"]),
        ("explain", "a"),
        ("verify", ["b"]),
        ("verify", None),
        ("wait", "shop:0/1", 2.0, "a", None),
        ("wait", "7", 60.0, None, "out"),
    ]


def test_plan_and_apply_take_the_files_as_they_are_now(folder: Path) -> None:
    recorder = Recorder()
    with serving(folder, recorder):
        (folder / "views/c.sql").write_text("SELECT 3 AS three")
        ask(folder, "plan")
        (folder / "views/c.sql").write_text("")
        with pytest.raises(HeadraceError) as caught:
            ask(folder, "apply")
        assert (caught.value.code, caught.value.where) == ("config.invalid", "views/c.sql")
    assert recorder.calls == [("plan", ["a", "b", "c"])]


def test_query_results_are_exact_and_bounded(folder: Path) -> None:
    with serving(folder, Recorder()):
        answer, _ = ask(folder, "sql", sql="SELECT 1", limit=2)
    columns = [{"name": "n", "type": "bigint"}, {"name": "d", "type": "decimal(3,2)"}]
    assert answer == {
        "commit": 7, "columns": columns, "rows": [[1, "1.50"], [2, None]], "more": True, "stale": {"a": "it has failed"}
    }  # fmt: skip


def test_errors_arrive_with_all_their_parts(folder: Path) -> None:
    with serving(folder, Recorder()):
        with pytest.raises(HeadraceError) as caught:
            ask(folder, "explain", view="bb")
        assert caught.value.as_dict() == {
            "code": "view.unknown",
            "what": "there is no view 'bb'",
            "where": "",
            "why": "",
            "next": "did you mean 'b'?",
        }
        with pytest.raises(HeadraceError) as caught:
            ask(folder, "sql", sql="  ")
        assert caught.value.code == "sql.syntax"


def test_a_fault_in_a_verb_is_told_and_the_server_goes_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    recorder.explain = lambda view: 1 / 0  # type: ignore[method-assign, return-value, assignment]
    with serving(folder, recorder):
        with pytest.raises(HeadraceError, match="ZeroDivisionError") as caught:
            ask(folder, "explain", view="a")
        assert caught.value.code == "internal"
        assert "ZeroDivisionError" in caplog.text
        assert ask(folder, "status")[0]["commit"] == 7


@pytest.mark.parametrize(
    "sent",
    [b"\n", b"hello\n", b"[]\n", b'{"verb": 1}\n', b'{"verb": "plan", "arguments": []}\n', b"[" * 100_000 + b"\n"],
)
def test_what_is_no_request_is_refused(folder: Path, sent: bytes) -> None:
    with serving(folder, Recorder()):
        answers = raw(folder, sent)
    assert [answer["error"]["code"] for answer in answers] == ["config.invalid"]


def test_an_endless_line_is_refused_before_it_fills_the_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "LINE_LIMIT", 1000)
    with serving(folder, Recorder()):
        for size in (1001, 5_000_000):
            with pytest.raises(HeadraceError, match="at most 1,000 bytes"):
                socket.request(folder, "x" * size)
        assert ask(folder, "status")[0]["commit"] == 7


def test_an_unknown_verb_points_at_another_version(folder: Path) -> None:
    with serving(folder, Recorder()), pytest.raises(HeadraceError, match="another version"):
        socket.request(folder, "fly", {})


def test_only_the_user_may_call(folder: Path) -> None:
    old = os.umask(0)
    try:
        with serving(folder, Recorder()):
            assert stat.S_IMODE((folder / socket.FILE).stat().st_mode) == 0o600
            assert stat.S_IMODE((folder / ".headrace").stat().st_mode) == 0o700
    finally:
        os.umask(old)


def test_another_user_is_turned_away_even_past_the_file_mode(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s.connect(f'/proc/self/fd/{fd}/control.sock'); s.sendall(b'{\"verb\": \"stop\"}\\n'); print(s.recv(100))"
    )
    if os.getuid() != 0:  # only root can become somebody else; anybody can take the server for somebody else's
        monkeypatch.setattr(os, "getuid", lambda: 65534)
    with serving(folder, Recorder()) as stopping:
        (folder / ".headrace").chmod(0o755)
        (folder / socket.FILE).chmod(0o666)
        command = [sys.executable, "-c", code, folder / ".headrace"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert not stopping.is_set()
    assert done.stdout == "b''\n" or "Error" in done.stderr


def test_a_stale_socket_is_replaced(folder: Path) -> None:
    code = (
        "import os, sys, threading; from pathlib import Path; from headrace.control.socket import ControlServer;"
        "ControlServer(Path(sys.argv[1]), lambda *a: {}).start(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, folder], check=False).returncode == -9
    assert (folder / socket.FILE).is_socket()
    assert not socket.running(folder)
    with serving(folder, Recorder()):
        assert ask(folder, "status")[0]["state"] == "running"
    assert not (folder / socket.FILE).exists()


def test_a_served_socket_is_not_taken_over(folder: Path) -> None:
    with serving(folder, Recorder()):
        with pytest.raises(HeadraceError) as caught:
            socket.ControlServer(folder, lambda verb, arguments, progress: {}).start()
        assert caught.value.code == "project.locked"
        assert socket.running(folder)


def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a long name for a folder"] * 8)
    deep.mkdir(parents=True)
    (deep / "headrace.yaml").write_text("")
    assert len(os.fsencode(deep)) > 190
    assert not socket.running(deep)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with serving(deep, Recorder()):
        assert ask(deep, "status")[0]["frontier"] == 7
        assert stat.S_IMODE((deep / socket.FILE).stat().st_mode) == 0o600
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_without_a_server_a_verb_says_what_to_run(folder: Path) -> None:
    with pytest.raises(HeadraceError) as caught:
        verbs.call(folder, "apply", {}, lambda event: None)
    assert (caught.value.code, caught.value.next) == ("project.not_running", f"headrace up --project {folder}")


def test_a_server_that_dies_at_work_is_told_apart_from_none(folder: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from headrace.control.socket import ControlServer\n"
        "def handle(verb, arguments, progress): progress({'text': 'on'}); os.kill(os.getpid(), 9)\n"
        "ControlServer(Path(sys.argv[1]), handle).start(); print('up', flush=True); time.sleep(60)"
    )
    server = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE)
    assert server.stdout is not None
    with server:
        assert server.stdout.readline() == b"up\n"
        told: list[dict[str, Any]] = []
        with pytest.raises(HeadraceError, match="ended while `verify` was at work"):
            socket.request(folder, "verify", {}, told.append)
    assert told == [{"text": "on"}]


def test_a_client_that_leaves_ends_verify_but_not_apply(folder: Path) -> None:
    left, ended = threading.Event(), threading.Event()

    class Slow(Recorder):
        def verify(self, views: list[str] | None, on_progress: verbs.Progress | None = None) -> dict[str, Any]:
            assert on_progress is not None
            assert left.wait(10)
            try:
                for done in range(1000):
                    on_progress({"text": "still", "done": done, "total": 1000})
                    time.sleep(0.01)
            finally:
                ended.set()
            return super().verify(views, on_progress)

    recorder = Slow()
    with serving(folder, recorder):
        for verb in ("verify", "apply"):
            with sockets.socket(sockets.AF_UNIX) as connection:
                connection.connect(str(folder / socket.FILE))
                connection.sendall(json.dumps({"verb": verb}).encode() + b"\n")
                assert b"progress" in connection.recv(1000)
            left.set()
        assert ended.wait(10)
        until = time.monotonic() + 10
        while not recorder.calls and time.monotonic() < until:
            time.sleep(0.01)
    assert recorder.calls == [("apply", ["a", "b"])]


def test_a_client_that_leaves_ends_its_wait_and_others_are_served_meanwhile(folder: Path) -> None:
    ended = threading.Event()

    class Waiting(Recorder):
        def wait_for(self, *arguments: Any) -> dict[str, Any]:
            try:
                return super().wait_for(*arguments)
            finally:
                ended.set()

    assert 2 * WAITERS <= socket.CLIENTS
    with serving(folder, Waiting()):
        with sockets.socket(sockets.AF_UNIX) as connection:
            connection.connect(str(folder / socket.FILE))
            connection.sendall(b'{"verb": "wait", "arguments": {"token": "8", "timeout": 3600}}\n')
            assert b"progress" in connection.recv(1000)
            assert ask(folder, "frontier")[0]["least"] == 5
            assert not ended.is_set()
        assert ended.wait(10)


def test_many_calls_at_once_each_get_their_own_answer(folder: Path) -> None:
    answers: dict[int, Any] = {}

    def handle(verb: str, arguments: dict[str, Any], progress: socket.Progress) -> dict[str, Any]:
        time.sleep(0.05)
        return {"n": arguments["n"]}

    def client(n: int) -> None:
        answers[n] = socket.request(folder, "x", {"n": n})["n"]

    (folder / ".headrace").mkdir()
    with socket.ControlServer(folder, handle):
        threads = [threading.Thread(target=client, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {n: n for n in range(20)}


def test_too_many_calls_are_told_to_come_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "CLIENTS", 1)
    go = threading.Event()

    def handle(verb: str, arguments: dict[str, Any], progress: socket.Progress) -> dict[str, Any]:
        progress({"text": "in"})
        assert go.wait(10)
        return {}

    with socket.ControlServer(folder, handle):
        inside = threading.Event()
        first = threading.Thread(target=socket.request, args=(folder, "x", {}, lambda event: inside.set()))
        first.start()
        assert inside.wait(10)
        with pytest.raises(HeadraceError, match="calls are being served"):
            socket.request(folder, "x", {})
        go.set()
        first.join()


def test_a_call_during_the_start_waits_for_it(folder: Path) -> None:
    dispatcher = verbs.Dispatcher(folder, lambda: None)
    with socket.ControlServer(folder, dispatcher.handle):
        assert ask(folder, "status")[0]["state"] == "starting"
        told: list[dict[str, Any]] = []

        def waits(event: dict[str, Any]) -> None:
            told.append(event)
            if len(told) == 1:  # the start ends while the call waits for it
                dispatcher.attach(Recorder())

        assert verbs.call(folder, "verify", {}, waits)["commit"] == 7
    assert told[0] == {"text": "`headrace up` is starting"}


def test_drop_keeps_the_file_and_names_a_sink_that_lists_the_view(folder: Path) -> None:
    recorder = Recorder()
    (folder / "sinks").mkdir()
    (folder / "sinks/out.yaml").write_text("type: duckdb\nviews: [a]\n")
    with serving(folder, recorder):
        with pytest.raises(HeadraceError) as caught:
            ask(folder, "drop", view="a")
        assert (caught.value.code, caught.value.where) == ("view.has_readers", "sinks/out.yaml")
        assert recorder.calls == []
        assert ask(folder, "drop", view="b")[0] == {"view": "b", "dropped": "b", "kept": "views/b.sql.dropped"}
    assert recorder.calls == [("drop", "b")]
    assert (folder / "views/b.sql.dropped").read_text() == "SELECT one FROM a"
    assert not (folder / "views/b.sql").exists()


def test_up_serves_until_the_verb_stop(folder: Path) -> None:
    recorder, stopping, seen = Recorder(), threading.Event(), []
    arguments = {"on_event": seen.append, "on_ready": seen.append, "on_tick": lambda status: None}
    project = Project(folder)
    running = threading.Thread(
        target=up.run, args=(project, stopping), kwargs={**arguments, "make": lambda project, on_event: recorder}
    )
    running.start()
    until = time.monotonic() + 10
    while not seen and time.monotonic() < until:
        time.sleep(0.01)
    assert ask(folder, "stop")[0] == {"pid": os.getpid()}
    assert lock.wait_free(folder, 10)
    running.join(10)
    assert recorder.calls == [("start",), ("stop",)]
    assert not socket.running(folder)


def test_up_is_ready_once_every_source_has_begun(folder: Path) -> None:
    class Beginning(Recorder):
        def status(self) -> dict[str, Any]:
            self.calls.append(("status",))
            begun = len(self.calls) > 3
            source = {"name": "web", "state": "running", "endpoint": "http://x"} if begun else {"state": "starting"}
            return {**super().status(), "sources": [source]}

    stopping, seen = threading.Event(), []

    def ready(status: dict[str, Any]) -> None:
        seen.append(status)
        stopping.set()

    up.run(
        Project(folder), stopping, on_event=print, on_ready=ready, on_tick=print,
        make=lambda project, on_event: Beginning(),
    )  # fmt: skip
    assert [status["sources"][0]["endpoint"] for status in seen] == ["http://x"]


def test_up_that_fails_to_start_lets_everything_go(folder: Path) -> None:
    class Broken(Recorder):
        def start(self) -> None:
            raise HeadraceError("source.connect", "no route")

    recorder = Broken()
    arguments = {"on_event": print, "on_ready": print, "on_tick": print}
    with pytest.raises(HeadraceError, match="no route"):
        up.run(Project(folder), threading.Event(), **arguments, make=lambda project, on_event: recorder)  # type: ignore[arg-type]
    assert recorder.calls == [("stop",)]
    with lock.hold(folder, "test"):
        assert not socket.running(folder)


def test_a_second_process_is_refused_with_the_pid_of_the_first(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from headrace.control import lock\n"
        "with lock.hold(Path(sys.argv[1]), 'headrace up'): print('held', flush=True); sys.stdin.read()"
    )
    first = subprocess.Popen([sys.executable, "-c", code, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout is not None
    with first:
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(HeadraceError) as caught, lock.hold(folder, "headrace sql"):
            pass
        assert caught.value.code == "project.locked"
        assert caught.value.what == f"process {first.pid} (`headrace up`) runs this project"
        assert "headrace stop" in caught.value.next
        assert f"kill {first.pid}" in caught.value.next
        assert not lock.wait_free(folder, 0.1)
        first.kill()
    assert lock.wait_free(folder, 5)
    with lock.hold(folder, "headrace sql"):  # SIGKILL has left nothing that is in the way
        assert lock.holder(folder) == (os.getpid(), "headrace sql")
    assert lock.holder(folder) is None
