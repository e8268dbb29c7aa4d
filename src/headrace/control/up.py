"""up: run a project until it is asked to stop, and answer its control socket meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from headrace.control import lock
from headrace.control.running import PipelineVerbs
from headrace.control.socket import ControlServer
from headrace.control.verbs import Dispatcher
from headrace.model.definition import Project

TICK_S = 1.0  # between two looks at how far it is

Listener = Callable[[dict[str, Any]], None]


class PipelineLife(PipelineVerbs, Protocol):
    """The whole of ``headrace.engine.pipeline.Pipeline`` that `up` needs."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, timeout_s: float | None) -> None: ...


Make = Callable[[Project, Listener], PipelineLife]


def run(
    project: Project,
    stopping: threading.Event,
    *,
    on_event: Listener,
    on_ready: Listener,
    on_tick: Listener,
    make: Make | None = None,
) -> None:
    """Run ``project`` until ``stopping`` is set (by a signal, or by the verb `stop`).

    ``on_event`` hears what the pipeline tells (from its threads), ``on_ready`` the first status, ``on_tick``
    the status every second. Raises ``project.locked``, and the ``HeadraceError`` the pipeline failed with.
    ``make`` builds the pipeline; by default it is the real one.
    """
    dispatcher = Dispatcher(project.path, stopping.set)
    with lock.hold(project.path, "headrace up"), ControlServer(project.path, dispatcher.handle):
        on_event({"event": "starting", "text": "starting Spark"})
        pipeline = (make or _pipeline)(project, on_event)
        try:
            pipeline.start()
            dispatcher.attach(pipeline)
            on_ready(pipeline.status())
            while not stopping.is_set():
                end = time.monotonic() + TICK_S
                pipeline.wait(TICK_S)
                stopping.wait(max(0.0, end - time.monotonic()))  # a wait that returns early must not spin
                if not stopping.is_set():
                    on_tick(pipeline.status())
        finally:
            pipeline.stop()


def _pipeline(project: Project, on_event: Listener) -> PipelineLife:
    from headrace.engine.pipeline import Pipeline

    return Pipeline(project, on_event=on_event)
