"""How many batches a group waits for: whoever has just been answered mostly comes back at once."""

from __future__ import annotations

_PASSED_MAX = 64  # groups that do not wait after waits that were in vain


class Turns:
    """Without waiting, many writers fall into two halves that take turns, each waiting for the other's sync.

    A group waits for as many as the last one had and were queued behind it, no longer than that one took to write;
    where they do not come, ever more groups do not wait. One writer, or one after the other, never waits.
    """

    def __init__(self) -> None:
        self._expected = 0
        self._took_s = 0.0
        self._vain = 0
        self._pass = 0

    def done(self, answered: int, behind: int, took_s: float) -> None:
        """A group of ``answered`` batches was written in ``took_s`` seconds; so many are queued behind it."""
        self._expected, self._took_s = answered + behind, took_s

    def wanted(self, queued: int) -> tuple[int, float]:
        """How many batches are to be queued before the next group is written, and for how many seconds at most."""
        if queued >= self._expected:
            return queued, 0.0
        if self._pass:
            self._pass -= 1
            return queued, 0.0
        return self._expected, self._took_s

    def came(self, all_of_them: bool) -> None:
        """Whether a wait was worth it."""
        self._vain = 0 if all_of_them else min(self._vain + 1, _PASSED_MAX)
        self._pass = min(2**self._vain - 1, _PASSED_MAX)
