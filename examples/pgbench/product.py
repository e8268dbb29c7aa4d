"""`headrace up` as a process of its own that can be killed: with its JVM and its Python workers, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

STOP_S = 60.0
MIDDLE_S = 30.0  # how long a step that is under way is looked for
LOG_LINES = 20


class Product:
    """Starts, kills and stops `headrace up` on a project. ``environment`` is added to ours."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self.project = project
        self.log = project / "up.log"
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """A new session, so that its processes are told from all others."""
        command = [str(Path(sys.executable).with_name("headrace")), "up", "--json", "--project", str(self.project)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def check(self) -> None:
        """Raises RuntimeError, with what it said last, when the product has ended by itself."""
        if not self.running:
            status = self._process.returncode if self._process else None
            raise RuntimeError(f"`headrace up` ended with status {status}; {self.log} ends with:\n{self.log_tail()}")

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    def errors(self) -> list[str]:
        """What it reported as errors so far, one line each."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("error"):
                found.append(json.dumps(event["error"]))
        return found

    def state_bytes(self) -> int:
        """What its state takes on disk."""
        return sum(file.stat().st_size for file in (self.project / ".headrace/state").rglob("*") if file.is_file())

    def kill(self) -> int:
        """SIGKILL to every process of it at once; how many there were."""
        assert self._process is not None
        killed: set[int] = set()
        while members := _session(self._process.pid):
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            self._process.poll()  # reaps the one that is our own child
            time.sleep(0.01)
        self._process.wait()
        return len(killed)

    def kill_in_a_step(self) -> tuple[int | None, int]:
        """SIGKILL while a step is recorded but not published; its number (None: it got published), and ``kill``'s."""
        unpublished = "SELECT max(number) FROM step WHERE published_us IS NULL"
        place = f"{(self.project / '.headrace' / 'catalog.db').absolute().as_uri()}?mode=ro"
        end = time.monotonic() + MIDDLE_S
        with closing(sqlite3.connect(place, uri=True, timeout=5)) as catalog:
            while catalog.execute(unpublished).fetchone()[0] is None and time.monotonic() < end:
                self.check()
                time.sleep(0.001)
        killed = self.kill()
        with closing(sqlite3.connect(place, uri=True, timeout=5)) as catalog:
            step: int | None = catalog.execute(unpublished).fetchone()[0]
        return step, killed

    def stop(self) -> int | None:
        """End it in order, or by force when it does not; its exit status, None when it never ran."""
        if self._process is None:
            return None
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        status = self._process.poll()
        self.kill()
        return self._process.returncode if status is None else status


def _session(leader: int) -> list[int]:
    """The processes, not yet ended, of the session that ``leader`` began. PySpark's workers leave its process group."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                state, _, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
            except (OSError, ValueError):
                continue  # it ended while we looked
            if int(session) == leader and state != "Z":
                found.append(int(place.name))
    return found
