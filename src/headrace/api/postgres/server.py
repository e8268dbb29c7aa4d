"""The server that speaks PostgreSQL's protocol: a thread for each connection, and a bound on how many there are."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import logging
import secrets
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from pygwire.messages import BackendKeyData, CancelRequest

from headrace.api.postgres import sqlstate
from headrace.api.postgres.reading import Reader
from headrace.api.postgres.session import Session
from headrace.api.postgres.startup import Authenticate, Began, begin
from headrace.api.postgres.wire import Gone, Malformed, Wire
from headrace.model.errors import HeadraceError
from headrace.serve.questions import Questions

STARTING = 32  # connections that have not said who they are yet; more wait to be accepted
STOP_S = 5.0  # a connection has so long to end

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """``certificate``, ``key``: PEM files, both or neither; without them TLS is not offered."""

    host: str = "127.0.0.1"
    port: int = 7432
    connections: int = 64
    memory: str = "512MB"
    certificate: Path | None = None
    key: Path | None = None


class PostgresServer:
    """Answers what ``questions`` can; ``authenticate`` None: whoever connects may read all.

    ``project``: the name that clients see as the database; ``folder``: of the project, for SUBSCRIBE.
    """

    def __init__(
        self, questions: Questions, project: str, folder: Path, options: Options, authenticate: Authenticate | None
    ) -> None:
        if authenticate is None and not _is_loopback(options.host):
            raise HeadraceError(
                "config.invalid", f"psql.host is {options.host}, and no token is asked for",
                why="whoever reaches this machine could read all", next="host: 127.0.0.1, or take tokens",
            )  # fmt: skip
        self._questions, self._project, self._folder, self._options = questions, project, folder, options
        self._authenticate = authenticate
        self._tls = _tls(options)
        self._listener: socket.socket | None = None
        self._reader: Reader | None = None
        self._lock = threading.Lock()
        self._wires: set[Wire] = set()
        self._sessions: dict[int, tuple[bytes, Session]] = {}
        self._threads: set[threading.Thread] = set()
        self._numbers = itertools.count(1)
        self._starting = threading.BoundedSemaphore(STARTING)
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

    @property
    def url(self) -> str:
        """For psql; the password is a token."""
        host, port = self.address
        return f"postgresql://{f'[{host}]' if ':' in host else host}:{port}/{self._project}"

    def start(self) -> None:
        """Listen, on a thread. Raises ``psql.port``, ``config.invalid``."""
        options = self._options
        try:
            family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
            self._listener = socket.create_server((options.host, options.port), family=family, backlog=128)
        except OSError as error:
            raise HeadraceError(
                "psql.port", f"psql cannot listen on {options.host}:{options.port}", where="headrace.yaml, psql",
                why=error.strerror or str(error), next="psql: {port: 7433}  (or another that is free)",
            ) from error  # fmt: skip
        self._reader = Reader(self._questions, self._project, options.memory)
        thread = threading.Thread(target=self._accept, args=(self._listener,), name="psql", daemon=True)
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
            self._starting.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:
                self._starting.release()
                if self._stopping:
                    return
                threading.Event().wait(0.1)  # out of file descriptors, say: it may pass
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), name="psql connection", daemon=True)
            with self._lock:
                self._threads.add(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        loopback = _is_loopback(connection.getpeername()[0]) if not self._stopping else False
        wire = Wire(connection)
        with self._lock:
            self._wires.add(wire)
        try:
            began = self._begun(wire, loopback)
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

    def _begun(self, wire: Wire, loopback: bool) -> Began | None:
        """Who is there, once it has said so in time; None when it came to cancel."""
        try:
            began = begin(wire, self._tls, loopback, self._authenticate)
        finally:
            self._starting.release()
        if isinstance(began, CancelRequest):
            self._cancel(began)
            return None
        return began

    def _run(self, wire: Wire, began: Began) -> None:
        assert self._reader is not None
        number, secret = next(self._numbers), secrets.token_bytes(4)
        session = Session(wire, self._reader, began.asker, began.parameters, number, self._folder)
        with self._lock:
            if self._stopping:
                raise HeadraceError("psql.stopped", "the server ends")
            if len(self._sessions) >= self._options.connections:
                raise HeadraceError(
                    "psql.busy", f"there are {self._options.connections} connections, and no more are taken",
                    next="end one, use a pool, or set psql.connections in headrace.yaml",
                )  # fmt: skip
            self._sessions[number] = (secret, session)
        try:
            session.greet(BackendKeyData(process_id=number, secret_key=secret))
            session.serve()
        finally:
            with self._lock:
                del self._sessions[number]

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


def _tls(options: Options) -> ssl.SSLContext | None:
    if options.certificate is None and options.key is None:
        return None
    if options.certificate is None or options.key is None:
        raise HeadraceError(
            "config.invalid", "psql needs both `certificate` and `key` for TLS", where="headrace.yaml, psql"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        raise HeadraceError(
            "config.invalid", "the certificate of psql cannot be used", where=f"{options.certificate}, {options.key}",
            why=str(error), next="PEM files of a certificate and of its key without a password",
        ) from error  # fmt: skip
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
