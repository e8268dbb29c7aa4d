"""Goal: what a process lacks for a moment, descriptors or threads, ends its control socket for no longer than that.

Method: a real server whose listener, or whose threads, fail as the system has them fail.
"""

from __future__ import annotations

import errno
import socket as sockets
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.control import socket
from headrace.model.errors import HeadraceError


def handle(verb: str, arguments: dict[str, Any], progress: socket.Progress) -> dict[str, Any]:
    return {"verb": verb}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.ECONNABORTED])
def test_a_call_that_cannot_be_taken_at_once_is_taken_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    accept, failed = sockets.socket.accept, list[int]()

    def without_room(listener: sockets.socket) -> Any:
        if len(failed) < 2:
            failed.append(number)
            raise OSError(number, "no room")
        return accept(listener)

    monkeypatch.setattr(sockets.socket, "accept", without_room)
    with socket.ControlServer(tmp_path, handle):
        assert socket.request(tmp_path, "status") == {"verb": "status"}
    assert failed == [number, number]
    assert not socket.running(tmp_path)


def test_without_a_thread_a_call_is_told_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, failed = threading.Thread.start, list[str]()

    def without_room(thread: threading.Thread) -> None:
        if thread.name == "control call" and len(failed) < 2 * socket.CLIENTS:
            failed.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", without_room)
    with socket.ControlServer(tmp_path, handle):
        for _ in range(2 * socket.CLIENTS):  # none of them keeps the place of one that is served
            with pytest.raises(HeadraceError, match="out of threads"):
                socket.request(tmp_path, "status")
        assert socket.request(tmp_path, "status") == {"verb": "status"}


def test_what_json_has_no_word_for_is_asked_of_nobody(tmp_path: Path) -> None:
    with socket.ControlServer(tmp_path, handle), pytest.raises(HeadraceError) as caught:
        socket.request(tmp_path, "wait", {"timeout": float("inf")})
    assert caught.value.code == "config.invalid"
