"""The process that answers questions beside one with threads: each in a copy of itself, with the rows that it holds.

``python -m headrace.serve.asking FOLDER``, run by ``Asking``: its standard input is a socket on which others
come, one a question. It has one thread, so that it may be copied, and ends when that input does.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.serve import apart
from headrace.serve.database import Ground

END_S = 5.0  # a process that has not ended by itself by then is ended
LOOK_S = 0.05  # so often it is looked what questions take


Runs = Callable[[Callable[[], None]], None]  # is told what ends a question from another thread


@dataclass(frozen=True, slots=True)
class Asked(ABC):
    """A question as it is passed on. ``known``: the relations that there are for who asks; ``at``: None: now."""

    ground: Ground
    known: frozenset[str]
    at: int | None
    deadline: Deadline

    @property
    def behind(self) -> bool:
        """Of a past: see ``Mirror.moment``."""
        return False

    @abstractmethod
    def reads(self, connection: duckdb.DuckDBPyConnection) -> Collection[str]:
        """Those of the known relations that it reads, in lower case. Raises what is wrong with it."""

    @abstractmethod
    def answer(self, connection: duckdb.DuckDBPyConnection) -> Any:
        """What is found on a connection that has these relations, in the copy."""


@dataclass(frozen=True, slots=True)
class Answered:
    """``found``: see ``Asked.answer``; ``stale``: why a view that was read stays behind the commit."""

    commit: int
    stale: Mapping[str, str]
    found: Any


class Asking:
    """Begins when it is told to, else with the first question, and anew once it has ended. Used by any thread."""

    def __init__(self, project: Path) -> None:
        self._command = [sys.executable, "-P", "-m", "headrace.serve.asking", str(project)]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def begin(self, asked: Asked) -> None:
        """Have all at hand before the first question, which would wait for what is imported and opened: ask one whose
        answer nobody waits for."""
        with contextlib.suppress(OSError, HeadraceError):  # of want of room, say: the first question tells
            self._passed_on(asked).close()

    def ask(self, asked: Asked, runs: Runs) -> Any:
        """See ``apart.answer``. One that ends together with the process that answers is asked anew."""
        while (found := self._answer(asked, runs)) is None and asked.deadline.left and self._ended():
            continue
        if found is None and self._closed:
            raise _stopping()
        return found

    def _ended(self) -> bool:
        with self._lock, contextlib.suppress(subprocess.TimeoutExpired):
            return self._process is None or self._process.wait(LOOK_S) is not None
        return False

    def _answer(self, asked: Asked, runs: Runs) -> Any:
        with self._passed_on(asked) as stream:
            runs(lambda: apart.leave(stream))
            return apart.answer(stream, asked.deadline.end)

    def _passed_on(self, asked: Asked) -> socket.socket:
        """The stream that the answer comes on."""
        said = pickle.dumps(asked)
        here, there = socket.socketpair()
        with contextlib.ExitStack() as undone, there:
            undone.callback(here.close)
            with self._lock:
                if self._closed:
                    raise _stopping()
                with contextlib.suppress(ConnectionError):  # it has just ended, which the answer tells
                    socket.send_fds(self._at_hand(), [b"?"], [there.fileno()])
            undone.pop_all()
        with contextlib.suppress(OSError):  # it has ended, which the answer tells
            here.sendall(said)
        return here

    def _at_hand(self) -> socket.socket:
        """What leads to the process, which is begun where there is none. To be called with the lock."""
        if self._control is None or self._process is None or self._process.poll() is not None:
            if self._control is not None:
                self._control.close()
            self._control, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(self._command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        return self._control

    def close(self) -> None:
        """Questions that are asked are ended."""
        with self._lock:
            self._closed = True
            if self._process is None or self._control is None:
                return
            if select.select([self._control], [], [], 0)[0]:
                self._control.recv(1)  # it has said that it is at work
            else:  # it imports still, and no question has begun
                self._process.kill()
            self._control.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _stopping() -> HeadraceError:
    return HeadraceError("project.not_running", "the project is stopping", next="ask again when it runs")


class _Running:
    """The processes of questions. Those on one ground may take its memory together: the largest ends when they take
    more."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[Ground, apart.Bound]] = {}

    def begun(self, number: int, ground: Ground, bound: apart.Bound) -> None:
        self._begun[number] = ground, bound

    def look(self) -> bool:
        """Whether there are any."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._begun.pop(ended, None)
        with contextlib.suppress(OSError):  # nothing may be left to look with: it is looked again
            self._end_those_that_take_too_much()
        return bool(self._begun)

    def _end_those_that_take_too_much(self) -> None:
        taken, together = dict[int, int](), Counter[Ground]()
        for number, (ground, bound) in self._begun.items():
            taken[number] = bound.taken(number)
            together[ground] += taken[number]
        for ground, count in together.items():
            if count > ground.bytes:
                on_it = (number for number, (of, _) in self._begun.items() if of == ground)
                os.kill(max(on_it, key=lambda number: taken[number]), signal.SIGKILL)

    def end(self) -> None:
        for number in self._begun:
            os.kill(number, signal.SIGKILL)  # none of them is waited for: each is there, if as one that has ended


def _heard(control: socket.socket) -> tuple[bytes, list[int]]:
    """What is said and passed on; nothing by who has ended, be it without a word."""
    try:
        said, found, _, _ = socket.recv_fds(control, 1, 1)
    except ConnectionError:
        return b"", []
    return said, found


def main() -> None:
    from headrace.serve.line import Line
    from headrace.serve.mirror import Mirror
    from headrace.serve.questions import Questions

    (folder,) = sys.argv[1:]
    pa.set_cpu_count(1)
    pa.array([0])  # which has pyarrow load pandas: once, and not in each copy, nor while questions wait
    control = socket.socket(fileno=sys.stdin.fileno())
    questions, running = Questions(Mirror(Path(folder))), _Running()
    line = Line(questions)
    with contextlib.suppress(ConnectionError):  # who began it has ended, which the first look tells
        control.send(b"!")  # it is at work: see ``Asking.close``

    def go_on(asked: Asked, stream: socket.socket) -> None:
        """Have it answered on a stream, once all is at hand that it takes long to read."""
        try:
            begun = questions.begun(asked)
            if wanted := set(questions.far(begun)):
                line.put(asked, stream, wanted)
                return
            bound = apart.Bound()
            running.begun(questions.go_on(begun, stream, bound, line.streams), asked.ground, bound)
        except Exception as error:
            apart.tell(stream, error)
        stream.close()

    def come(stream: socket.socket) -> None:
        try:
            with stream.makefile("rb") as lines:
                asked = pickle.load(lines)
        except Exception as error:  # it has left, and hears nothing
            with stream:
                apart.tell(stream, error)
        else:
            go_on(asked, stream)

    looked, busy = 0.0, False
    while True:
        ready = select.select([control, *line.coming], [], [], LOOK_S if busy else None)[0]
        for stream in ready:
            if stream is not control:
                line.come(stream)
                continue
            said, found = _heard(control)
            if not said:
                running.end()
                return
            for number in found:  # none where this process may open no more: who asks sees that it is ended
                come(socket.socket(fileno=number))
            busy = True
        while (waiting := line.ready()) is not None:
            go_on(waiting.asked, waiting.stream)
        if time.monotonic() - looked >= LOOK_S:
            looked, busy = time.monotonic(), running.look() or bool(line)


if __name__ == "__main__":
    main()
