"""Spark in a process of its own, for what strangers ask: what takes too long or too much is ended with it.

Spark heeds a cancelled job between two rows, not within one, and a regular expression may take a year over a row; what
finds no room in a JVM takes along whatever else lives there. So the JVM of the views answers no query. This one begins
with the first, stays for those that follow, and is begun anew once it had to be ended.
Record: docs/decisions/0042-queries-enclosed.md.

``python -m headrace.engine.enclosed``, run by ``Enclosed``: its standard input is a socket on which work comes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import psutil
from pyspark.sql import SparkSession

from headrace.engine.bounded import bounded
from headrace.model import bounds
from headrace.model.bounds import Deadline
from headrace.model.definition import Settings
from headrace.model.errors import HeadraceError
from headrace.serve.apart import own_bytes

T = TypeVar("T")
START_S = 120.0  # for its JVM
GRACE_S = (
    5.0  # one that heeds a cancellation ends by itself once its time is over, and the next need not wait for a JVM
)
LOOK_S = 0.25  # so often it is looked what a query takes, and whether somebody waits for it
IDLE_S = 600.0  # after this time without a query it ends
MEMORY_MORE = 1 << 30  # of its processes together, beside twice its heap


class Asking(Protocol):
    """What runs queries, one at a time."""

    def turn(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Raises ``query.timeout`` where others take all of its time."""

    def do(self, work: Callable[..., T], *given: Any, deadline: Deadline, still_wanted: Callable[[], bool]) -> T:
        """``work(spark, *given)``, in a turn. Raises what it does, and query.timeout, .canceled, .memory."""

    def begin(self) -> None:
        """Have Spark at hand."""

    def close(self) -> None: ...


class Here:
    """By a session of this process, which does nothing else."""

    def __init__(self, spark: SparkSession, lock: threading.Lock) -> None:
        self.spark, self.lock = spark, lock

    def turn(self, deadline: Deadline) -> AbstractContextManager[None]:
        return deadline.held(self.lock)

    def do(self, work: Callable[..., T], *given: Any, deadline: Deadline, still_wanted: Callable[[], bool]) -> T:
        with bounded(self.spark, deadline.seconds, deadline.end, still_wanted):
            return work(self.spark, *given)

    def begin(self) -> None:
        pass

    def close(self) -> None:
        pass


class Enclosed:
    """By a process of its own. Used by any thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.most = 2 * settings.driver_bytes + MEMORY_MORE
        self._lock = threading.Lock()  # of whose turn it is
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: socket.socket | None = None
        self._closed = False

    def turn(self, deadline: Deadline) -> AbstractContextManager[None]:
        return deadline.held(self._lock)

    def begin(self) -> None:
        if self._process is None or self._process.poll() is not None:
            with self._lock:
                self._at_hand()

    def do(self, work: Callable[..., T], *given: Any, deadline: Deadline, still_wanted: Callable[[], bool]) -> T:
        stream = self._at_hand()
        _tell(stream, (work, given, deadline))
        while not select.select([stream], [], [], LOOK_S)[0]:
            if (error := self._over(deadline, still_wanted)) is not None:
                self._end()
                raise error
        found = _heard(stream)
        if found is None:
            self._end()
            if self._closed:
                raise _stopping()
            raise bounds.memory(
                "the process that answered it was ended, by the system when memory is short, or by somebody"
            )
        if found.ended:
            self._end()
        if found.error is not None:
            raise found.error
        made: T = found.made
        return made

    def _over(self, deadline: Deadline, still_wanted: Callable[[], bool]) -> HeadraceError | None:
        if time.monotonic() > deadline.end + GRACE_S:
            return bounds.timeout(deadline.seconds)
        if not still_wanted():
            return HeadraceError("query.canceled", "the query was ended", why="who asked it has left")
        if self._taken() > self.most:
            return bounds.memory(
                f"its processes had more than {self.most >> 20:,} MiB, which follows from `driver_memory`"
            )
        return None

    def _taken(self) -> int:
        """Bytes that no file lies behind, of all of its processes."""
        taken = 0
        for each in _processes(self._process):
            with contextlib.suppress(psutil.Error):
                taken += own_bytes(each.pid)
        return taken

    def _at_hand(self) -> socket.socket:
        """What leads to the process, which is begun where there is none. To be called in a turn."""
        if self._closed:
            raise _stopping()
        if self._stream is None or self._process is None or self._process.poll() is not None:
            self._end()
            here, there = socket.socketpair()
            command = [sys.executable, "-P", "-m", "headrace.engine.enclosed"]
            with there:
                self._process = subprocess.Popen(command, stdin=there.fileno(), stdout=subprocess.DEVNULL)
            self._stream = here
            _tell(here, self.settings)
            if not select.select([here], [], [], START_S)[0] or _heard(here) is None:
                self._end()
                raise HeadraceError(
                    "spark.lost", "Spark for queries does not start", next="ask again; `headrace doctor`"
                )
        return self._stream

    def _end(self) -> None:
        """With all that it began. Nothing of it is needed again."""
        self._kill()
        if self._process is not None:
            self._process.wait()
        if self._stream is not None:
            self._stream.close()
        self._process = self._stream = None

    def _kill(self) -> None:
        for each in reversed(_processes(self._process)):
            with contextlib.suppress(psutil.Error):
                each.kill()

    def close(self) -> None:
        """A query that is asked is ended."""
        self._closed = True
        self._kill()
        with self._lock:
            self._end()


def _stopping() -> HeadraceError:
    return HeadraceError("project.not_running", "the product is stopping", next="ask again when it runs")


class _Answer:
    """``ended``: its process is not to be asked again."""

    def __init__(self, made: Any = None, error: Exception | None = None, *, ended: bool = False) -> None:
        self.made, self.error, self.ended = made, error, ended


def _processes(process: subprocess.Popen[bytes] | None) -> list[psutil.Process]:
    """The process and those that it began."""
    with contextlib.suppress(psutil.Error):
        if process is not None and process.poll() is None:
            found = psutil.Process(process.pid)
            return [found, *found.children(recursive=True)]
    return []


def _tell(stream: socket.socket, said: Any) -> None:
    with contextlib.suppress(OSError), stream.makefile("wb") as lines:  # it has ended, which the answer tells
        pickle.dump(said, lines, protocol=5)


def _heard(stream: socket.socket) -> Any:
    """None by who has ended."""
    with contextlib.suppress(OSError, EOFError), stream.makefile("rb") as lines:
        return pickle.load(lines)  # by this program, a moment ago
    return None


def _answer(spark: SparkSession, work: Callable[..., Any], given: tuple[Any, ...], deadline: Deadline) -> _Answer:
    try:
        with bounded(spark, deadline.seconds, deadline.end, lambda: True):
            return _Answer(work(spark, *given))
    except HeadraceError as error:
        return _Answer(error=error, ended=error.code == "query.memory")
    except Exception as error:
        return _Answer(error=RuntimeError(str(error)))


def _end_with(parent: int) -> None:
    """What is at work has nobody to answer once the process that began this one has ended."""
    while os.getppid() == parent:
        time.sleep(1)
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            each.kill()
    os._exit(1)


def main() -> None:
    from headrace.engine.session import open_session

    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    stream = socket.socket(fileno=sys.stdin.fileno())
    spark = open_session(_heard(stream), brief=True)
    _tell(stream, _Answer())
    while select.select([stream], [], [], IDLE_S)[0] and (asked := _heard(stream)) is not None:
        _tell(stream, _answer(spark, *asked))
    spark.stop()


if __name__ == "__main__":
    from headrace.engine.enclosed import main as work  # whose classes have the names that the other side knows

    work()
