"""Goal: what `headrace up` tells goes where it is asked to, and that it cannot be told ends nothing.

Method: what it tells with, beside real files, pipes and terminals.
"""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from headrace.cli import display, main
from headrace.cli.commands import up
from headrace.model.definition import Project


def test_it_ends_in_order_when_nobody_reads_what_it_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver, sender = os.pipe()
    os.close(receiver)
    stopping = threading.Event()
    with contextlib.suppress(BrokenPipeError), os.fdopen(sender, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        told = up._Told(Project(tmp_path), True, stopping)
        told.event({"event": "source.started", "source": "shop", "tables": []})  # as a source's thread does
    assert stopping.is_set()


@pytest.mark.parametrize("json", [True, False])
def test_it_goes_on_where_what_it_tells_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, json: bool
) -> None:
    stopping, ended = threading.Event(), False
    monkeypatch.setattr(up._Told, "take_signals", lambda self: None)
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stderr", full)
        told = up._Told(Project(tmp_path), json, stopping)
        failed = {"code": "log.full", "what": "the log's disk is full"}
        told.event({"event": "source.failed", "source": "shop", "error": failed})
        told.event({"event": "source.started", "source": "shop", "tables": []})
        told.ready({"sources": [{"name": "shop"}], "views": [], "sinks": []})
        told.tick({"commit": 5, "frontier": 5})
        told.done({"frontier": 5})
        told.end()
        ended = True
    assert ended and not stopping.is_set()


def test_what_cannot_be_told_is_said_once_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        told = up._Told(Project(tmp_path), False, threading.Event())
        told.event({"event": "note", "text": "hello"})
        told.done({"frontier": 5})
    assert capsys.readouterr().err == "stdout cannot be written, so not all is told: No space left on device\n"


def test_with_once_it_says_that_it_will_end_and_why_something_failed_only_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up._Told, "take_signals", lambda self: None)
    project = Project(tmp_path)
    error = {"code": "sink.connect", "what": "no route"}
    status = {"sinks": [{"name": "out", "state": "failed", "error": error}]}
    up._Told(project, False, threading.Event(), once=True).ready(status)
    failed, last = capsys.readouterr().out.splitlines()
    assert failed == "  sink   out  failed"
    assert " has begun after " in last and last.endswith("; it ends when all is up to date")
    up._Told(project, False, threading.Event()).ready(status)
    failed, last = capsys.readouterr().out.splitlines()
    assert failed == "  sink   out  failed  [sink.connect] no route"
    assert " is up after " in last and last.endswith("; Ctrl-C ends it")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])  # with ASCII, help is written past what encodes it
@pytest.mark.parametrize("verb", ["version", "--help"])
def test_an_answer_that_finds_no_room_names_where_it_was_to_go(
    tmp_path: Path, unbuffered: str, encoding: str, verb: str
) -> None:
    """And no disk of the project; nor does Python tell it again at its end."""
    command = [sys.executable, "-c", "from headrace.cli.main import main; main()", verb]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": encoding}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=environment, cwd=tmp_path, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[:3] == [
        "error [state.full] no space is left on the disk",
        "  where: stdout",
        "  why:   No space left on device",
    ]
    assert len(done.stderr.splitlines()) == 5


@pytest.mark.parametrize("through", [False, True])
def test_what_is_told_as_ctrl_c_comes_is_not_told_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: bool
) -> None:
    """Wherever in it the interrupt is raised: at each call and return that Python sees while a line is told."""
    file = tmp_path / "told"
    with io.TextIOWrapper(file.open("wb", buffering=0 if through else -1), write_through=through) as plain:
        monkeypatch.setattr(sys, "stdout", plain)
        main._name_stdout()
        lines = 0
        while _interrupted(partial(display.say, str(lines)), at=lines):
            lines += 1
        sys.stdout.close()
    told = file.read_text().splitlines()
    assert lines >= 10 and told[-1] == str(lines)
    assert len(told) == len({*told}) and {*told} <= {str(line) for line in range(lines + 1)}


def _interrupted(work: Callable[[], None], at: int) -> bool:
    """Whether ``work`` lasts until the event ``at``, at which it is interrupted."""
    left = iter(range(at + 1))

    def raised(frame: FrameType, event: str, argument: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    try:
        sys.setprofile(raised)
        work()
        sys.setprofile(None)
    except KeyboardInterrupt:  # which has ended the profile
        return True
    return False


def test_on_a_terminal_what_goes_to_a_file_goes_there_whole(tmp_path: Path) -> None:
    """Although a line moves on stderr meanwhile."""
    work = (
        "import threading, time; from pathlib import Path; from headrace.cli.commands import up\n"
        "from headrace.model.definition import Project\n"
        "told = up._Told(Project(Path('.')), False, threading.Event())\n"
        "time.sleep(0.3)\n"
        "told.event({'event': 'note', 'text': 'long ' * 60})\n"
        "told.event({'event': 'progress', 'text': 'copying orders'})\n"
        "time.sleep(0.3)\n"
        "told.end()\n"
    )
    terminal, ours = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", work], stdout=subprocess.PIPE, stderr=ours, env=environment, cwd=tmp_path
    ) as process:
        os.close(ours)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(terminal, 4096):
                shown += piece
        os.close(terminal)
        assert process.stdout is not None
        said = process.stdout.read()
    assert process.returncode == 0
    assert said.decode().splitlines() == [("long " * 60)]
    assert b"starting Spark" in shown and b"copying orders" in shown and b"long" not in shown
