"""Whose a sink is. Its generation grows with every take-over, and only the instance that did the last one may write."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from headrace.model.errors import HeadraceError
from headrace.sinks.target import fenced


def _drawn() -> int:
    return 2 + secrets.randbelow(1 << 31)


class Tenure:
    """What one instance knows of it.

    An instance takes over for the first time by a step of 1, and again, after its connection broke, by one that it
    draws: so it knows its own generation there even where nobody answered that it was written, and takes nothing back
    from an instance that came after it. ``generation``: its own, once a take-over is known to have been written.
    """

    def __init__(self, where: str = "", draw: Callable[[], int] = _drawn) -> None:
        self.generation: int | None = None
        self._where, self._draw = where, draw
        self._asked = 0
        self._mine: set[int] = set()

    @property
    def step(self) -> int:
        return 1 if self.generation is None else self._draw()

    def take_over(self, running: int, step: int) -> int:
        """The generation to write in the place of the one that runs (0: none). Raises ``sink.fenced``."""
        if self.generation is not None and running not in self._mine:
            raise fenced(f"generation {running} runs, this was {self.generation}", self._where)
        self._asked = running + step
        self._mine.add(self._asked)
        return self._asked

    def took(self) -> None:
        """The store has written it."""
        self.generation = self._asked
        self._mine = {self._asked}

    def left(self) -> None:
        """What the sink has in the store is gone."""
        self.generation, self._mine = None, set()

    def check(self, running: int | None) -> int:
        """Before anything is written: the generation, which must be the one that runs. Raises ``sink.fenced``."""
        if self.generation is None:
            raise HeadraceError("internal", "a sink is written to before it is open", where=self._where)
        if running != self.generation:
            now = f"generation {running} runs, this is {self.generation}"
            raise fenced("its progress row is gone" if running is None else now, self._where)
        return self.generation
