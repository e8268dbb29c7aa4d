"""`headrace up` as a child of the demo: started, waited for, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from headrace.control import socket as control
from headrace.demo.project import DemoProject
from headrace.model.errors import CODES, HeadraceError

READY_S = 300.0  # Spark may be slow to start on a busy machine
STOP_S = 60.0
LOOK_S = 0.1
LOG_LINES = 12


class Product:
    """One child process, known by its pid. What it says goes to the project's ``up.log``."""

    def __init__(self, project: DemoProject) -> None:
        self._project = project
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """A session of its own, so that a Ctrl-C in the terminal is for the demo, which still needs the product."""
        program = [sys.executable, "-P", "-c", "from headrace.cli.main import main; main()"]
        with self._project.up_log.open("wb") as log:
            self._process = subprocess.Popen(
                [*program, "up", "--json", "--project", str(self._project.path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._project.path, start_new_session=True,
            )  # fmt: skip

    def wait_ready(self, on_wait: Callable[[], None]) -> dict[str, Any]:
        """Its first status once every part of it runs; ``on_wait`` is called ten times a second until then."""
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            self.check()
            if control.running(self._project.path):
                status = control.request(self._project.path, "status")
                if status["state"] == "running" and self._listens(status):
                    return status
            on_wait()
            time.sleep(LOOK_S)
        raise self._failed(f"`headrace up` is not ready after {READY_S:.0f} s")

    @staticmethod
    def _listens(status: dict[str, Any]) -> bool:
        """Whether every source runs; raises what one of them failed with."""
        for source in status["sources"]:
            if source.get("error"):
                raise _error_of(source["error"])
        return all(source["state"] == "running" for source in status["sources"])

    def check(self) -> None:
        """Raises ``HeadraceError`` when it has ended: the error that it gave, or its last words."""
        if self._process is None or self._process.poll() is not None:
            status = self._process.returncode if self._process else None
            raise self._failed(f"`headrace up` ended by itself (exit status {status})")

    def stop(self) -> int | None:
        """End it in order, after the step it is in; by force when that takes too long. Its exit status."""
        process = self._process
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the group is still its own
                process.wait()
        return process.returncode

    def _failed(self, what: str) -> HeadraceError:
        lines = self._project.up_log.read_text(errors="replace").splitlines() if self._project.up_log.exists() else []
        for line in reversed(lines):
            error = _error_in(line)
            if error is not None:
                return error
        return HeadraceError(
            "internal", what, where=str(self._project.up_log), why="\n".join(lines[-LOG_LINES:]) or "it said nothing"
        )


def _error_in(line: str) -> HeadraceError | None:
    """The error of a JSON line that reports one."""
    try:
        parts = json.loads(line)["error"]
        return _error_of(parts) if parts["code"] in CODES else None
    except (ValueError, KeyError, TypeError):
        return None


def _error_of(parts: dict[str, str]) -> HeadraceError:
    return HeadraceError(parts["code"], parts["what"], where=parts["where"], why=parts["why"], next=parts["next"])
