"""What a command does that follows something until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from headrace.cli import display


class Stop(threading.Event):
    """An event without a lock: an interrupt amid a wait for one leaves it in disorder. It is waited for asleep."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = False

    def set(self) -> None:
        self._asked = True

    def is_set(self) -> bool:
        return self._asked

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(timeout or 0)
        return self._asked


@contextlib.contextmanager
def until_interrupted() -> Iterator[Stop]:
    """Ends in order at Ctrl-C; a second one, as `timeout` sends to a group, changes nothing."""
    stop = Stop()

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop.set()  # where Python drops what is raised (a finalizer, a callback) the next look at it ends the loop
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            display.say(error=True)
