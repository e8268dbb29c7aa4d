"""One client's socket as messages: pygwire decodes, and what a client may make the process hold is bounded here."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time

from pygwire import ConnectionPhase, FrontendMessageDecoder, PygwireError
from pygwire.messages import PGMessage

STARTUP_BYTES = 10_000  # of the first message, as in PostgreSQL
MESSAGE_BYTES = 16 << 20  # of any other: statements and parameters
SEND_BYTES = 256 << 10  # are collected before they are sent
SEND_S = 60.0  # a client that takes nothing for so long is dropped
IDLE_S, PROBE_S, PROBES = 60, 10, 6  # a client that says nothing for so long is asked so often whether it is there
_KEEP_IDLE = getattr(socket, "TCP_KEEPIDLE", 0x10)  # macOS has another name for it
REST_S = 60.0  # a message that has begun must be whole within this time
_HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
_PASSED_OVER = b"dcf"  # data of a COPY FROM that was refused: sent before the client heard of it


class Gone(Exception):
    """The client has closed the connection, or takes nothing any more."""


class Malformed(Exception):
    """What came is not a message of the protocol: the connection cannot go on."""


class Wire:
    """Reads whole messages, writes collected ones. One thread uses it; ``close`` and ``end`` may come from any."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._decoder = FrontendMessageDecoder()
        self._out = bytearray()
        self.address = ""  # of the client; one that has gone already has none
        with contextlib.suppress(OSError):
            self.address = str(connection.getpeername()[0])
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in ((_KEEP_IDLE, IDLE_S), (socket.TCP_KEEPINTVL, PROBE_S), (socket.TCP_KEEPCNT, PROBES)):
                connection.setsockopt(socket.IPPROTO_TCP, option, value)

    @property
    def encrypted(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket)

    def encrypt(self, context: ssl.SSLContext, seconds: float) -> None:
        """TLS from here on. Raises ``Gone``."""
        try:
            self._socket.settimeout(seconds)
            self._socket = encrypted = context.wrap_socket(
                self._socket, server_side=True, do_handshake_on_connect=False
            )  # at hand for ``end`` before the handshake
            encrypted.do_handshake()
        except (OSError, ValueError) as error:
            raise Gone from error

    def read_startup(self, seconds: float) -> PGMessage:
        """The first message of a connection, or the one after a refused or granted request. Raises as ``read``."""
        self._decoder.phase = ConnectionPhase.STARTUP
        end = time.monotonic() + seconds
        head = self._take(4, end)
        (length,) = struct.unpack("!I", head)
        if not 8 <= length <= STARTUP_BYTES:
            raise Malformed(f"a first message of {length} bytes")
        return self._decoded(head + self._take(length - 4, end))

    def read_password(self, seconds: float) -> PGMessage:
        self._decoder.phase = ConnectionPhase.AUTHENTICATING
        frame = self._framed(seconds, STARTUP_BYTES)
        if b"\0" in frame[5:-1]:  # only what stands before it would be compared
            raise Malformed("a password with a zero byte in it")
        return self._decoded(frame)

    def read(self, seconds: float | None) -> PGMessage:
        """The next message; what was collected is sent first if there is none yet.

        Raises ``Gone``, ``Malformed``, and ``TimeoutError`` when none begins within that time.
        """
        self._decoder.phase = ConnectionPhase.READY
        return self._decoded(self._framed(seconds, MESSAGE_BYTES))

    def write(self, *messages: PGMessage | bytes) -> None:
        """Collect messages to send. Raises ``Gone``."""
        for message in messages:
            self._out += message if isinstance(message, bytes) else message.to_wire()
        if len(self._out) >= SEND_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was collected. Raises ``Gone``."""
        if not self._out:
            return
        left, self._out = memoryview(self._out), bytearray()
        try:
            self._socket.settimeout(SEND_S)
            while left:  # each of them has that time: who takes some of it is there
                left = left[self._socket.send(left) :]
        except OSError as error:
            raise Gone from error

    def closed(self) -> bool:
        """Whether the client has gone; what it has sent stays to be read."""
        try:
            asked = select.poll()
            asked.register(self._socket, _HUNG_UP)
            return bool(asked.poll(0))
        except (OSError, ValueError):
            return True

    def end(self) -> None:
        """From another thread: who reads or writes gets ``Gone``, and closes it."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # that of TLS would take its state from the reader

    def close(self) -> None:
        """End the connection; whoever reads from it or writes to it gets ``Gone``."""
        with contextlib.suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _framed(self, seconds: float | None, most: int) -> bytes:
        while True:
            head = self._take(1, None if seconds is None else time.monotonic() + seconds)
            end = time.monotonic() + REST_S
            head += self._take(4, end)
            (length,) = struct.unpack("!I", head[1:])
            if not 4 <= length <= most:
                raise Malformed(f"a message of {length:,} bytes; at most {most:,} are taken")
            body = self._take(length - 4, end)
            if head[0] not in _PASSED_OVER:
                return head + body

    def _decoded(self, frame: bytes) -> PGMessage:
        self._decoder.clear()
        self._decoder.feed(frame)
        try:
            return next(self._decoder)
        except (PygwireError, IndexError, ValueError, StopIteration) as error:
            raise Malformed(str(error) or "a message that is cut off") from error

    def _take(self, count: int, end: float | None) -> bytes:
        taken = bytearray()
        try:
            while len(taken) < count:
                if self._out:
                    self.flush()
                self._socket.settimeout(None if end is None else max(end - time.monotonic(), 0.001))
                part = self._socket.recv(min(count - len(taken), SEND_BYTES))
                if not part:
                    raise Gone
                taken += part
        except TimeoutError:
            raise
        except (OSError, ValueError) as error:
            raise Gone from error
        return bytes(taken)
