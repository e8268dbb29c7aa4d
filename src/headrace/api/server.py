"""What a running project serves: its addresses, the file that tells them, and the process that answers there.

Record: docs/decisions/0029-a-process-that-serves.md.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from headrace.catalog.project import ADDRESS, FILE, STATE
from headrace.governance.access import Access
from headrace.model.definition import ApiSettings, Project
from headrace.web import tls
from headrace.web.addresses import api_listener, psql_listener

TOKEN = Path(STATE) / "tokens" / "api"
END_S = 10.0  # a process that has not ended by itself by then is ended
AGAIN_S, AGAIN_MAX_S = 1.0, 30.0  # between one that ended by itself and the next: twice as long after each
LIVED_S = 30.0  # one that has lived for so long is no start that failed
SIGN, SIGN_S = b"\0", 1.0  # of a process that is at work, and how often
HUNG_S, STARTING_S = 20.0, 120.0  # one that has given none for so long is ended; the first takes longer


class Servers:
    """What `headrace up` runs beside the pipeline. ``tell`` hears ``{"event": "api.started", "url", ...}`` and
    ``psql.started``.

    It listens from the start; the process that answers begins with the first connection: who asks nothing pays nothing.
    One that ends by a fault, or hangs, takes nothing along, and the next connection has another.
    """

    def __init__(self, project: Project, tell: Callable[[dict[str, Any]], None]) -> None:
        self._project, self._tell = project, tell
        self._api = project.settings.api if project.settings.api.enabled else None
        self._psql = project.settings.psql
        self._listeners: dict[str, socket.socket] = {}
        self._encrypted: dict[str, tls.Files | None] = {}
        self._closing, self._closed = socket.socketpair()  # what is read becomes ready once the other end is closed
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._told: dict[str, Any] = {"pid": os.getpid()}  # what ADDRESS says
        self._thread: threading.Thread | None = None
        self._ending = False

    def listen(self) -> None:
        """Before anything else starts. Raises ``api.port`` and ``psql.port`` for a port that is configured and taken,
        ``config.library``, ``config.invalid``."""
        (self._project.path / ADDRESS).unlink(missing_ok=True)  # of one that was killed
        folder = self._project.path
        hosts = {settings.host for settings in (self._api, self._psql) if settings is not None and settings.tls}
        if self._api is not None:
            self._encrypted["api"] = tls.files(folder, folder / STATE, self._api, f"{FILE}: api", hosts)
            self._listeners["api"] = api_listener(self._api, f"{FILE}: api")
        if self._psql is not None:
            self._encrypted["psql"] = tls.files(folder, folder / STATE, self._psql, f"{FILE}: psql", hosts)
            self._listeners["psql"] = psql_listener(self._psql, f"{FILE}: psql")

    def begin(self, call: object) -> None:
        """Answer. What is asked of the pipeline comes by the control socket: ``call`` is not used."""
        for settings in (self._api, self._psql):
            if settings is not None and settings.auth != "none":
                access = Access(self._project.path / STATE)
                access.tokens.owners()
                access.close()
                break
        if self._api is not None:
            self._tell_api(self._api)
        if self._psql is not None:
            url = _psql_url(self._listeners["psql"], self._project.settings.name)
            text = f"for psql: {url}" + ("" if self._psql.auth == "none" else "  a token is the password")
            self._tell({"event": "psql.started", "url": url, "text": text})
        if self._listeners:
            self._thread = threading.Thread(target=self._serve, name="headrace-serving", daemon=True)
            self._thread.start()

    def _tell_api(self, settings: ApiSettings) -> None:
        path, is_open = self._project.path, settings.auth == "none"
        scheme = "https" if self._encrypted["api"] else "http"
        url = f"{scheme}://{_host(settings.host)}:{self._listeners['api'].getsockname()[1]}"
        self._told["url"] = url
        _write(path / ADDRESS, self._told)
        where = {} if is_open else {"token_file": str(path / TOKEN)}
        text = f"the page and the API: {url}" + ("" if is_open else f"  token in {TOKEN}")
        self._tell({"event": "api.started", "url": url, **where, "text": text})

    def _serve(self) -> None:
        listeners, closed, again_s = list(self._listeners.values()), self._closed, AGAIN_S
        while closed not in select.select([*listeners, closed], [], [])[0]:
            began = time.monotonic()
            try:
                with self._lock:
                    if self._ending:
                        return
                    self._process = process = _process(self._project, self._listeners, self._encrypted)
            except OSError as error:  # no memory, say, or too many processes: it may pass
                text = f"what serves cannot begin: {error.strerror or error}"
            else:
                text = _end_of(process)
                _close_input(process)
            if self._ending:
                return
            again_s = AGAIN_S if time.monotonic() - began >= LIVED_S else again_s
            self._failed(text, again_s)
            if select.select([closed], [], [], again_s)[0]:
                return
            again_s = min(2 * again_s, AGAIN_MAX_S)

    def _failed(self, text: str, again_s: float) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._told |= {"failures": self._told.get("failures", 0) + 1, "failed_at": at, "failure": text}
        self._tell({"event": "api.failed", "text": f"{text}; it begins anew, in {again_s:g} s or later"})
        with contextlib.suppress(OSError):  # a full disk: it has been told
            _write(self._project.path / ADDRESS, self._told)

    def close(self) -> None:
        """May be called at any point, also twice."""
        with self._lock:
            self._ending = True
        self._closing.close()
        if self._process is not None:
            _end(self._process)
        if self._thread is not None:
            self._thread.join()
        (self._project.path / ADDRESS).unlink(missing_ok=True)
        for listener in self._listeners.values():
            listener.close()
        self._closed.close()
        self._listeners, self._process, self._thread = {}, None, None


def _process(
    project: Project, listeners: dict[str, socket.socket], encrypted: dict[str, tls.Files | None]
) -> subprocess.Popen[bytes]:
    """``headrace.api.serving``: it has the listeners, ends with its standard input, and gives signs of life."""
    numbers = {name: listener.fileno() for name, listener in listeners.items()}
    settings = project.settings
    told = {
        "path": str(project.path), "name": settings.name, "listeners": numbers, "api": asdict(settings.api),
        "query_seconds": settings.query_seconds,
        "psql": None if settings.psql is None else asdict(settings.psql),
        "encrypted": {name: files and [str(path) for path in files] for name, files in encrypted.items()},
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace.api.serving"],  # -P: nothing is imported from the folder it begins in
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=tuple(numbers.values()),
    )  # fmt: skip
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended already, and is seen to have
        process.stdin.write(orjson.dumps(told) + b"\n")
        process.stdin.flush()
    return process


def _end_of(process: subprocess.Popen[bytes]) -> str:
    """How it has ended; one that gives no sign of life is ended.

    Time is counted by looks in vain: where all of it was stopped for a while, this one has not looked either.
    """
    assert process.stdout is not None
    silent_s, bound_s, why = 0.0, STARTING_S, b""
    with process.stdout as signs:
        while silent_s < bound_s:
            if not select.select([signs], [], [], SIGN_S)[0]:
                silent_s += SIGN_S
            elif said := os.read(signs.fileno(), 4096):
                silent_s, bound_s, why = 0.0, HUNG_S, said.replace(SIGN, b"")
            else:
                status = process.wait()
                return f"what serves has ended{f': {why.decode()}' if why else f' with exit status {status}'}"
    process.kill()
    process.wait()
    return f"what serves has not answered for {bound_s:g} s and was ended"


def _end(process: subprocess.Popen[bytes]) -> None:
    _close_input(process)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def _host(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)


def _psql_url(listener: socket.socket, name: str) -> str:
    """For psql; the password is a token."""
    host, port = listener.getsockname()[:2]
    return f"postgresql://{f'[{host}]' if ':' in host else host}:{port}/{quote(name, safe='')}"


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, for its owner."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_bytes(orjson.dumps(content))
    partial.replace(path)
