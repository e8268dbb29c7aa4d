"""Where the time of a running project's steps goes: the next ones that change a view, phase by phase.

The engine's thread notes the phases of a step while somebody asks, and only then; who asks puts them together.
"""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.engine import job_times
from headrace.engine.shares import Measured, divided, summed
from headrace.engine.step import Result
from headrace.model.errors import HeadraceError
from headrace.state.phases import DRIVER, LOG, PROBE, PUBLISH, WRITE, Recorder, recording

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

LOOK_S = 0.2  # how often it is looked whether who asks is still there
ROWS = (LOG, PROBE, WRITE, PUBLISH)  # phases with rows to count


@dataclass(frozen=True, slots=True)
class Trace:
    """A step as the engine's thread saw it. ``changed``: rows of each view that it changed."""

    number: int
    commit: int
    changes: int
    recorder: Recorder
    changed: dict[str, int]


class Profiles:
    """Those who ask for a profile, and the step that is run for them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._asked: list[queue.SimpleQueue[Trace]] = []

    def step(self) -> Result | None:
        """A step of the maintainer's, its phases noted if anybody asks. On the engine's thread."""
        maintainer = self._pipeline.maintainer
        if not self._asked:
            return maintainer.step()
        with recording(DRIVER) as recorder:
            result = maintainer.step()
        if result is not None:
            names = {compiled.feed: name for name, compiled in maintainer.views.items()}
            changed: Counter[str] = Counter()
            for output in result.outputs:
                if output.feed in names:
                    changed[names[output.feed]] += output.rows
            trace = Trace(result.number, maintainer.frontier, result.changes, recorder, changed)
            for asked in list(self._asked):
                asked.put(trace)
        return result

    def profile(
        self, view: str, steps: int, seconds: float, on_progress: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        """The next ``steps`` that change ``view``, or as many of them as come within ``seconds``.

        ``{"view", "steps", "others", "seconds", "wall", "phases", "each"}``: see ``shares.summed``; ``others``: how
        many steps came that did not change it. Raises ``HeadraceError``: view.unknown, view.failed, project.not_running
        when the product stops before any came. ``on_progress`` is called at least every ``LOOK_S``; what it raises ends
        the profile.
        """
        self._pipeline.view(view)
        asked: queue.SimpleQueue[Trace] = queue.SimpleQueue()
        began = time.monotonic()
        found, others = list[Measured](), 0
        self._asked.append(asked)
        try:
            while len(found) < steps and (left := began + seconds - time.monotonic()) > 0 and self._at_work():
                on_progress({"text": f"profiling {view}", "done": len(found), "total": steps})
                try:
                    trace = asked.get(timeout=min(left, LOOK_S))
                except queue.Empty:
                    continue
                if view in trace.changed:
                    found.append(self._measured(trace, trace.changed[view]))
                else:
                    others += 1
        finally:
            self._asked.remove(asked)
        if not found:
            self._pipeline.view(view)  # it may have failed meanwhile
            if not self._at_work():
                raise HeadraceError("project.not_running", "the product is stopping", next="headrace up")
        told = {"view": view, "steps": len(found), "others": others, "seconds": round(time.monotonic() - began, 3)}
        return {**told, **summed(found)}

    def _at_work(self) -> bool:
        return not self._pipeline.stopping and self._pipeline.error is None

    def _measured(self, trace: Trace, changed: int) -> Measured:
        seen = trace.recorder
        phases = divided(seen.spans, seen.stages, job_times.jobs(self._pipeline.spark, seen.jobs))
        rows = seen.rows.copy()
        for _, _, more in seen.stages:
            rows.update(more)
        rows[LOG] = trace.changes
        wall = seen.spans[-1][2] - seen.spans[0][1]
        return Measured(trace.number, trace.commit, wall, phases, {phase: rows[phase] for phase in ROWS}, changed)
