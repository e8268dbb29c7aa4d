"""Which of many events is written down: of equal ones the first in a while, of one token's some; the rest is counted.

Who is refused all day fills no disk and memory, and keeps from neither what others do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

EVERY_US = 60_000_000  # of equal events, and of a token's, what is written down is bounded in each such time
EQUAL_MAX = 1_024  # that are counted at a time


@dataclass(frozen=True, slots=True)
class _Written:
    """Since when; how many were written down since, and how many were not."""

    since_us: int
    written: int = 1
    unwritten: int = 0


class Repeated:
    """From any thread. ``clock_us`` gives microseconds since the epoch.

    ``most``: of one token's events so many are written down in a minute, whatever they are; None: as many as differ.
    What is kept is bounded by ``EQUAL_MAX`` and by the number of tokens, with the empty one for all who have none.
    """

    def __init__(self, clock_us: Callable[[], int], most: int | None = None) -> None:
        self._clock_us, self._most = clock_us, most
        self._lock = threading.Lock()
        self._equal: OrderedDict[tuple[str, ...], _Written] = OrderedDict()  # the one seen longest ago first
        self._of: dict[str, _Written] = {}  # token -> all of its; unwritten: those that its equal ones do not count

    def count(self, token: str, *event: str) -> dict[str, int] | None:
        """What its entry is to tell: how many equal ones (``more_before``) and others of the token (``others_before``)
        were not written down before it. None where this one is not either."""
        key, now_us = (token, *event), self._clock_us()
        with self._lock:
            seen = self._equal.pop(key, _Written(now_us - EVERY_US))
            if 0 <= now_us - seen.since_us < EVERY_US:
                self._equal[key] = replace(seen, unwritten=seen.unwritten + 1)
                return None
            of = self._of.get(token, _Written(now_us, 0))
            if not 0 <= now_us - of.since_us < EVERY_US:
                of = _Written(now_us, 0, of.unwritten)
            if self._most is not None and of.written >= self._most:
                self._of[token] = replace(of, unwritten=of.unwritten + 1 + seen.unwritten)
                return None
            self._of[token] = _Written(of.since_us, of.written + 1)
            self._equal[key] = _Written(now_us)
            while len(self._equal) > EQUAL_MAX:
                self._forget(*self._equal.popitem(last=False))
        told = {"more_before": seen.unwritten, "others_before": of.unwritten}
        return {name: count for name, count in told.items() if count}

    def forget(self, token: str, *event: str) -> None:
        """It could not be written down: the next equal one is to be the first."""
        with self._lock:
            self._equal.pop((token, *event), None)

    def ended(self) -> dict[str, int]:
        """Token -> how many of its were counted and are told by no entry yet; all is forgotten."""
        with self._lock:
            while self._equal:
                self._forget(*self._equal.popitem())
            found = {token: of.unwritten for token, of in self._of.items() if of.unwritten}
            self._of.clear()
        return found

    def _forget(self, key: tuple[str, ...], seen: _Written) -> None:
        of = self._of.get(key[0], _Written(seen.since_us, 0))
        self._of[key[0]] = replace(of, unwritten=of.unwritten + seen.unwritten)
