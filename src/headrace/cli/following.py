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
    """An event that is waited for asleep: an interrupt amid an ordinary wait leaves the event's lock in disorder."""

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(timeout or 0)
        return self.is_set()


@contextlib.contextmanager
def until_interrupted() -> Iterator[Stop]:
    """Ends in order at Ctrl-C; a second one, as `timeout` sends to a group, changes nothing."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield Stop()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            display.say(error=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
