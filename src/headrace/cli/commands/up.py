"""headrace up"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

if TYPE_CHECKING:
    from rich.status import Status

    from headrace.model.definition import Project

EPILOG = """
headrace up                              # until Ctrl-C
headrace up --json > up.log 2>&1 &       # a JSON object a line, for a supervisor
headrace views                           # in another terminal: all other commands work beside it
"""
PLAIN_S = 10.0  # off a terminal: a line about progress at most this often, and only when something has changed


def run(project: ProjectOption = None, json: JsonOption = False) -> None:
    """Run the project until Ctrl-C.

    It follows the sources, keeps the views up to date and delivers them to the sinks. It takes the definitions
    as they are in the folder now.

    Ctrl-C, SIGTERM or `headrace stop` end it after the step it is in; a second Ctrl-C at once. Even SIGKILL
    loses nothing that was acknowledged.
    """
    from headrace.catalog.project import read
    from headrace.control import connectors, up

    definitions = read(folder(project))
    connectors.check(definitions)
    stopping = threading.Event()
    told = _Told(definitions, json, stopping)
    told.take_signals()
    try:
        up.run(definitions, stopping, on_event=told.event, on_ready=told.ready, on_tick=told.tick)
    finally:
        told.end()


class _Told:
    """What `up` says while it runs: lines for what happens, and how far it is."""

    def __init__(self, project: Project, json: bool, stopping: threading.Event) -> None:
        self._project, self._json, self._stopping = project, json, stopping
        self._began = time.monotonic()
        self._last: tuple[float, int, int] = (self._began, 0, 0)  # when, commit, changes: at the last look
        self._plain_at, self._plain_text = 0.0, ""
        self._live: Status | None = None
        if not json and sys.stderr.isatty():
            self._live = display.console(error=True).status("starting Spark")
            self._live.start()
        elif not json:
            display.say("starting Spark")

    def take_signals(self) -> None:
        """SIGINT and SIGTERM end it in order, a second one at once. Spark takes SIGINT for itself when it starts."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signal)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if self._stopping.is_set():
            os._exit(128 + number)
        self._stopping.set()
        os.write(2, b"\nstopping after this step; once more ends it at once\n")

    def event(self, event: Mapping[str, Any]) -> None:
        """One thing that the pipeline told; called from its threads."""
        if self._json:
            display.emit(event, line=True)
        elif event.get("error"):
            display.say(display.error_text(event["error"]), error=True)
        elif event.get("text"):
            display.say(display.plain(event["text"]))

    def ready(self, status: Mapping[str, Any]) -> None:
        self.take_signals()
        if self._json:
            display.emit({"event": "ready", "pid": os.getpid(), **status}, line=True)
            return
        for kind in ("sources", "views", "sinks"):
            for item in status.get(kind) or []:
                display.say(_ready_line(kind[:-1], item))
        took = time.monotonic() - self._began
        name = display.plain(self._project.settings.name)
        display.say(f"{name} is up after {took:.1f} s (process {os.getpid()}); Ctrl-C ends it")

    def tick(self, status: Mapping[str, Any]) -> None:
        now = time.monotonic()
        text = self._progress(status, now)
        if self._json or self._live is None:
            if now - self._plain_at < PLAIN_S or text == self._plain_text:
                return
            self._plain_at, self._plain_text = now, text
            if self._json:
                display.emit({"event": "status", **status}, line=True)
            else:
                display.say(text)
        else:
            self._live.update(text)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
        if self._json:
            display.emit({"event": "stopped"}, line=True)
        elif self._stopping.is_set():
            display.say("stopped")

    def _progress(self, status: Mapping[str, Any], now: float) -> str:
        """``commit 1,234 · views at 1,234 · 5,120 changes/s · lag 0.3 s``."""
        commit, frontier = int(status.get("commit") or 0), int(status.get("frontier") or 0)
        changes = int(status.get("changes") or 0)
        before, commit_before, changes_before = self._last
        self._last = (now, commit, changes)
        span = max(now - before, 0.001)
        counted = "changes" in status
        new, unit = (changes - changes_before, "changes") if counted else (commit - commit_before, "commits")
        parts = [f"commit {commit:,}", f"views at {frontier:,}", f"{max(new, 0) / span:,.0f} {unit}/s"]
        if status.get("lag_ms") is not None:
            parts.append(f"lag {status['lag_ms'] / 1000:.1f} s")
        bad = [str(item["name"]) for kind in ("sources", "views", "sinks") for item in status.get(kind) or []
               if item.get("state") in ("failed", "down", "stale")]  # fmt: skip
        return display.plain(" · ".join(parts + ([f"not well: {', '.join(bad)}"] if bad else [])))


def _ready_line(kind: str, item: Mapping[str, Any]) -> str:
    tables = item.get("tables")
    parts = [
        str(item.get("type") or ""),
        str(item.get("endpoint") or ""),
        f"token in {item['token_file']}" if item.get("token_file") else "",
        f"tables {', '.join(tables)}" if isinstance(tables, list) and tables else "",
        f"{item['rows']:,} rows" if isinstance(item.get("rows"), int) else "",
        str(item["state"]) if item.get("state") not in (None, "running", "ok", "live") else "",
    ]
    return display.plain(f"  {kind:<6} {item['name']}  " + "  ".join(part for part in parts if part))
