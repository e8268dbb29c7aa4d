"""Places that are few, of which one who asks has a part, so that others find some."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Full(Exception):
    """No place is left; ``of_one``: for who asks."""

    def __init__(self, *, of_one: bool) -> None:
        super().__init__()
        self.of_one = of_one


class Places:
    """For any thread. ``most``: at once; ``of_one``: of them by one token."""

    def __init__(self, most: int, of_one: int) -> None:
        self.most, self.of_one = most, of_one
        self._lock = threading.Lock()
        self._taken = Counter[str | None]()

    @property
    def taken(self) -> int:
        return self._taken.total()

    @contextmanager
    def one(self, whose: str | None) -> Iterator[None]:
        """For as long as the block. ``whose``: a token; None: nobody is asked for one. Raises ``Full``."""
        with self._lock:
            if self._taken.total() >= self.most:
                raise Full(of_one=False)
            if whose is not None and self._taken[whose] >= self.of_one:
                raise Full(of_one=True)
            self._taken[whose] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken -= Counter([whose])  # which forgets those of whom none is left
