"""The server that speaks PostgreSQL's protocol: a thread for each connection, and a bound on how many there are."""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from pygwire.messages import BackendKeyData, CancelRequest

from headrace.api.descriptors import STARTING
from headrace.api.postgres import sqlstate
from headrace.api.postgres.defining import Defining
from headrace.api.postgres.reading import Reader
from headrace.api.postgres.session import Session
from headrace.api.postgres.startup import Authenticate, Began, begin
from headrace.api.postgres.wire import Gone, Malformed, Wire
from headrace.model.definition import PsqlSettings
from headrace.model.errors import HeadraceError
from headrace.serve.places import Full, Places
from headrace.serve.questions import Questions

OTHERS = 8  # one in so many connections is left for other tokens than the one that has the rest
STOP_S = 5.0  # a connection has so long to end
AGAIN_S = 0.1  # before another try, where there was nothing left to take a connection with

_log = logging.getLogger(__name__)


class PostgresServer:
    """Answers what ``questions`` can; ``authenticate`` None: whoever connects may do all.

    ``project``: the name that clients see as the database; ``folder``: of the project, for SUBSCRIBE; ``encrypted``:
    what connections are encrypted with that ask for it.
    """

    def __init__(
        self, questions: Questions, project: str, folder: Path, settings: PsqlSettings,
        authenticate: Authenticate | None, encrypted: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._questions, self._project, self._folder, self._settings = questions, project, folder, settings
        self._authenticate = authenticate
        self._tls = encrypted
        self._listener: socket.socket | None = None
        self._defining: Defining | None = None
        self._reader: Reader | None = None
        self._lock = threading.Lock()
        self._wires: set[Wire] = set()
        self._sessions: dict[int, tuple[bytes, Session]] = {}
        self._threads: set[threading.Thread] = set()
        self._numbers = itertools.count(1)
        self._starting = threading.BoundedSemaphore(STARTING)
        self._beginning: dict[Wire, None] = {}  # that have not said who they are, oldest first
        self._places = Places(settings.connections, settings.connections - settings.connections // OTHERS)
        self._stopping = False

    @property
    def address(self) -> tuple[str, int]:
        assert self._listener is not None
        host, port = self._listener.getsockname()[:2]
        return host, port

    @property
    def connections(self) -> int:
        """How many there are that have said who they are."""
        with self._lock:
            return len(self._sessions)

    def start(self, listener: socket.socket, defining: Defining) -> None:
        """Answer who connects there, on threads. DuckDB begins with the first of them."""
        self._listener, self._defining = listener, defining
        thread = threading.Thread(target=self._accept, args=(listener,), name="psql", daemon=True)
        self._threads.add(thread)
        thread.start()

    def stop(self) -> None:
        """End all connections."""
        self._stopping = True
        if self._listener is not None:
            with contextlib.suppress(OSError):  # where a listener cannot be shut down, closing it is enough
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        with self._lock:
            sessions, wires = [session for _, session in self._sessions.values()], list(self._wires)
        for session in sessions:
            session.stop()
        for wire in wires:
            wire.close()
        for thread in list(self._threads):
            thread.join(STOP_S)
        if self._reader is not None:
            self._reader.close()

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self._stopping:
                    return
                threading.Event().wait(AGAIN_S)  # out of file descriptors, say: it may pass
                continue
            self._make_room()
            wire = Wire(connection)
            thread = threading.Thread(target=self._serve, args=(wire,), name="psql connection", daemon=True)
            with self._lock:
                self._threads.add(thread)
                self._wires.add(wire)
                self._beginning[wire] = None
            try:
                thread.start()
            except RuntimeError as error:  # out of threads: it may pass as well
                _log.warning("psql: a connection is not taken: %s", error)
                wire.close()
                self._has_begun(wire)
                with self._lock:
                    self._threads.discard(thread)
                    self._wires.discard(wire)
                threading.Event().wait(AGAIN_S)

    def _make_room(self) -> None:
        """Take a place for one that begins; where all are taken those that have been at it longest are ended."""
        wait_s = 0.0
        while not self._starting.acquire(timeout=wait_s):
            with self._lock:
                oldest = next(iter(self._beginning), None)
                if oldest is not None:
                    del self._beginning[oldest]
            if oldest is not None:
                oldest.end()
            wait_s = AGAIN_S

    def _has_begun(self, wire: Wire) -> None:
        with self._lock:
            self._beginning.pop(wire, None)
        self._starting.release()

    def _serve(self, wire: Wire) -> None:
        try:
            began = self._begun(wire)
            if began is not None:
                self._run(wire, began)
        except (Gone, TimeoutError):
            pass
        except Malformed as error:
            self._tell(wire, HeadraceError("psql.protocol", str(error)))
        except HeadraceError as error:
            self._tell(wire, error)
        except Exception as error:
            _log.exception("psql: a connection failed")
            self._tell(wire, error)
        finally:
            wire.close()
            with self._lock:
                self._wires.discard(wire)
                self._threads.discard(threading.current_thread())

    def _begun(self, wire: Wire) -> Began | None:
        """Who is there, once it has said so in time; None when it came to cancel."""
        try:
            began = begin(wire, self._tls, wire.address, self._authenticate)
        finally:
            self._has_begun(wire)
        if isinstance(began, CancelRequest):
            self._cancel(began)
            return None
        return began

    def _run(self, wire: Wire, began: Began) -> None:
        number, secret = next(self._numbers), secrets.token_bytes(4)
        assert self._defining is not None
        asker, parameters = began.asker, began.parameters
        session = Session(wire, self._read(), asker, parameters, number, self._folder, self._defining)
        with self._place(asker.principal().token or None):
            with self._lock:
                if self._stopping:
                    raise HeadraceError("psql.stopped", "the server ends")
                self._sessions[number] = (secret, session)
            try:
                session.greet(BackendKeyData(process_id=number, secret_key=secret))
                session.serve()
            finally:
                with self._lock:
                    del self._sessions[number]

    @contextlib.contextmanager
    def _place(self, token: str | None) -> Iterator[None]:
        """Of a connection. Raises ``psql.busy``."""
        try:
            with self._places.one(token):
                yield
        except Full as full:
            many, whose = (self._places.of_one, " by this token") if full.of_one else (self._places.most, "")
            raise HeadraceError(
                "psql.busy", f"there are {many} connections{whose}, and no more are taken",
                next="end one, use a pool, or set psql.connections in headrace.yaml",
            ) from None  # fmt: skip

    def _read(self) -> Reader:
        with self._lock:
            if self._reader is None:
                self._reader = Reader(self._questions, self._project, self._settings.memory)
            return self._reader

    def _cancel(self, request: CancelRequest) -> None:
        """Only who knows the secret ends another's statement; nobody learns whether it did."""
        with self._lock:
            secret, session = self._sessions.get(request.process_id, (b"", None))
        if session is not None and secrets.compare_digest(secret, request.secret_key):
            session.cancel()

    def _tell(self, wire: Wire, error: Exception) -> None:
        with contextlib.suppress(Gone):
            wire.write(sqlstate.response(error, "FATAL"))
            wire.flush()
