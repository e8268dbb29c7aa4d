"""The verbs that need the pipeline, and how a call reaches them: in the process that runs it, or in our own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from headrace.catalog.project import STATE, read
from headrace.control import (
    apply,
    backup,
    columns,
    create,
    define,
    drop,
    explain,
    frontier,
    lock,
    log_retain,
    migrate,
    plan,
    profile,
    quarantine_drop,
    quarantine_fix,
    quarantine_replay,
    rebuild,
    repair,
    show,
    sink_pause,
    sink_resume,
    socket,
    sql,
    status,
    stop,
    top,
    verify,
    wait,
)
from headrace.control.audited import audited
from headrace.control.running import Alone, PipelineVerbs, Progress, Running, Verb
from headrace.governance.roles import Action
from headrace.model.errors import HeadraceError

VERBS: dict[str, Verb] = {
    "apply": apply.run,
    "backup": backup.run,
    "create": create.run,
    "define": define.run,
    "drop": drop.run,
    "explain": explain.run,
    "frontier": frontier.run,
    "lineage": columns.run,
    "log_compact": log_retain.run,
    "log_retain": log_retain.run,
    "migrate": migrate.run,
    "plan": plan.run,
    "profile": profile.run,
    "quarantine_drop": quarantine_drop.run,
    "quarantine_fix": quarantine_fix.run,
    "quarantine_replay": quarantine_replay.run,
    "rebuild": rebuild.run,
    "repair": repair.run,
    "show": show.run,
    "sink_pause": sink_pause.run,
    "sink_resume": sink_resume.run,
    "sql": sql.run,
    "status": status.run,
    "stop": stop.run,
    "top": top.run,
    "verify": verify.run,
    "wait": wait.run,
}
# These also work when nothing runs, at the cost of starting Spark.
ALONE = ("explain", "lineage", "plan", "sql", "verify")
BRIEF = ("explain", "lineage", "plan")  # of these those that run no query over the data
CHANGING = (  # one at a time
    "apply", "create", "define", "drop", "quarantine_drop", "quarantine_fix", "quarantine_replay", "rebuild", "repair",
    "sink_pause", "sink_resume",
)  # fmt: skip
# What the audit log tells of a call's arguments: no values of rows, no SQL.
NAMED = (
    "all", "before", "changes", "compact", "dry_run", "id", "ids", "kind", "refused_upto", "sink", "source", "table",
    "to", "upto", "views",
)  # fmt: skip
START_S = 300.0  # a call that comes while `up` still starts waits this long


def call(path: Path, verb: str, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Carry out a verb: by the running `up` when there is one, else with a pipeline opened for it alone.

    Raises ``project.not_running`` for a verb that makes sense only beside a running `up`. What it changes is written
    down in the audit log, as done by the user of this machine.
    """
    named = {key: arguments[key] for key in NAMED if key in arguments}
    with audited(path, Action(verb), arguments.get("view") or arguments.get("name"), **named):
        return _call(path, verb, arguments, progress)


def _call(path: Path, verb: str, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    if socket.running(path):
        return socket.request(path, verb, arguments, progress)
    alone = _alone(verb, arguments)
    if alone is not None:
        return alone(path, arguments, progress)
    if verb not in ALONE:
        raise socket.not_running(path)
    project = read(path)
    with lock.hold(path, f"headrace {verb}"):
        progress({"text": "starting Spark"})
        from headrace.engine.pipeline import Pipeline

        with Pipeline.open(project, brief=verb in BRIEF) as pipeline:
            return VERBS[verb](Running(pipeline, path), arguments, progress)


def _alone(verb: str, arguments: Mapping[str, Any]) -> Alone | None:
    """How a verb is carried out where nothing runs, when what is published, or the log, is all that it needs."""
    if verb == "verify" and arguments.get("sink"):
        return verify.sink_alone
    known = {
        "backup": backup.alone, "migrate": migrate.alone, "rebuild": rebuild.alone, "repair": repair.alone,
        "quarantine_drop": quarantine_drop.alone, "log_compact": log_retain.alone, "log_retain": log_retain.alone,
        "show": show.alone,
    }  # fmt: skip
    return known.get(verb)


class Dispatcher:
    """Answers the control socket of `up`. It may be asked before the pipeline has started."""

    def __init__(self, path: Path, stop: Callable[[], None]) -> None:
        self._path, self._stop = path, stop
        self._running: Running | None = None
        self._ready = threading.Event()
        self._changing = threading.Lock()

    def attach(self, pipeline: PipelineVerbs) -> None:
        """The pipeline has started: answer with it."""
        self._running = Running(pipeline, self._path, self._stop)
        self._ready.set()

    def detach(self) -> None:
        """It has ended, and begins again: who asks waits for it."""
        self._ready.clear()
        self._running = None

    def handle(self, verb: str, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
        if verb not in VERBS:
            raise HeadraceError(
                "internal",
                f"the running `headrace up` does not know the verb '{verb}'",
                why="it is probably of another version than this command",
                next="`headrace stop`, then `headrace up`",
            )
        running = self._running
        if running is None and verb in ("status", "stop"):
            if verb == "stop":
                self._stop()
            return {"pid": os.getpid(), "state": "starting", "views": [], "sources": [], "sinks": []}
        if running is None:
            progress({"text": "`headrace up` is starting"})
            running = self._started()
        from headrace.engine.disk import telling

        try:
            with telling(self._path / STATE), self._changing if verb in CHANGING else nullcontext():
                return VERBS[verb](running, arguments, progress)
        except (HeadraceError, socket.ClientGone):
            raise
        except Exception as error:
            if isinstance(ended := running.pipeline.error, HeadraceError):  # and so what the verb was at
                raise ended from error
            raise

    def _started(self) -> Running:
        """The pipeline, once it has started."""
        if not self._ready.wait(START_S) or self._running is None:
            raise HeadraceError("project.not_running", "`headrace up` has not finished starting", next="try again")
        return self._running
