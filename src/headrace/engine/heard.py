"""Who hears what a pipeline tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Listener = Callable[[dict[str, Any]], None]


class Heard:
    """Called with an event, hands it on to all who listen, from the caller's thread."""

    def __init__(self, first: Listener | None) -> None:
        self._listeners: tuple[Listener, ...] = (first,) if first is not None else ()

    def __call__(self, event: dict[str, Any]) -> None:
        for listener in self._listeners:
            listener(event)

    @contextmanager
    def also(self, listener: Listener) -> Iterator[None]:
        """``listener`` hears events too, inside the block."""
        self._listeners += (listener,)
        try:
            yield
        finally:
            self._listeners = tuple(one for one in self._listeners if one is not listener)
