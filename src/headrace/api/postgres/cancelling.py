"""How a statement that runs is ended: by its client, by its timeout, or since the server ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.api.postgres import sqlstate
from headrace.model import bounds
from headrace.model.errors import HeadraceError


class Cancelling:
    """Of one connection, one statement at a time; ``cancel`` comes from other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why: HeadraceError | None = None
        self._interrupt: Callable[[], None] | None = None

    @property
    def canceled(self) -> bool:
        return self._why is not None

    def cancel(self, why: HeadraceError) -> None:
        """End the statement that is running, if one is, with this error."""
        with self._lock:
            if self._interrupt is not None:
                self._why = why
                self._interrupt()

    @contextmanager
    def running(self, timeout_s: float) -> Iterator[None]:
        """The statement runs within; it ends by itself after that time, unless it is 0. Raises ``query.timeout``, and
        what ``cancel`` was given.
        """
        with self._lock:
            self._why, self._interrupt = None, _nothing
        timer = threading.Timer(timeout_s, self.cancel, [bounds.timeout(timeout_s)])
        if timeout_s:
            timer.start()
        try:
            yield
        except Exception as error:
            if self._why is not None:
                raise self._why from error
            if sqlstate.of_duckdb(error) == sqlstate.CANCELED:
                raise canceled("it was interrupted") from error
            raise
        finally:
            timer.cancel()
            with self._lock:
                self._interrupt = None

    def runs(self, interrupt: Callable[[], None]) -> None:
        """What ends the part of the statement that begins now. Raises what it was ended with."""
        with self._lock:
            self._interrupt = interrupt
        self.check()

    def check(self) -> None:
        """Raises what it was ended with."""
        if self._why is not None:
            raise self._why


def _nothing() -> None:
    """Nothing runs yet that could be interrupted: the next check tells."""


def canceled(why: str) -> HeadraceError:
    return HeadraceError("query.canceled", "the statement was ended", why=why)
