"""Questions that wait for relations, in the process that is copied for each question (``asking``).

What it takes long to read is read by a copy of this process, which hands it over, so that this one is at hand for
questions over what it holds already.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass

from headrace.model import bounds
from headrace.serve import apart, handed, sound
from headrace.serve.asking import Asked
from headrace.serve.handed import Handed
from headrace.serve.questions import Questions

AT_ONCE = 2  # relations are read for as long as it takes, and one more
SHORT_S = 1.0  # for that one, which then waits for another place: what is small is not kept waiting by what is large
TAKE_S = 10.0  # from the first byte to the last of what a copy says of the one that it has read


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question, the stream on which it is answered, and the relations that are not there yet."""

    asked: Asked
    stream: socket.socket
    wanted: set[str]


@dataclass(frozen=True, slots=True)
class _Coming:
    """A relation that is read: the file in memory that it is handed over in; ``short``: for ``SHORT_S`` alone."""

    name: str
    memory: int
    short: bool


class Line:
    """Its own process's alone. ``waiting``: longest for what it wants first; ``coming``: by the stream of its end."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._waiting: list[Waiting] = []
        self._large: set[str] = set()  # what was not read within ``SHORT_S``
        self.coming: dict[socket.socket, _Coming] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def streams(self) -> list[socket.socket]:
        """Which no copy is to keep open."""
        return [*self.coming, *(each.stream for each in self._waiting)]

    def put(self, asked: Asked, stream: socket.socket, wanted: set[str]) -> None:
        """Have it wait on a stream that is closed once it goes on, or has been told why it does not."""
        self._waiting.append(Waiting(asked, stream, wanted))
        self._bring()

    def come(self, stream: socket.socket) -> None:
        """Take over what has been read; where that failed, those are told who wait for it."""
        coming = self.coming.pop(stream)
        try:
            found: Handed | None = apart.answer(stream, time.monotonic() + TAKE_S)
            if found is not None:
                held, checked = handed.take(found, coming.memory)
                self._questions.mirror.take(coming.name, held)
                sound.take(checked)
                self._done(coming.name)
            elif coming.short:
                self._large.add(coming.name)
            else:
                raise bounds.memory(f"the process that read {coming.name} has ended")
        except Exception as error:
            self._done(coming.name, error)
        finally:
            stream.close()
            os.close(coming.memory)
        self._bring()

    def ready(self) -> Waiting | None:
        """One that waits no longer, which leaves the line, if there is any. Who waited too long is told so."""
        for each in [each for each in self._waiting if not each.asked.deadline.left]:
            read = each.wanted <= {coming.name for coming in self.coming.values()}
            self._end(each, bounds.timeout(each.asked.deadline.seconds) if read else apart.busy())
        found = next((each for each in self._waiting if not each.wanted), None)
        self._waiting = [each for each in self._waiting if each is not found]
        return found

    def _done(self, name: str, error: Exception | None = None) -> None:
        """Nobody waits for a relation any more: it is there, or they are told why not."""
        self._large.discard(name)
        for each in [each for each in self._waiting if name in each.wanted]:
            each.wanted.discard(name)
            if error is not None:
                self._end(each, error)

    def _end(self, waiting: Waiting, error: Exception) -> None:
        self._waiting = [each for each in self._waiting if each is not waiting]
        with waiting.stream:
            apart.tell(waiting.stream, error)

    def _bring(self) -> None:
        """Have those read that are waited for, as many at once as may be."""
        wanted = dict.fromkeys(name for each in self._waiting for name in sorted(each.wanted))
        for name in wanted:
            read = {coming.name for coming in self.coming.values()}
            long = sum(not coming.short for coming in self.coming.values())
            short = long == AT_ONCE
            if name in read or (short and (name in self._large or len(read) > AT_ONCE)):
                continue
            try:
                self._read(name, short=short)
            except OSError as error:  # there is no room for another process, or another file
                self._done(name, error)

    def _read(self, name: str, *, short: bool) -> None:
        mirror = self._questions.mirror

        def read() -> Handed:
            self._questions.bring(name)
            return handed.give((mirror.held(name), sound.known()), memory)

        mirror.let_go()
        with contextlib.ExitStack() as undone:
            here, there = socket.socketpair()
            undone.callback(here.close)
            with there:
                memory = os.memfd_create("headrace")
                undone.callback(os.close, memory)
                apart.begin(read, there, [here, *self.streams], SHORT_S if short else None)
            undone.pop_all()
        self.coming[here] = _Coming(name, memory, short)
