"""What the routes ask: the running project, behind one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request

from headrace.api.bells import Bells
from headrace.api.who import Gate
from headrace.catalog.searches import StoredQueries
from headrace.serve.live import Live
from headrace.serve.questions import Questions

# (verb, arguments, progress) -> its answer: that of the control socket.
Call = Callable[[str, dict[str, Any], Callable[[dict[str, Any]], None]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Served:
    """``call`` carries out a verb of ``control``; ``questions`` reads views; ``live`` follows them; ``stored``: the
    files of stored queries."""

    path: Path
    call: Call
    questions: Questions
    live: Live
    bells: Bells
    gate: Gate
    stored: StoredQueries

    def verb(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A verb whose progress nobody follows."""
        return self.call(name, dict(arguments or {}), lambda event: None)


async def served(request: Request) -> Served:
    """What the application was made over. No thread is asked for it, as one would be if it were no coroutine."""
    found: Served = request.app.state.served
    return found
