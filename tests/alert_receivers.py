"""Real receivers for the sinks that tell of changes: an HTTP server and a mail server, which misbehave as they are told.

Each listens on 127.0.0.1, on a port of its own, and keeps what it was sent in the order in which it came.
"""

from __future__ import annotations

import base64
import json
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

HANG_UP = "hang up"  # instead of an answer: the request was read, the connection is closed
SILENT = "silent"  # nothing is answered for some seconds
TRICKLE = "trickle"  # an answer that comes byte by byte and never ends


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def told(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class HookReceiver:
    """``answers`` are given in turn, then ``usual``: a status, (status, headers, text), or one of the words above."""

    def __init__(self, tls: ssl.SSLContext | None = None, usual: Any = 204) -> None:
        self.requests: list[Request] = []
        self.answers: deque[Any] = deque()
        self.usual = usual
        self.connections = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                receiver.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if len(body) < int(self.headers["Content-Length"]):
                    self.close_connection = True  # killed while it sent
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append(Request(self.path, headers, body))
                answer = receiver.answers.popleft() if receiver.answers else receiver.usual
                self.answer(answer)

            def answer(self, answer: Any) -> None:
                if answer == HANG_UP:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                elif answer == SILENT:
                    time.sleep(3)
                    self.close_connection = True
                elif answer == TRICKLE:
                    with suppress(OSError):
                        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                        for _ in range(100):
                            self.wfile.write(b"X: y\r\n")
                            time.sleep(0.05)
                    self.close_connection = True
                else:
                    status, headers, text = (answer, {}, "") if isinstance(answer, int) else answer
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text.encode())))
                    self.end_headers()
                    self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 50

            def handle_error(self, *_: Any) -> None: ...  # a client that breaks off is what is tested

        self.server = Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.scheme, self.port = "https" if tls else "http", self.server.server_port
        self.url = f"{self.scheme}://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def told(self) -> list[dict[str, Any]]:
        return [request.told for request in self.requests]


@dataclass(frozen=True)
class Mail:
    sender: str
    to: tuple[str, ...]
    raw: bytes
    user: str | None
    secure: bool

    @property
    def message(self) -> EmailMessage:
        made: Any = message_from_bytes(self.raw, policy=policy.default)
        return made

    @property
    def text(self) -> str:
        part = self.message.get_body(("plain",))
        assert part is not None
        return str(part.get_content()).replace("\r\n", "\n")


class MailServer:
    """As much of SMTP (RFC 5321) as a sender meets: EHLO, STARTTLS, AUTH PLAIN, MAIL, RCPT, DATA, RSET, QUIT.

    ``answers`` are given in turn to DATA (a code and text, or ``HANG_UP``, with which the mail is kept all the same);
    ``refuses``: recipient -> answer. ``users`` must log in.
    """

    def __init__(
        self,
        users: dict[str, str] | None = None,
        starttls: ssl.SSLContext | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.mails: list[Mail] = []
        self.answers: deque[str] = deque()
        self.refuses: dict[str, str] = {}
        self.users, self.starttls, self.tls = users, starttls, tls
        self.connections = 0
        receiver = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                receiver.connections += 1
                dialogue = Dialogue(receiver, self.request)
                with suppress(OSError), closing(dialogue):
                    dialogue.run()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: Any) -> None: ...

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class Dialogue:
    """One connection."""

    def __init__(self, server: MailServer, connection: socket.socket) -> None:
        self.server, self.connection, self.secure = server, connection, False
        self.user: str | None = None

    def secured(self, context: ssl.SSLContext) -> None:
        self.connection = context.wrap_socket(self.connection, server_side=True, do_handshake_on_connect=False)
        self.connection.do_handshake()
        self.secure = True

    def close(self) -> None:
        self.connection.close()

    def say(self, text: str) -> None:
        self.connection.sendall(text.encode() + b"\r\n")

    def run(self) -> None:
        if self.server.tls is not None:
            self.secured(self.server.tls)
        self.file = self.connection.makefile("rb")
        self.say("220 mail.test ESMTP")
        sender, to = "", list[str]()
        while line := self.file.readline():
            verb, _, rest = line.decode().strip().partition(" ")
            match verb.upper():
                case "EHLO":
                    more = ["STARTTLS"] if self.server.starttls and not self.secure else []
                    more += ["AUTH PLAIN"] if self.server.users else []
                    lines = ["mail.test", *more, "8BITMIME"]
                    for name in lines[:-1]:
                        self.say(f"250-{name}")
                    self.say(f"250 {lines[-1]}")
                case "STARTTLS":
                    self.say("220 go ahead")
                    assert self.server.starttls is not None
                    self.secured(self.server.starttls)
                    self.file = self.connection.makefile("rb")
                case "AUTH":
                    self.login(rest.split()[-1])
                case "MAIL" if self.server.users and self.user is None:
                    self.say("530 5.7.0 Authentication required")
                case "MAIL":
                    sender, to = _inside(rest), []
                    self.say("250 ok")
                case "RCPT":
                    refused = self.server.refuses.get(_inside(rest))
                    to += [] if refused else [_inside(rest)]
                    self.say(refused or "250 ok")
                case "DATA":
                    self.say("354 go on")
                    self.taken(sender, to)
                case "QUIT":
                    self.say("221 bye")
                    return
                case _:
                    self.say("250 ok")

    def login(self, given: str) -> None:
        _, user, password = base64.b64decode(given).decode().split("\0")
        if (self.server.users or {}).get(user) == password:
            self.user = user
            self.say("235 welcome")
        else:
            self.say("535 5.7.8 no such user or password")

    def taken(self, sender: str, to: Iterable[str]) -> None:
        lines = list[bytes]()
        while (line := self.file.readline()) != b".\r\n":
            if not line:
                return
            lines.append(line[1:] if line.startswith(b".") else line)
        answer = self.server.answers.popleft() if self.server.answers else "250 taken"
        if answer.startswith("250") or answer == HANG_UP:
            self.server.mails.append(Mail(sender, tuple(to), b"".join(lines), self.user, self.secure))
        if answer == HANG_UP:
            self.connection.shutdown(socket.SHUT_RDWR)
            raise OSError
        self.say(answer)


def _inside(text: str) -> str:
    return text.partition("<")[2].partition(">")[0]


def certified(folder: Path, name: str) -> ssl.SSLContext:
    """A server's TLS, by a certificate for ``name`` (a host or an address); ``ca.crt`` in the folder signed it."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    if not (folder / "ca.crt").exists():
        authority = ["-subj", "/CN=ca", "-addext", "basicConstraints=critical,CA:TRUE"]
        openssl(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
            *authority,
        )
    openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server"
    )
    kind = "IP" if name[0].isdigit() else "DNS"
    (folder / "names").write_text(f"subjectAltName={kind}:{name}\n")
    signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl("x509", "-req", "-in", "server.csr", *signed, "-out", "server.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


def contents(told: Iterable[dict[str, Any]]) -> dict[str, Counter[str]]:
    """View -> its rows as JSON, after all that a receiver was told; what came twice counts once, by its id."""
    found: dict[str, Counter[str]] = {}
    for message in told:
        rows = found.setdefault(message["view"], Counter())
        rows.update(_json(row) for row in message["entered"])
        rows.subtract(_json(row) for row in message["left"])
        for change in message.get("changed", ()):
            rows.subtract([_json(change["before"])])
            rows.update([_json(change["after"])])
    return {view: Counter({row: n for row, n in rows.items() if n}) for view, rows in found.items()}


def once(requests: Iterable[Request]) -> list[dict[str, Any]]:
    """What a receiver that drops repeats has been told; the same id must always say the same."""
    seen: dict[str, bytes] = {}
    for request in requests:
        assert seen.setdefault(request.id, request.body) == request.body
    return [json.loads(body) for body in seen.values()]


def _json(row: Any) -> str:
    return json.dumps(row, sort_keys=True)
