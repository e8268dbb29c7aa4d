"""The API beside a running project: its address, its thread, and the file that tells where it is."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from headrace.catalog.project import FILE, STATE
from headrace.governance.kept import kept_token
from headrace.model.definition import ApiSettings, Project
from headrace.model.errors import HeadraceError
from headrace.web.listening import hosts, listen

if TYPE_CHECKING:
    from headrace.api.project import Call
    from headrace.serve.live import Live
    from headrace.serve.questions import Questions
    from headrace.web.server import ServerThread

PORT = 7070
TOKEN = Path(STATE) / "tokens" / "api"
ADDRESS = Path(STATE) / "api.json"


class ApiServer:
    """What `headrace up` runs beside the pipeline. ``tell`` hears ``{"event": "api.started", "url", ...}``."""

    def __init__(self, project: Project, tell: Callable[[dict[str, Any]], None]) -> None:
        self._project, self._settings, self._tell = project, project.settings.api, tell
        self._listener: socket.socket | None = None
        self._server: ServerThread | None = None
        self._live: Live | None = None
        self._questions: Questions | None = None

    def listen(self) -> None:
        """Before anything else starts: raises ``api.port`` when the port that is configured is taken."""
        self._listener = _listener(self._settings)

    def begin(self, call: Call) -> None:
        """Answer, with the verbs that ``call`` carries out. FastAPI is loaded here: the project runs by now."""
        from headrace.api.app import make_app
        from headrace.api.bells import Bells
        from headrace.api.project import Served
        from headrace.api.who import Access, Anyone, Gate, OwnersToken
        from headrace.serve.live import Live
        from headrace.serve.mirror import Mirror
        from headrace.serve.questions import Questions
        from headrace.web.server import ServerThread

        assert self._listener is not None
        path, bells = self._project.path, Bells()
        names = hosts(self._settings.host) if self._settings.auth == "none" else None
        access: Access = Anyone() if names else OwnersToken(kept_token(path / TOKEN))
        self._questions = Questions(Mirror(path), self._settings.memory)
        self._live = Live(path, self._questions.mirror, bells.ring)
        served = Served(path, call, self._questions, self._live, bells, Gate(access, names))
        self._server = ServerThread(make_app(served), self._listener, "headrace-api")
        url = _url(self._settings.host, self._server.port)
        _write(path / ADDRESS, {"url": url, "pid": os.getpid()})
        token = {} if names else {"token_file": str(path / TOKEN)}
        text = f"the page and the API: {url}" + ("" if names else f"  token in {TOKEN}")
        self._tell({"event": "api.started", "url": url, **token, "text": text})

    def close(self) -> None:
        """May be called at any point, also twice."""
        (self._project.path / ADDRESS).unlink(missing_ok=True)
        if self._live is not None:
            self._live.end()
        if self._server is not None:
            self._server.close()
        elif self._listener is not None:
            self._listener.close()
        if self._live is not None:
            self._live.close()
        if self._questions is not None:
            self._questions.close()
        self._listener = self._server = self._live = self._questions = None


def _listener(settings: ApiSettings) -> socket.socket:
    where, port = f"{FILE}: api.port", PORT if settings.port is None else settings.port
    other = f"stop it, or set another port: api: {{port: {port + 1 if 0 < port < 65535 else PORT}}}"
    if settings.port is None:
        with contextlib.suppress(HeadraceError):  # another project has it: nothing is configured, so any other will do
            return listen(settings.host, PORT, where, code="api.port", next=other)
        port = 0
    return listen(settings.host, port, where, code="api.port", next=other)


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, for its owner."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_bytes(orjson.dumps(content))
    partial.replace(path)
