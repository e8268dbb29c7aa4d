"""How many descriptors the process that serves may have open, and how many of them are for connections and readers.

Each connection is one. A quarter is kept for all else: catalogues, files of views, calls of the pipeline; a process
without any is of use to nobody.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass

from headrace.serve.live import READERS

CONNECTIONS = 2 * READERS  # over HTTP, however many descriptors there are
STARTING = 32  # by psql, that have not said who they are yet; for one more the oldest is ended
SELDOM_S = 60.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of connections over HTTP, and of the readers among them, who keep theirs."""

    connections: int
    readers: int


def raise_limit() -> int:
    """As many as this process may have, from now on: by default it has few, for programs of another time."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def bounds(descriptors: int, psql: int) -> Bounds:
    """``psql``: the connections that are for others than HTTP, once they have said who they are."""
    connections = min(CONNECTIONS, max(descriptors // 8, descriptors * 3 // 4 - (psql + STARTING if psql else 0)))
    return Bounds(connections, min(READERS, connections * 3 // 4))


class Seldom(logging.Filter):
    """Of lines that begin alike one a minute: a loop without a descriptor says so thousands of times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        first, now = record.getMessage().partition("\n")[0], record.created
        if 0 <= now - self._told.get(first, -SELDOM_S) < SELDOM_S:
            return False
        self._told = {line: at for line, at in self._told.items() if now - at < SELDOM_S} | {first: now}
        return True
