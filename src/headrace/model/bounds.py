"""What a query may take, whoever asks it and whatever runs it: `query_seconds` of headrace.yaml, and what says so."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from headrace.model.errors import HeadraceError

SECONDS = 60.0  # unless headrace.yaml says otherwise
LONGER = "query_seconds in headrace.yaml is the most that it may be allowed"


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a query that may take ``seconds`` is over: ``end``, by the clock that processes share."""

    seconds: float
    end: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """That of a query which begins now."""
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds until then, of those that a lock can wait."""
        return min(max(self.end - time.monotonic(), 0.0), threading.TIMEOUT_MAX)

    @contextmanager
    def held(self, lock: threading.Lock) -> Iterator[None]:
        """Holds the lock for the block. Raises ``query.timeout`` where others hold it until the query is over."""
        if not lock.acquire(timeout=self.left):
            raise timeout(self.seconds)
        try:
            yield
        finally:
            lock.release()

    def check(self) -> None:
        """Raises ``query.timeout`` once it is over."""
        if time.monotonic() >= self.end:
            raise timeout(self.seconds)


NEVER = Deadline(math.inf, math.inf)


def within(wanted: float | None, most: float, where: str) -> float:
    """The seconds of a query that wants so many, None: the most. Raises ``query.bounds`` for more than that."""
    if wanted is None:
        return most
    if not 0 < wanted <= most:
        raise HeadraceError(
            "query.bounds", f"a query may take more than 0 seconds and at most {most:g}, not {wanted:g}", where=where,
            next=f"{where} {most:g}; {LONGER}",
        )  # fmt: skip
    return wanted


def timeout(seconds: float) -> HeadraceError:
    """Of a query that was ended."""
    return HeadraceError(
        "query.timeout", f"the query took more than {seconds:g} seconds, and was ended",
        next=f"ask for less, allow it more time ({LONGER}), or make it a view: it is kept up to date then",
    )  # fmt: skip


def memory(why: str) -> HeadraceError:
    """Of a query that was ended."""
    return HeadraceError(
        "query.memory", "the query needed more memory than queries may use, and was ended", why=why,
        next="ask for less, make it a view, or set api.memory, of psql psql.memory, in headrace.yaml",
    )  # fmt: skip


def size(most: int) -> HeadraceError:
    """Of a query whose answer has more bytes than ``most``."""
    return HeadraceError(
        "query.size", f"the answer has more than {most >> 20:,} MiB, which is the most of one",
        next="ask for fewer rows, for less of them, or for a page at a time",
    )  # fmt: skip
