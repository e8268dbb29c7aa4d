"""When state becomes durable: in the background, as it was after one step, while the next ones run."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from headrace.catalog.store import Catalog
from headrace.engine.kept import Kept

AGAIN = 1 / 6  # of ``seconds``: state is made durable once the steps since have taken that long


class Durable:
    """The newest checkpoint, and the one that is on its way to the disk. Every method runs on the engine's thread.

    A start goes on from the newest checkpoint and runs the steps after it again: a step is published whether or not
    the state after it is durable, so that a disk which takes a second to write holds up no step.
    """

    def __init__(self, kept: Kept, catalog: Catalog, seconds: float) -> None:
        """``seconds``: between two checkpoints after which what nobody needs is deleted."""
        self.step = 0  # after which the newest one was made
        self.runs: dict[str, Any] = {}  # what it names
        self._kept, self._catalog, self._seconds = kept, catalog, seconds
        self._coming: tuple[int, Future[dict[str, Any]]] | None = None
        self._cleaned = time.monotonic()
        self._undone_s = 0.0  # what a start would take to run the steps again that no checkpoint holds

    @property
    def writing(self) -> bool:
        """Whether one is on its way."""
        return self._coming is not None

    def ran(self, seconds: float) -> None:
        """A step took that long."""
        self._undone_s += seconds

    def hurry(self) -> None:
        """Steps that run again would not give what they gave: what is on its way is too old, and another one is due."""
        self._coming = None
        self._cleaned = 0.0

    @property
    def due(self) -> bool:
        """Whether a checkpoint is due, with all that comes after one."""
        return time.monotonic() - self._cleaned >= self._seconds

    def cleaned(self) -> None:
        """What nobody needs has been deleted."""
        self._cleaned = time.monotonic()

    def begin(self, number: int) -> None:
        """Write the state as it is after step ``number``, unless an earlier one is still being written."""
        if self._coming is None:
            self._coming = (number, self._kept.begin_checkpoint())
            self._undone_s = 0.0

    def go_on(self, number: int) -> bool:
        """Put what has reached the disk into the catalogue, true then; begin when steps since have taken long.

        Raises what refused the writing.
        """
        if self._coming is not None:
            if not self._coming[1].done():
                return False
            (step, coming), self._coming = self._coming, None
            self._put(step, coming.result())
            return True
        if self.due or self._undone_s >= self._seconds * AGAIN:
            self.begin(number)
        return False

    def now(self) -> dict[str, Any]:
        """Runs that are durable when this returns; what was on its way is of no use then."""
        self._coming = None
        self._undone_s = 0.0
        return self._kept.checkpoint()

    def save(self, number: int) -> None:
        """Make the state durable as it is after step ``number``, and wait for it."""
        self._put(number, self.now())

    def took(self, step: int, runs: dict[str, Any]) -> None:
        """The catalogue has this as its newest checkpoint."""
        self.step, self.runs = step, runs

    def _put(self, step: int, runs: dict[str, Any]) -> None:
        self._catalog.put_checkpoint(step, runs)
        self.took(step, runs)
