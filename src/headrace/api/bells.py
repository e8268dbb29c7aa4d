"""News from the thread that follows views, for coroutines that wait for it."""

from __future__ import annotations

import asyncio


class Bells:
    """One for each view. ``ring`` may be called in any thread, ``bell`` in that of the loop."""

    def __init__(self) -> None:
        self._bells: dict[str, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bell(self, view: str) -> asyncio.Event:
        """It is set at the next news after this call."""
        self._loop = asyncio.get_running_loop()
        return self._bells.setdefault(view, asyncio.Event())

    def ring(self, view: str) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring, view)

    def _ring(self, view: str) -> None:
        if (bell := self._bells.pop(view, None)) is not None:
            bell.set()
