"""up: run a project until it is asked to stop, and answer its control socket meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from headrace.catalog import place
from headrace.control import lock
from headrace.control.running import PipelineVerbs
from headrace.control.socket import ControlServer, Handle
from headrace.control.verbs import Dispatcher
from headrace.model.definition import Project
from headrace.model.errors import HeadraceError

TICK_S = 1.0  # between two looks at how far it is
ONCE_TICK_S = 0.1  # the same for `up --once`
BEGIN_S = 10.0  # a source that takes longer to begin is told as starting
BEGIN_TICK_S = 0.02
PAUSE_S, PAUSE_MAX_S = 1.0, 60.0  # before Spark begins again where its process has ended
QUIET_S = 60.0  # after so long without such an end the next pause is a short one

Listener = Callable[[dict[str, Any]], None]


class PipelineLife(PipelineVerbs, Protocol):
    """The whole of ``headrace.engine.pipeline.Pipeline`` that `up` needs."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, timeout_s: float | None) -> None: ...

    def caught_up(self) -> bool: ...


class Beside(Protocol):
    """What is served beside the pipeline."""

    def listen(self) -> None:
        """Before the start: raises what would keep it from serving."""

    def begin(self, call: Handle) -> None:
        """The pipeline runs, and ``call`` carries out its verbs, as over the control socket."""

    def close(self) -> None:
        """Before the pipeline ends, or fails to start."""


Make = Callable[[Project, Listener], PipelineLife]


def run(
    project: Project,
    stopping: threading.Event,
    *,
    on_event: Listener,
    on_ready: Listener,
    on_tick: Listener,
    make: Make | None = None,
    once: bool = False,
    as_copy: bool = False,
    beside: Sequence[Beside] = (),
) -> dict[str, Any]:
    """Run ``project`` until ``stopping`` is set (by a signal, or by the verb `stop`); the last status.

    With ``once`` only until what the sources hold is in the views and the sinks; a source or sink that fails, or a
    view that is not live then, is an error.

    ``on_event`` hears what the pipeline tells (from its threads), ``on_ready`` the status once every source has begun
    (where it listens is known then) or failed, ``on_tick`` the status every second. ``as_copy``: the project, copied
    from another one, becomes one of its own. ``beside`` is served once all has begun. Raises ``project.locked``,
    ``project.copied``, what ``Beside.listen`` does, and the ``HeadraceError`` the pipeline failed with. ``make`` builds
    the pipeline; by default it is the real one.
    """
    dispatcher = Dispatcher(project.path, stopping.set)
    with lock.hold(project.path, "headrace up"), ControlServer(project.path, dispatcher.handle):
        place.take(project.path, as_copy=as_copy)
        on_event({"event": "starting", "text": "starting Spark"})
        pauses, status = Pauses(), dict[str, Any]()
        with ExitStack() as serving:
            for each in beside:
                serving.callback(each.close)
                each.listen()
            served = iter([*beside])
            while True:
                pipeline = make(project, on_event) if make else _pipeline(project, on_event, yielding=bool(beside))
                lost = False
                try:
                    pipeline.start()
                    dispatcher.attach(pipeline)
                    status = _begun(pipeline, stopping)
                    on_ready(status)
                    for each in served:  # once: they go on while Spark is begun again
                        each.begin(dispatcher.handle)
                    return _followed(pipeline, stopping, on_tick, status, once=once)
                except HeadraceError as error:
                    lost = error.code == "spark.lost" and not once
                    if not lost:
                        raise
                    project = pipeline.project
                    pause = pauses.next()
                    text = (
                        f"{error.what}: {error.why}; it begins again in {pause:g} s, and nothing acknowledged is lost"
                    )
                    on_event({"event": "spark.lost", "text": text, "seconds": pause})
                finally:
                    if lost:
                        dispatcher.detach()
                    else:
                        serving.close()
                    pipeline.stop()
                if stopping.wait(pause):
                    return status
                on_event({"event": "starting", "text": "starting Spark again"})


class Pauses:
    """Before Spark begins again: longer each time, and short again once it has run for a while."""

    def __init__(self) -> None:
        self._pause, self._since = PAUSE_S, time.monotonic()

    def next(self) -> float:
        now = time.monotonic()
        pause = PAUSE_S if now - self._since > QUIET_S else self._pause
        self._pause, self._since = min(2 * pause, PAUSE_MAX_S), now
        return pause


def _followed(
    pipeline: PipelineLife, stopping: threading.Event, on_tick: Listener, status: dict[str, Any], *, once: bool
) -> dict[str, Any]:
    """Until it is to end; the last status."""
    tick_s = ONCE_TICK_S if once else TICK_S
    while not stopping.is_set() and not (once and pipeline.caught_up()):
        end = time.monotonic() + tick_s
        pipeline.wait(tick_s)
        stopping.wait(max(0.0, end - time.monotonic()))  # a wait that returns early must not spin
        status = pipeline.status()
        if not stopping.is_set():
            on_tick(status)
    if once and not stopping.is_set():
        status = pipeline.status()
        _all_live(status)
    return status


def _begun(pipeline: PipelineLife, stopping: threading.Event) -> dict[str, Any]:
    end = time.monotonic() + BEGIN_S
    while True:
        status = pipeline.status()
        starting = any(source["state"] == "starting" for source in status["sources"])
        if not starting or time.monotonic() > end or stopping.wait(BEGIN_TICK_S):
            return status


def _all_live(status: dict[str, Any]) -> None:
    left = [view for view in status["views"] if view["state"] != "live"]
    if left:
        names = ", ".join(str(view["name"]) for view in left)
        raise HeadraceError(
            "view.failed",
            f"not up to date: {names}",
            where=f"views/{left[0]['name']}.sql",
            why=str(left[0].get("reason") or left[0]["state"]),
            next="`headrace plan` says what is wrong; the other views and the sinks are up to date",
        )


def _pipeline(project: Project, on_event: Listener, *, yielding: bool) -> PipelineLife:
    from headrace.engine.pipeline import Pipeline

    return Pipeline(project, on_event=on_event, yielding=yielding)
