"""Goal: the process that answers questions ends without a word when who began it does, however that ends."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("ends", ["before it is at work", "without having heard that it is"])
def test_it_ends_with_who_began_it(ends: str, tmp_path: Path) -> None:
    control, theirs = socket.socketpair()
    with control:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "headrace.serve.asking", str(tmp_path)],
                stdin=theirs.fileno(), stderr=subprocess.PIPE,
            )  # fmt: skip
        if ends == "without having heard that it is":
            control.settimeout(60)
            assert control.recv(1, socket.MSG_PEEK) == b"!"  # it stays unread, and so the other end is told of an error
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")
