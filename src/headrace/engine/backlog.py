"""How far the log is ahead of those that a source waits for: its bound, and how long it has waited."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.log.read import LogReader
from headrace.model.definition import SourceDefinition

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


class Backlog:
    """The changes of one source that the log holds beyond ``reached()``, a commit; full from ``limit`` changes on.

    Used by the source's own thread; ``shown`` from any. A source may go over the limit by one batch.
    """

    def __init__(self, limit: int, reached: Callable[[], int], there: Iterable[tuple[int, int]] = ()) -> None:
        """``there``: (commit, changes) that the log holds already, in order."""
        self.limit, self._reached = limit, reached
        self._parts = deque(there)
        self.changes = sum(changes for _, changes in self._parts)
        self._waited, self._since = 0.0, 0.0

    def add(self, commit: int, changes: int) -> None:
        """The log has so many changes more, up to ``commit``."""
        self._parts.append((commit, changes))
        self.changes += changes

    def full(self) -> bool:
        """Whether the source has to wait now."""
        reached = self._reached()
        while self._parts and self._parts[0][0] <= reached:
            self.changes -= self._parts.popleft()[1]
        is_full, now = self.changes >= self.limit, time.monotonic()
        if is_full and not self._since:
            self._since = now
        elif not is_full and self._since:
            self._waited, self._since = self._waited + now - self._since, 0.0
        return is_full

    def shown(self) -> dict[str, Any]:
        """``{"backlog", "max_backlog", "waits", "waited_s"}``."""
        since = self._since
        waited = self._waited + (time.monotonic() - since if since else 0.0)
        return {
            "backlog": self.changes, "max_backlog": self.limit, "waits": bool(since), "waited_s": round(waited, 1),
        }  # fmt: skip


def backlog_of(pipeline: Pipeline, definition: SourceDefinition) -> Backlog | None:
    """The bound that a source's file sets, if it does; what the log holds of the source from before counts too."""
    if definition.max_backlog is None:
        return None

    def reached() -> int:
        commits = [pipeline.maintainer.frontier if pipeline.maintainer.views else pipeline.log.end]
        for name in definition.waits_for:
            deliver = pipeline.delivers.get(name)
            commits.append(deliver.reached if deliver else pipeline.catalog.sinks().get(name, (0,))[0])
        return min(commits)

    reader = LogReader(pipeline.folder / "log")
    frames = reader.frames(max(reached(), reader.base.commit), reader.end)
    there = [
        (ref.last, sum(ref.rows.values()))
        for ref, meta in frames
        if any(source == definition.name for source, _ in meta.sources)
    ]
    return Backlog(definition.max_backlog, reached, there)
