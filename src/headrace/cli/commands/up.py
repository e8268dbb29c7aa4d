"""headrace up"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder
from headrace.cli.sentences import sentence

if TYPE_CHECKING:
    from rich.spinner import Spinner

    from headrace.model.definition import Project

EPILOG = """
headrace up                              # until Ctrl-C
headrace up --once                       # take what is there, then end: for a schedule
headrace up --json > up.log 2>&1 &       # a JSON object a line, for a supervisor
headrace views                           # in another terminal: all other commands work beside it
"""
PLAIN_S = 10.0  # off a terminal: a line about progress at most this often, and only when something has changed


def run(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when all that the sources hold now is in the views and the sinks.")
    ] = False,
    as_copy: Annotated[
        bool, typer.Option("--as-copy", help="The folder is a copy of another project: make it one of its own.")
    ] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Run the project until Ctrl-C, or with --once until it is up to date.

    It follows the sources, keeps the views up to date and delivers them to the sinks. It takes the definitions
    as they are in the folder now. Once it is up, it serves the page and the API, at the address that it tells.

    Ctrl-C, SIGTERM or `headrace stop` end it after the step it is in; a second Ctrl-C at once. Even SIGKILL
    loses nothing that was acknowledged.

    With --once it takes every file that is there and a database up to where it is at the start, brings views and
    sinks up to date and ends with exit status 0; with 1 when a source, a view or a sink fails.

    A folder that was copied with its .headrace is refused while the original is there; --as-copy makes it
    a project of its own, after its sinks were pointed elsewhere.
    """
    from headrace.api.server import Servers
    from headrace.catalog.project import read
    from headrace.control import up
    from headrace.engine import connectors

    definitions = read(folder(project))
    connectors.check(definitions)
    stopping = threading.Event()
    told = _Told(definitions, json, stopping, once=once)
    told.take_signals()
    try:
        status = up.run(
            definitions, stopping, on_event=told.event, on_ready=told.ready, on_tick=told.tick, once=once,
            as_copy=as_copy, beside=() if once else [Servers(definitions, told.event)],
        )  # fmt: skip
        if once and not stopping.is_set():
            told.done(status)
    finally:
        told.end()


class _Told:
    """What `up` says while it runs: lines for what happens, and how far it is."""

    def __init__(self, project: Project, json: bool, stopping: threading.Event, *, once: bool = False) -> None:
        self._project, self._json, self._stopping, self._once = project, json, stopping, once
        self._began = time.monotonic()
        self._last: tuple[float, int] = (self._began, 0)  # when, changes: at the last look
        self._plain_at, self._plain_text = 0.0, ""
        self._untold = False
        self._live: Spinner | None = None
        self._drawn = ExitStack()
        if not json and sys.stderr.isatty():
            self._live = self._drawn.enter_context(display.spinning("starting Spark"))

    def take_signals(self) -> None:
        """SIGINT and SIGTERM end it in order, a second one at once. Spark takes SIGINT for itself when it starts."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signal)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if self._stopping.is_set():
            os._exit(128 + number)
        self._stopping.set()
        with suppress(OSError):
            os.write(2, b"\nstopping after this step; once more ends it at once\n")

    def event(self, event: Mapping[str, Any]) -> None:
        """One thing that the pipeline told; called from its threads, which a closed pipe must not end."""
        try:
            self._tell(event)
        except BrokenPipeError:
            self._stopping.set()

    def _tell(self, event: Mapping[str, Any]) -> None:
        if self._json:
            self._put(display.emit, event, line=True)
        elif event.get("event") == "progress":
            self._say_progress(display.progress(event), time.monotonic())
        elif self._live is not None and event.get("event") == "starting":
            pass  # the live line says so already
        elif event.get("event") == "engine.failed":
            self._put(display.say, sentence(event), error=True)  # the command ends with the error itself
        elif event.get("error"):
            self._put(display.say, f"{sentence(event)}: {display.error_text(event['error'])}", error=True)
        else:
            self._put(display.say, sentence(event))

    def _put(self, write: Callable[..., None], *given: object, **ways: bool) -> None:
        """What cannot be told, as the disk is full or the terminal is gone, is not, and the product goes on.

        stderr, where that is another place, hears of it once.
        """
        try:
            write(*given, **ways)
        except BrokenPipeError:
            raise
        except OSError as refused:
            if not self._untold and not ways.get("error"):
                self._untold = True
                with suppress(OSError):
                    display.say(f"stdout cannot be written, so not all is told: {refused.strerror}", error=True)

    def ready(self, status: Mapping[str, Any]) -> None:
        self.take_signals()
        if self._json:
            self._put(display.emit, {"event": "ready", "pid": os.getpid(), **status}, line=True)
            return
        types = {
            "sources": {definition.name: definition.type for definition in self._project.sources},
            "sinks": {definition.name: definition.type for definition in self._project.sinks},
        }
        for kind in ("sources", "views", "sinks"):
            for item in status.get(kind) or []:
                type_name = types.get(kind, {}).get(item["name"], "")
                why = not self._once  # what failed was told, and ends it with its error
                self._put(display.say, _ready_line(kind[:-1], type_name, item, why=why))
        took = time.monotonic() - self._began
        name, process = display.plain(self._project.settings.name), f"(process {os.getpid()})"
        if self._once:
            self._put(display.say, f"{name} has begun after {took:.1f} s {process}; it ends when all is up to date")
        else:
            self._put(display.say, f"{name} is up after {took:.1f} s {process}; Ctrl-C ends it")

    def tick(self, status: Mapping[str, Any]) -> None:
        now = time.monotonic()
        text = self._progress(status, now)
        if not self._json:
            self._say_progress(text, now)
        elif self._due(text, now):
            self._put(display.emit, {"event": "status", **status}, line=True)

    def _say_progress(self, text: str, now: float) -> None:
        """On the live line; off a terminal as a line of its own, now and then."""
        if self._live is not None:
            from rich.text import Text

            self._live.update(text=Text(text))
        elif self._due(text, now):
            self._put(display.say, text)

    def _due(self, text: str, now: float) -> bool:
        if now - self._plain_at < PLAIN_S or text == self._plain_text:
            return False
        self._plain_at, self._plain_text = now, text
        return True

    def done(self, status: Mapping[str, Any]) -> None:
        """All is up to date: `up --once`."""
        if self._json:
            self._put(display.emit, {"event": "done", **status}, line=True)
        else:
            self._put(display.say, f"everything is up to date at commit {status['frontier']:,}")

    def end(self) -> None:
        with suppress(OSError):
            self._drawn.close()
        if self._json:
            self._put(display.emit, {"event": "stopped"}, line=True)
        elif self._stopping.is_set():
            self._put(display.say, "stopped")

    def _progress(self, status: Mapping[str, Any], now: float) -> str:
        """``commit 1,234 · views at 1,200 · 5,120 changes/s · 34 commits behind · last step 0.31 s``."""
        commit, frontier = int(status.get("commit") or 0), int(status.get("frontier") or 0)
        changes = sum(int(source.get("rows") or 0) for source in status.get("sources") or [])
        (before, changes_before), self._last = self._last, (now, changes)
        rate = max(changes - changes_before, 0) / max(now - before, 0.001)
        parts = [display.copying(one) for source in status.get("sources") or [] for one in source.get("copying") or []]
        parts += [f"commit {commit:,}", f"views at {frontier:,}", f"{rate:,.0f} changes/s"]
        if commit > frontier:
            parts.append(f"{display.counted(commit - frontier, 'commit')} behind")
        if status.get("step_seconds"):
            parts.append(f"last step {status['step_seconds']:.2f} s")
        bad = [str(item["name"]) for kind in ("sources", "views", "sinks") for item in status.get(kind) or []
               if item.get("state") in ("failed", "refused")]  # fmt: skip
        return display.plain(" · ".join(parts + ([f"not well: {', '.join(bad)}"] if bad else [])))


def _ready_line(kind: str, type_name: str, item: Mapping[str, Any], *, why: bool) -> str:
    """``why``: whether the line says why what failed did."""
    tables = item.get("tables")
    parts = [
        type_name,
        str(item.get("endpoint") or ""),
        f"token in {item['token_file']}" if item.get("token_file") else "",
        f"tables {', '.join(tables)}" if isinstance(tables, list) and tables else "",
        display.counted(item["rows"], "row") if kind == "view" and isinstance(item.get("rows"), int) else "",
        str(item["state"]) if item.get("state") not in (None, "running", "live") else "",
        display.error_text(item.get("error") or item.get("reason") or "") if why else "",
    ]
    return display.plain("  ".join(part for part in (f"  {kind:<6} {item['name']}", *parts) if part))
