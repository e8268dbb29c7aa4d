"""A question in a process of its own, made for it alone: its memory and its time have an end that is hard.

DuckDB heeds an interrupt between two pieces of its work, and counts the memory that it manages; a text such as
`repeat('x', 2000000000)` is made in one piece, and not counted. What the kernel bounds ends all the same, takes nothing
along, and leaves nothing behind.
Record: docs/decisions/0031-questions-apart.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import pickle
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil

from headrace.model import bounds
from headrace.model.errors import HeadraceError

GRACE_S = 0.5  # one that ends by itself once its time is over says so
STACKS_BYTES = 64 << 20  # of threads, beside what a question may use


def begin(
    work: Callable[[], Any], stream: socket.socket, others: Iterable[socket.socket] = (), seconds: float | None = None
) -> int:
    """Do it in a process that answers on ``stream`` with what it gives or raises; the process's number.

    It ends at once when the other end of the stream does. To be called where no other thread is at work: the process
    begins as a copy of this one. ``others``: streams of this process alone, whose other ends are to see when it ends.
    ``seconds``: its hard end, None: it has none. That of its memory it sets itself, see ``Bound``.
    """
    number = os.fork()
    if number:
        return number
    try:
        for other in others:
            other.close()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if seconds is not None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.0) + GRACE_S)
        _end_with(stream)
        done = _done(work)
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # which says as well that there is room for more of the answer
        tell(stream, done)
    finally:
        os._exit(0)


class Bound:
    """The end of a question's memory, seen by its process and by the one that is copied for it: to be made before."""

    def __init__(self) -> None:
        self._had = mmap.mmap(-1, 8)  # shared with copies of this process; 0: it has not been set

    def bind(self, memory_bytes: int) -> None:
        """Have this process take no more memory than so much beside what it has."""
        most = psutil.Process().memory_info().data + memory_bytes + STACKS_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        self._had[:] = own_bytes(os.getpid()).to_bytes(8, "little")

    def taken(self, number: int) -> int:
        """Bytes that the process took since it was bound: none where it reads a past still."""
        had = int.from_bytes(self._had[:], "little")
        return own_bytes(number) - had if had else 0


def own_bytes(number: int) -> int:
    """Of a process's memory, what no file lies behind."""
    found = psutil.Process(number).memory_info()
    return int(found.rss - found.shared)


def answer(stream: socket.socket, end: float) -> Any:
    """What the process at the other end gives; None: it has ended. ``end``: of its time, by the clock of processes.

    Raises what it does, and ``wait.busy`` where there has been none in that time: the kernel would have ended it.
    """
    stream.settimeout(max(end - time.monotonic(), 0.0) + 2 * GRACE_S)
    try:
        with stream.makefile("rb") as lines:
            found = pickle.load(lines)  # by this program, a moment ago
    except TimeoutError:
        raise busy() from None
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
    if isinstance(found, Exception):
        raise found
    return found


def busy() -> HeadraceError:
    """Of a question whose time was over before it was begun."""
    return HeadraceError(
        "wait.busy", "the time of the question was over before it was begun",
        why="others are asked before, or what answers has just begun itself", next="ask again, or allow it more time",
    )  # fmt: skip


def leave(stream: socket.socket) -> None:
    """Wait no more: the process ends, and whoever is at ``answer`` has None."""
    with contextlib.suppress(OSError):  # it is closed already
        stream.shutdown(socket.SHUT_RDWR)


def tell(stream: socket.socket, found: Any) -> None:
    """Answer with a value, or an error."""
    with contextlib.suppress(OSError), stream.makefile("wb") as lines:  # perhaps nobody waits for it any more
        pickle.dump(found, lines, protocol=5)


def _end_with(stream: socket.socket) -> None:
    """The kernel ends this process once who waits for its answer does not any more."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(stream, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(stream, fcntl.F_SETFL, fcntl.fcntl(stream, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([stream], [], [], 0)[0]:  # it has ended before
        os._exit(0)


def _done(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except MemoryError:
        return bounds.memory("")
    except Exception as error:
        return error
