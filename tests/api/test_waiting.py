"""Goal: who waits for a write over HTTP and leaves gives its place back at once, and is known by its token.

Method: the process that serves beside a control socket, whose wait goes on until it is let, or until its caller has left.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from headrace.api.server import Servers
from headrace.control.socket import ClientGone, ControlServer
from headrace.governance.access import Access
from headrace.governance.roles import Role
from headrace.model.definition import ApiSettings, Project, Settings
from headrace.model.errors import HeadraceError
from published_view import Published

TOLD_S = 0.05


def test_a_wait_ends_with_its_client_and_goes_on_for_who_stays(tmp_path: Path) -> None:
    folder, told, events = Published(tmp_path / "shop").folder, list[dict[str, Any]](), list[tuple[str, int, str]]()
    inside, go = threading.Semaphore(0), threading.Event()

    def handle(verb: str, arguments: dict[str, Any], progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        token, whose = arguments["token"], arguments["whose"]
        if token == 3:
            raise HeadraceError("wait.busy", "8 wait by this token already")
        inside.release()
        try:
            while not go.wait(TOLD_S):
                progress({"text": "waiting"})
        except ClientGone:
            events.append(("left", token, whose))
            inside.release()
            raise
        events.append(("reached", token, whose))
        return {"token": str(token), "commit": token, "reached": token, "of": "view sums"}

    servers = Servers(Project(folder, Settings(api=ApiSettings(port=0))), told.append)
    servers.listen()
    with ControlServer(folder, handle), ThreadPoolExecutor() as pool:
        servers.begin(None)
        try:
            access = Access(folder / ".headrace")
            token, given = access.tokens.create("viewer", Role.VIEWER)
            access.close()
            client = httpx.Client(
                base_url=f"{told[0]['url']}/api/", headers={"Authorization": f"Bearer {given}"}, timeout=30
            )
            with client:
                stays = pool.submit(client.post, "wait", json={"token": 1, "view": "sums", "timeout": 60})
                assert inside.acquire(timeout=20)
                leaves = client.build_request("POST", "wait", json={"token": 2, "view": "sums", "timeout": 60})
                head = "".join(f"{name}: {value}\r\n" for name, value in leaves.headers.items())
                with socket.create_connection((leaves.url.host, leaves.url.port or 0), 20) as line:
                    line.sendall(f"POST {leaves.url.path} HTTP/1.1\r\n{head}\r\n".encode() + leaves.content)
                    assert inside.acquire(timeout=20), "it has not begun"
                since = time.monotonic()
                assert inside.acquire(timeout=20), "it has not left"
                assert time.monotonic() - since < 5 and events == [("left", 2, token.id)]
                busy = client.post("wait", json={"token": 3, "view": "sums"})
                assert (busy.status_code, busy.json()["what"]) == (503, "8 wait by this token already")
                go.set()
                assert stays.result(20).json() == {"token": "1", "commit": 1, "reached": 1, "of": "view sums"}
                assert events[1:] == [("reached", 1, token.id)]
        finally:
            servers.close()
