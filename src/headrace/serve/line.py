"""Questions that wait for relations, in the process that is copied for each question (``asking``).

What it takes long to read is read by a copy of this process, which hands it over, so that this one is at hand for
questions over what it holds already.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass

from headrace.model import bounds
from headrace.serve import apart, handed
from headrace.serve.handed import Handed
from headrace.serve.questions import Begun, Questions

AT_ONCE = 2  # relations are read
TAKE_S = 10.0  # from the first byte to the last of what a copy says of the one that it has read


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question, the stream on which it is answered, and the relations that are not there yet."""

    begun: Begun
    stream: socket.socket
    wanted: set[str]


@dataclass(frozen=True, slots=True)
class _Coming:
    """A relation that is read: the file in memory that it is handed over in."""

    name: str
    memory: int


class Line:
    """Its own process's alone. ``waiting``: longest first; ``coming``: by the stream on which its end is told."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._waiting: list[Waiting] = []
        self.coming: dict[socket.socket, _Coming] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def streams(self) -> list[socket.socket]:
        """Which no copy is to keep open."""
        return [*self.coming, *(each.stream for each in self._waiting)]

    def put(self, begun: Begun, stream: socket.socket, wanted: set[str]) -> None:
        """Have it wait on a stream that is closed once it goes on, or has been told why it does not."""
        self._waiting.append(Waiting(begun, stream, wanted))
        self._bring()

    def come(self, stream: socket.socket) -> None:
        """Take over what has been read; where that failed, those are told who wait for it."""
        coming = self.coming.pop(stream)
        error: Exception | None = None
        try:
            found: Handed | None = apart.answer(stream, time.monotonic() + TAKE_S)
            if found is None:
                error = bounds.memory(f"the process that read {coming.name} has ended")
            else:
                self._questions.mirror.take(coming.name, handed.take(found, coming.memory))
        except Exception as failure:
            error = failure
        finally:
            stream.close()
            os.close(coming.memory)
        for each in self._waiting:
            if coming.name in each.wanted:
                each.wanted.discard(coming.name)
                if error is not None:
                    self._end(each, error)
        self._bring()

    def ready(self) -> Waiting | None:
        """One that waits no longer, which leaves the line, if there is any. Who waited too long is told so."""
        for each in [each for each in self._waiting if not each.begun.asked.deadline.left]:
            read = each.wanted <= {coming.name for coming in self.coming.values()}
            self._end(each, bounds.timeout(each.begun.asked.deadline.seconds) if read else apart.busy())
        found = next((each for each in self._waiting if not each.wanted), None)
        self._waiting = [each for each in self._waiting if each is not found]
        return found

    def _end(self, waiting: Waiting, error: Exception) -> None:
        self._waiting = [each for each in self._waiting if each is not waiting]
        with waiting.stream:
            apart.tell(waiting.stream, error)

    def _bring(self) -> None:
        """Have those read that are waited for, as many at once as may be."""
        wanted = dict.fromkeys(name for each in self._waiting for name in sorted(each.wanted))
        read = {coming.name for coming in self.coming.values()}
        for name in [name for name in wanted if name not in read][: AT_ONCE - len(read)]:
            self._read(name)

    def _read(self, name: str) -> None:
        here, there = socket.socketpair()
        memory, mirror = os.memfd_create("headrace"), self._questions.mirror

        def read() -> Handed:
            self._questions.bring(name)
            return handed.give(mirror.held(name), memory)

        mirror.let_go()
        with there:
            apart.begin(read, there, [here, *self.streams])
        self.coming[here] = _Coming(name, memory)
