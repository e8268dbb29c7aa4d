"""Goal: the process that answers questions is at hand before the first of them, and ends without a word when who began
it does, however that ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from headrace.serve.asking import Asking
from headrace.serve.mirror import Mirror
from headrace.serve.questions import Questions
from published_view import Published, Rows

# What the process that answers runs as it begins: each database that it opens is a line of a file.
TELLS = """
from headrace.serve.database import Ground

def opened(ground, real=Ground.open):
    with open({opened!r}, "a") as file:
        print(ground.memory, file=file)
    return real(ground)

Ground.open = opened
"""


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


def test_what_the_first_question_would_wait_for_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published, opened = Published(tmp_path / "p"), tmp_path / "opened"
    published.step([Rows({(1, 1): 1})])
    (tmp_path / "sitecustomize.py").write_text(TELLS.format(opened=str(opened)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(Questions(Mirror(published.folder), "128MB", asking=Asking(published.folder))) as questions:
        questions.begin()
        end = time.monotonic() + 60
        while not (opened.exists() and opened.read_text()):
            assert time.monotonic() < end, "it has opened no database"
            time.sleep(0.02)
        assert questions.ask("SELECT n FROM sums").table.to_pylist() == [{"n": 1}]
        assert opened.read_text() == "128MB\n"
    questions.begin()  # it is over, and nobody waits for an answer
