"""The control socket of a running project: other processes of the same user call its verbs.

``.headrace/control.sock``, mode 0600. One connection is one call: the client sends one JSON line
``{"verb": "...", "arguments": {...}}``; the answer is any number of lines ``{"progress": {...}}``, then one
line ``{"result": {...}}`` or ``{"error": {"code", "what", "where", "why", "next"}}``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.model.errors import CODES, HeadraceError

FILE = Path(".headrace") / "control.sock"
LINE_LIMIT = 16 * 2**20  # bytes of a request
CLIENTS = 64  # calls served at once, of which the process that serves has up to 40; more are told to come back
READ_S = 10.0  # a client that connects must say what it wants within this time
SEND_S = 30.0  # a client that does not read its answer is dropped after this time
AGAIN_S = 0.2  # without a descriptor or a thread for a call: it may pass
_ADDRESS_BYTES = 107  # sun_path holds 108 with its closing zero

Progress = Callable[[dict[str, Any]], None]
Handle = Callable[[str, dict[str, Any], Progress], dict[str, Any]]

_log = logging.getLogger(__name__)


class ClientGone(Exception):
    """The caller of a verb has disconnected; raised by its progress function to end the work."""


def request(
    project: Path, verb: str, arguments: Mapping[str, Any] | None = None, on_progress: Progress | None = None
) -> dict[str, Any]:
    """Call a verb of the process that runs ``project`` and wait for its result.

    Raises the verb's own ``HeadraceError``, or ``project.not_running`` when no process answers; ``config.invalid`` for
    arguments that JSON has no words for, such as an infinite number of seconds.
    """
    try:
        asked = _line({"verb": verb, "arguments": dict(arguments or {})})
    except ValueError as error:
        raise HeadraceError("config.invalid", f"`{verb}` cannot be asked so: {error}") from None
    connection = _connect(project)
    if connection is None:
        raise not_running(project)
    with connection, connection.makefile("rb") as lines:
        try:
            with contextlib.suppress(ConnectionError):  # who is turned away unread still has an answer to read
                connection.sendall(asked)
            for line in lines:
                answer = json.loads(line)
                if "progress" in answer:
                    if on_progress is not None:
                        on_progress(answer["progress"])
                elif "error" in answer:
                    raise _error(answer["error"])
                else:
                    result: dict[str, Any] = answer["result"]
                    return result
        except (ConnectionError, json.JSONDecodeError) as error:
            raise _cut_off(project, verb) from error
    raise _cut_off(project, verb)


def running(project: Path) -> bool:
    """Whether a process serves the project's control socket."""
    connection = _connect(project)
    if connection is None:
        return False
    connection.close()
    return True


def not_running(project: Path) -> HeadraceError:
    return HeadraceError(
        "project.not_running",
        "`headrace up` does not run",
        where=str(project),
        why="this command is carried out by the process that runs the project",
        next=f"headrace up --project {project}",
    )


class ControlServer:
    """Serves the control socket from its own threads. The caller holds the project's lock.

    ``handle(verb, arguments, progress)`` is called in a thread of the connection and returns what JSON can
    carry; a ``HeadraceError`` it raises goes to the client, any other exception is logged and goes as
    ``internal``. ``progress`` raises ``ClientGone`` when the client has left.
    """

    def __init__(self, project: Path, handle: Handle) -> None:
        self._path = project / FILE
        self._handle = handle
        self._slots = threading.BoundedSemaphore(CLIENTS)
        self._calls: dict[threading.Thread, socket.socket] = {}
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._accept, name="control", daemon=True)

    def start(self) -> None:
        """Bind and serve. A socket file that nobody serves is replaced; a served one is ``project.locked``."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        if running(self._path.parent.parent):
            raise HeadraceError("project.locked", "another process serves this project", where=str(self._path))
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.fchmod(listener.fileno(), 0o600)  # before bind: the file is never open to others, not for an instant
        with _address(self._path) as address:
            listener.bind(address)
        listener.listen(CLIENTS)
        self._listener = listener
        self._thread.start()

    def close(self, wait_s: float = 5.0) -> None:
        """Stop listening, let the calls that run finish for up to ``wait_s`` seconds, remove the file."""
        if self._listener is None:
            return
        self._path.unlink(missing_ok=True)
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._thread.join()
        self._listener.close()
        self._listener = None
        with self._guard:
            calls = dict(self._calls)
        for thread in calls:
            thread.join(wait_s / max(len(calls), 1))
        for connection in calls.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> ControlServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        listener = self._listener
        while listener is not None:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self._closing.wait(AGAIN_S):
                    return
                continue
            if not _same_user(connection):
                connection.close()
            elif not self._slots.acquire(blocking=False):
                _turn_away(connection, f"{CLIENTS} calls are being served")
            else:
                thread = threading.Thread(target=self._serve, args=(connection,), name="control call", daemon=True)
                with self._guard:
                    self._calls[thread] = connection
                try:
                    thread.start()
                except RuntimeError as error:
                    with self._guard:
                        del self._calls[thread]
                    self._slots.release()
                    _turn_away(connection, f"`headrace up` is out of threads: {error}")

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                connection.settimeout(READ_S)
                line = lines.readline(LINE_LIMIT + 1)
                if line:
                    connection.settimeout(SEND_S)
                    self._answer(connection, line)
        except (OSError, ClientGone):
            pass  # the client has left; nobody is there to be told
        finally:
            with self._guard:
                self._calls.pop(threading.current_thread(), None)
            self._slots.release()

    def _answer(self, connection: socket.socket, line: bytes) -> None:
        def progress(event: dict[str, Any]) -> None:
            try:
                connection.sendall(_line({"progress": event}))
            except OSError as error:
                raise ClientGone from error

        verb = "?"
        try:
            verb, arguments = _asked(line)
            answer = _line({"result": self._handle(verb, arguments, progress)})
        except HeadraceError as error:
            answer = _line({"error": error.as_dict()})
        except ClientGone:
            raise
        except Exception as error:
            _log.exception("the verb %s failed", verb)
            fault = HeadraceError("internal", f"`{verb}` failed: {type(error).__name__}: {error}")
            answer = _line({"error": fault.as_dict()})
        connection.sendall(answer)


def _turn_away(connection: socket.socket, what: str) -> None:
    with contextlib.suppress(OSError), connection:
        connection.settimeout(READ_S)
        busy = HeadraceError("project.locked", what, next="try again")
        connection.sendall(_line({"error": busy.as_dict()}))


def _asked(line: bytes) -> tuple[str, dict[str, Any]]:
    """(verb, arguments) of a request line."""
    if not line.endswith(b"\n") or len(line) > LINE_LIMIT:
        raise HeadraceError("config.invalid", f"a request is one line of at most {LINE_LIMIT:,} bytes")
    try:
        asked = json.loads(line)
        verb, arguments = asked["verb"], asked.get("arguments", {})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HeadraceError("config.invalid", 'a request is {"verb": "...", "arguments": {...}}') from error
    if not isinstance(verb, str) or not isinstance(arguments, dict):
        raise HeadraceError("config.invalid", 'a request is {"verb": "...", "arguments": {...}}')
    return verb, arguments


def _connect(project: Path) -> socket.socket | None:
    """A connection to the project's socket; None when there is none or nobody serves it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(project / FILE) as address:
            connection.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise HeadraceError(
            "project.not_running",
            "the control socket cannot be reached",
            where=str(project / FILE),
            why=error.strerror or str(error),
            next="run the command as the user that runs `headrace up`",
        ) from error
    return connection


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """A name of ``path`` that fits a socket address; a longer one goes by way of the folder's descriptor."""
    if len(os.fsencode(path)) <= _ADDRESS_BYTES:
        yield os.fspath(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def _same_user(connection: socket.socket) -> bool:
    """Whether the peer is this user or root; the file mode already says so, the kernel says it again."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", packed)
    return user in (os.getuid(), 0)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _error(parts: dict[str, str]) -> HeadraceError:
    code = parts.get("code", "internal")
    known = code if code in CODES else "internal"  # a server of another version may have other codes
    return HeadraceError(
        known,
        parts.get("what", ""),
        where=parts.get("where", ""),
        why=parts.get("why", ""),
        next=parts.get("next", ""),
    )


def _cut_off(project: Path, verb: str) -> HeadraceError:
    return HeadraceError(
        "project.not_running",
        f"`headrace up` ended while `{verb}` was at work",
        where=str(project),
        next="`headrace status`; its own output says why it ended",
    )
