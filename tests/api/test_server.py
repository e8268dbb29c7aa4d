"""Goal: the API beside a project is where it says, starts with its first request, and leaves nothing behind.

Method: the part that `headrace up` starts, without a pipeline, asked by real HTTP.
"""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from headrace.api import server
from headrace.api.server import Servers
from headrace.control import doctor
from headrace.control.socket import ControlServer
from headrace.model.definition import ApiSettings, Project, PsqlSettings, Settings
from headrace.model.errors import HeadraceError
from headrace.testing.ports import free_port
from headrace.web import addresses
from headrace.web.server import ServerThread
from published_view import Published

STARTS_S = 20  # the process that answers begins with the first request, on a machine that may be busy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Published(tmp_path / "shop").folder


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def made(folder: Path, **settings: Any) -> tuple[Servers, list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    return Servers(Project(folder, Settings(api=ApiSettings(**settings))), told.append), told


def test_it_tells_where_it_is_answers_and_takes_its_address_away(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orjson.py").write_text("raise SystemExit('imported from the folder it begins in')")
    monkeypatch.chdir(tmp_path)
    address, token = folder / ".headrace/api.json", folder / ".headrace/tokens/api"
    address.write_text("{}")  # of one that was killed
    beside, told = made(folder, port=0)
    beside.listen()
    assert not address.exists()
    beside.begin(None)
    try:
        url = told[0]["url"]
        assert (told[0]["event"], told[0]["token_file"]) == ("api.started", str(token))
        assert json.loads(address.read_text())["url"] == url and token.read_text().strip() not in str(told)
        assert stat.S_IMODE(token.stat().st_mode) == stat.S_IMODE(address.stat().st_mode) == 0o600
        assert beside._process is None  # nobody has asked yet
        assert httpx.get(f"{url}/api/health", timeout=STARTS_S).json()["status"] == "ok"
        asked = httpx.get(
            f"{url}/api/views/sums/rows", headers={"Authorization": f"Bearer {token.read_text().strip()}"}
        )
        assert asked.json()["rows"] == []
        status = httpx.get(f"{url}/api/status", headers={"Authorization": f"Bearer {token.read_text().strip()}"})
        assert (status.status_code, status.json()["code"]) == (503, "project.not_running")  # here nothing runs it
    finally:
        beside.close()
    assert not address.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/api/health")
    beside.close()


def test_it_ends_without_having_been_asked_or_begun(folder: Path) -> None:
    for begins in (True, False):
        beside, _ = made(folder, port=0)
        beside.listen()
        if begins:
            beside.begin(None)
        beside.close()


def test_the_usual_port_may_be_taken_a_configured_one_not(
    folder: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "PORT", taken)
    beside, told = made(folder)
    beside.listen()
    beside.begin(None)
    assert not told[0]["url"].endswith(f":{taken}")
    beside.close()
    refused, _ = made(folder, port=taken)
    with pytest.raises(HeadraceError) as caught:
        refused.listen()
    refused.close()
    assert (caught.value.code, caught.value.where) == ("api.port", "headrace.yaml: api.port")
    assert f"port: {taken + 1}" in caught.value.next


def test_without_tokens_it_names_no_file_of_one(folder: Path) -> None:
    beside, told = made(folder, port=0, auth="none")
    beside.listen()
    beside.begin(None)
    try:
        assert "token_file" not in told[0] and "token" not in told[0]["text"]
        assert httpx.get(f"{told[0]['url']}/api/me", timeout=STARTS_S).json()["name"] == "anyone"
        assert not (folder / ".headrace/tokens/api").exists()
    finally:
        beside.close()


def test_one_that_was_killed_is_followed_by_another_and_none_outlives_the_project(folder: Path) -> None:
    beside, told = made(folder, port=0)
    beside.listen()
    beside.begin(None)
    url = f"{told[0]['url']}/api/health"
    try:
        assert httpx.get(url, timeout=STARTS_S).json()["status"] == "ok"
        first = beside._process
        assert first is not None and first.poll() is None
        first.kill()
        first.wait()
        assert httpx.get(url, timeout=STARTS_S).json()["status"] == "ok"
        assert told[1]["event"] == "api.failed" and "exit status -9" in told[1]["text"]
        second = beside._process
        assert second is not None and second.pid != first.pid and second.stdin is not None
        second.stdin.close()  # as when the process that runs the project is killed
        assert second.wait(10) == 0
    finally:
        beside.close()


def test_one_that_hangs_is_ended_told_and_followed_by_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HUNG_S", 3.0)
    beside, told = made(folder, port=0)
    beside.listen()
    beside.begin(None)
    url = f"{told[0]['url']}/api/health"
    try:
        assert httpx.get(url, timeout=30).json()["status"] == "ok"
        first = beside._process
        assert first is not None
        time.sleep(4)  # it gives signs of life while nobody asks
        assert first.poll() is None
        first.send_signal(signal.SIGSTOP)
        assert httpx.get(url, timeout=30).json()["status"] == "ok"
        second = beside._process
        assert second is not None and second.pid != first.pid and first.returncode == -signal.SIGKILL
        text = "what serves has not answered for 3 s and was ended"
        assert [event["text"] for event in told[1:]] == [f"{text}; it begins anew, in 1 s or later"]
        with ControlServer(folder, lambda verb, arguments, progress: {"sources": []}):
            examined = doctor.run(folder, quick=True)["examined"]
        (found,) = [finding for one in examined for finding in one["findings"] if "begun anew" in finding["what"]]
        assert (found["state"], found["what"]) == (
            "warning", "what serves the page, the API and psql has begun anew, 1 in all"
        )  # fmt: skip
        assert found["why"].endswith(f": {text}")
    finally:
        beside.close()
    assert not (folder / ".headrace/api.json").exists()


def test_a_disk_that_refuses_is_told_as_why_it_cannot_begin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "AGAIN_S", 0.1)
    (folder / ".headrace/access.db").symlink_to("/dev/full")
    beside, told = made(folder, port=0, auth="none")
    beside.listen()
    beside.begin(None)
    try:
        with socket.create_connection(beside._listeners["api"].getsockname()):
            end = time.monotonic() + 20
            while len(told) < 2 and time.monotonic() < end:
                time.sleep(0.01)
            (folder / ".headrace/access.db").unlink()
        why = f"no space is left on the disk: {folder}/.headrace: database or disk is full"
        assert told[1]["text"] == f"what serves has ended: {why}; it begins anew, in 0.1 s or later"
        assert httpx.get(f"{told[0]['url']}/api/health", timeout=20).json()["status"] == "ok"
    finally:
        beside.close()


def test_no_sign_of_life_comes_of_a_loop_that_hangs() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        time.sleep(2.5)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    signs: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = ServerThread(app, listener, alive=lambda: signs.append(time.monotonic()))
        try:
            began = time.monotonic()
            assert httpx.get(f"http://127.0.0.1:{served.port}/", timeout=20).status_code == 204
            ended = time.monotonic()
            while not signs or signs[-1] < ended:
                time.sleep(0.05)
        finally:
            served.close()
    during = [at for at in signs if began + 1.1 < at < ended]
    assert during == [] and len(signs) >= 2


def test_one_that_cannot_begin_is_tried_again_less_and_less_often(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "AGAIN_S", 0.05)
    monkeypatch.setattr(server, "AGAIN_MAX_S", 0.1)
    executable = sys.executable
    beside, told = made(folder, port=0)
    beside.listen()
    try:
        monkeypatch.setattr(sys, "executable", str(folder / "none"))
        beside.begin(None)
        host, port = beside._listeners["api"].getsockname()
        with socket.create_connection((host, port)):
            for program in (str(folder / "none"), "/bin/false"):
                monkeypatch.setattr(sys, "executable", program)
                seen, end = len(told), time.monotonic() + 10
                while len(told) < seen + 3 and time.monotonic() < end:
                    time.sleep(0.01)
        texts = [event["text"] for event in told if event["event"] == "api.failed"]
        assert texts[:3] == [
            f"what serves cannot begin: No such file or directory; it begins anew, in {s} s or later"
            for s in ("0.05", "0.1", "0.1")
        ]
        assert texts[-1] == "what serves has ended with exit status 1; it begins anew, in 0.1 s or later"
        monkeypatch.setattr(sys, "executable", executable)
        assert httpx.get(f"{told[0]['url']}/api/health", timeout=STARTS_S).json()["status"] == "ok"
    finally:
        beside.close()


CHILD = """
import time, uvicorn
from headrace.api import serving
async def over(server): pass
def hangs(live): time.sleep(60)
{broken}
serving.LOOK_S, serving.END_S = 0.1, 0.3
serving.main()
"""


@pytest.mark.parametrize("broken", ["uvicorn.Server.main_loop = over", "serving.Live.end = hangs"])
def test_the_process_ends_when_it_answers_no_more_and_whatever_hangs(folder: Path, broken: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = {
            "path": str(folder), "name": "shop", "listeners": {"api": listener.fileno()}, "psql": None,
            "api": asdict(ApiSettings()), "query_seconds": 60, "encrypted": {"api": None},
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(broken=broken)], pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        if "hangs" in broken:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/health"
            assert httpx.get(url, timeout=STARTS_S).json()["status"] == "ok"
            process.terminate()  # by a supervisor, with the whole group: who runs the project ends it
            assert httpx.get(url, timeout=STARTS_S).json()["status"] == "ok"
            process.stdin.close()
        assert process.wait(20) == 1
        said = process.stderr.read()
        process.stderr.close()
        process.stdin.close()
    assert said == ("" if "hangs" in broken else "what answers HTTP has ended by itself\n")


def test_http_and_psql_are_answered_by_one_process(folder: Path) -> None:
    port, told = free_port(), list[dict[str, Any]]()
    settings = Settings(name="shop", api=ApiSettings(port=0, auth="none"), psql=PsqlSettings(port=port, auth="none"))
    beside = Servers(Project(folder, settings), told.append)
    beside.listen()
    beside.begin(None)
    try:
        assert [event["event"] for event in told] == ["api.started", "psql.started"]
        with psycopg.connect(told[1]["url"], user="ada") as connection:
            assert connection.execute("SELECT count(*) FROM sums").fetchall() == [(0,)]
            process = beside._process
            assert httpx.get(f"{told[0]['url']}/api/views/sums/rows").json()["rows"] == []
            assert beside._process is process
    finally:
        beside.close()
