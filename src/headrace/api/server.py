"""The API beside a running project: its address, its thread, and the file that tells where it is."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from headrace.catalog.project import FILE, STATE
from headrace.governance.access import Access
from headrace.model.definition import ApiSettings, Project
from headrace.model.errors import HeadraceError
from headrace.web.listening import hosts, listen

if TYPE_CHECKING:
    from headrace.api.project import Call

PORT = 7070
SWITCH_S = 0.0005  # an answer passes between threads, and would wait ten times as long for the engine's at each
SEND_BYTES = 128 << 10  # a thousand who follow views and stand still are to cost little
TOKEN = Path(STATE) / "tokens" / "api"
ADDRESS = Path(STATE) / "api.json"


class ApiServer:
    """What `headrace up` runs beside the pipeline. ``tell`` hears ``{"event": "api.started", "url", ...}``.

    It listens from the start, and loads FastAPI and DuckDB with the first request: who asks nothing pays nothing.
    """

    def __init__(self, project: Project, tell: Callable[[dict[str, Any]], None]) -> None:
        self._project, self._settings, self._tell = project, project.settings.api, tell
        self._listener: socket.socket | None = None
        self._closing, self._closed = socket.socketpair()  # what is read becomes ready once the other end is closed
        self._thread: threading.Thread | None = None
        self._answering: _Answering | None = None
        self._access: Access | None = None

    def listen(self) -> None:
        """Before anything else starts: raises ``api.port`` when the port that is configured is taken."""
        (self._project.path / ADDRESS).unlink(missing_ok=True)  # of one that was killed
        self._listener = _listener(self._settings)

    def begin(self, call: Call) -> None:
        """Answer, with the verbs that ``call`` carries out."""
        assert self._listener is not None
        path, is_open = self._project.path, self._settings.auth == "none"
        self._access = access = Access(path / STATE)
        if not is_open:
            access.tokens.owners()
        url = _url(self._settings.host, self._listener.getsockname()[1])
        _write(path / ADDRESS, {"url": url, "pid": os.getpid()})
        self._thread = threading.Thread(target=self._wait, args=(self._listener, call, access), daemon=True)
        self._thread.start()
        where = {} if is_open else {"token_file": str(path / TOKEN)}
        text = f"the page and the API: {url}" + ("" if is_open else f"  token in {TOKEN}")
        self._tell({"event": "api.started", "url": url, **where, "text": text})

    def _wait(self, listener: socket.socket, call: Call, access: Access) -> None:
        if listener in select.select([listener, self._closed], [], [])[0]:
            try:
                self._answering = _Answering(self._project, listener, call, access)
            except Exception as error:  # the project goes on without it
                listener.close()
                self._tell({"event": "api.failed", "text": f"the API failed to start: {error}"})

    def close(self) -> None:
        """May be called at any point, also twice."""
        (self._project.path / ADDRESS).unlink(missing_ok=True)
        self._closing.close()
        if self._thread is not None:
            self._thread.join()
        if self._answering is not None:
            self._answering.close()
        elif self._listener is not None:
            self._listener.close()
        if self._access is not None:
            self._access.close()
        self._closed.close()
        self._answering = self._thread = self._listener = self._access = None


class _Answering:
    """The server at work, and all that it reads by."""

    def __init__(self, project: Project, listener: socket.socket, call: Call, access: Access) -> None:
        from headrace.api.app import make_app
        from headrace.api.bells import Bells
        from headrace.api.project import Served
        from headrace.api.who import Gate
        from headrace.serve.live import Live
        from headrace.serve.mirror import Mirror
        from headrace.serve.questions import Questions
        from headrace.web.server import ServerThread

        sys.setswitchinterval(SWITCH_S)
        settings, bells = project.settings.api, Bells()
        gate = Gate(access, hosts(settings.host) if settings.auth == "none" else None)
        self._questions = Questions(Mirror(project.path), settings.memory)
        self._live = Live(project.path, self._questions.mirror, bells.ring)
        served = Served(project.path, call, self._questions, self._live, bells, gate)
        self._server = ServerThread(make_app(served), listener, "headrace-api")

    def close(self) -> None:
        self._live.end()
        self._server.close()
        self._live.close()
        self._questions.close()


def _listener(settings: ApiSettings) -> socket.socket:
    where, port = f"{FILE}: api.port", PORT if settings.port is None else settings.port
    other = f"stop it, or set another port: api: {{port: {port + 1 if 0 < port < 65535 else PORT}}}"
    if settings.port is None:
        with contextlib.suppress(HeadraceError):  # another project has it: nothing is configured, so any other will do
            return listen(settings.host, PORT, where, code="api.port", next=other, send_bytes=SEND_BYTES)
        port = 0
    return listen(settings.host, port, where, code="api.port", next=other, send_bytes=SEND_BYTES)


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, for its owner."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_bytes(orjson.dumps(content))
    partial.replace(path)
