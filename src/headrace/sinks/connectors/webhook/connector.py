"""The webhook sink: each message is a signed POST request, sent again until the receiver takes or refuses it."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from headrace.formats.options import validate
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, WARNING, Finding
from headrace.sinks.alerts.outbox import Letter, Outbox
from headrace.sinks.alerts.sink import Again, AlertSink, Refused
from headrace.sinks.connectors.webhook.addresses import reachable
from headrace.sinks.connectors.webhook.config import Address, WebhookOptions, address, headers
from headrace.sinks.connectors.webhook.signature import keys, signed

AGAIN = (408, 409, 425, 429)  # of the refusals those that pass
REUSED_S = 5.0  # a connection that was idle for longer is likely closed at the other end
AFTER_S_MAX = 86_400.0
ANSWER_BYTES_MAX = 1 << 16
SHOWN_MAX = 200  # characters of an answer that a reason repeats


class WebhookSink(AlertSink):
    """Options: see ``WebhookOptions``. ``base``: the project's folder; ``log``: the id of its log."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        keys: Mapping[str, tuple[str, ...]],
        where: str = "",
        project: str = "headrace",
        *,
        base: Path | None = None,
        log: str = "",
    ) -> None:
        self._options = validate(WebhookOptions, options, where)
        super().__init__(name, self._options, keys, where, project, base, log)
        if not self._options.url.startswith(("env:", "file:")):
            address(self._options, where)
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    def send(self, letter: Letter, outbox: Outbox) -> None:
        """One request. Also raises ``sink.gone``, ``config.secret``, ``config.invalid``."""
        to = address(self._options, self._where)
        body, *more = outbox.bodies(letter)
        if more:
            raise Refused("a sink of another type, before this one, made one letter of several messages")
        given = {
            **headers(self._options, self._where),
            **signed(keys(self._options.secret, self._where), letter.id, int(time.time()), body),
            "Content-Type": "application/json",
            "User-Agent": "headrace",
        }
        status, after, answer = self._asked(to, given, body)
        if 200 <= status < 300:
            return
        said = f"HTTP {status}" + (f": {answer}" if answer else "")
        if status == 410:
            raise HeadraceError(
                "sink.gone",
                f"{to.shown} is told nothing any more",
                where=self._where,
                why="it answered HTTP 410 Gone",
                next="name another `url` and restart, or remove the sink's file; what waits stays in its outbox",
            )
        if 400 <= status < 500 and status not in AGAIN:
            raise Refused(said)
        hint = "name the address that it redirects to as the `url`" if 300 <= status < 400 else ""
        raise Again(
            HeadraceError("sink.refused", f"{to.shown} did not take it", where=self._where, why=said, next=hint),
            _after_s(after),
        )

    def examine(self) -> Iterator[Finding]:
        """Looks the host up and connects, with TLS; sends nothing."""
        to = address(self._options, self._where)
        keys(self._options.secret, self._where)
        headers(self._options, self._where)
        yield Finding(OK, "the secret has the form of Standard Webhooks")
        if any(not secret.startswith(("env:", "file:")) for secret in self._options.secret):
            yield Finding(WARNING, "the secret stands in the sink's file", "secret: env:NAME, or file:PATH")
        try:
            self._connect(to)
        except Again as again:
            raise again.error from again
        finally:
            self._disconnect()
        yield Finding(OK, f"connects to {to.shown}")

    def rest(self) -> None:
        if time.monotonic() - self._used > REUSED_S:
            self._disconnect()

    def close(self) -> None:
        self._disconnect()
        super().close()

    # -- one request

    def _asked(self, to: Address, given: Mapping[str, str], body: bytes) -> tuple[int, str, str]:
        """(status, Retry-After, what the answer says). Raises ``Again``."""
        while True:
            reused = self._connection is not None
            connection = self._connection or self._connect(to)
            try:
                with self._deadline(connection):
                    connection.request("POST", to.target, body, dict(given))
                    response = connection.getresponse()
                    answer = response.read(ANSWER_BYTES_MAX)
                    whole = response.isclosed()
            except (OSError, http.client.HTTPException) as error:
                self._disconnect()
                if reused and isinstance(error, ConnectionError):
                    continue  # closed while it was idle
                raise self._unreached(to, error) from error
            self._used = time.monotonic()
            if not whole or connection.sock is None:
                self._disconnect()
            return response.status, response.headers.get("Retry-After", ""), _readable(answer)

    def _connect(self, to: Address) -> http.client.HTTPConnection:
        """To one of the addresses that were looked at, so that no other look-up can lead elsewhere."""
        tls = self.tls() if to.secure else None
        numbers = reachable(to, self._options.allow, self._where)
        made = http.client.HTTPConnection(to.host, to.port)
        failed: OSError = OSError("it has no address")
        for number in numbers:
            try:
                plain = socket.create_connection((number, to.port), self._options.timeout_s)
            except OSError as error:
                failed = error
                continue
            try:
                made.sock = plain if tls is None else tls.wrap_socket(plain, server_hostname=to.host)
            except OSError as error:
                plain.close()
                raise self._unreached(to, error) from error
            made.default_port = 443 if to.secure else 80
            made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.auto_open = 0  # it would look the host up itself
            self._connection = made
            return made
        raise self._unreached(to, failed) from failed

    @contextmanager
    def _deadline(self, connection: http.client.HTTPConnection) -> Iterator[None]:
        """The whole of a request is bounded, however slowly its answer trickles in."""
        late, used = threading.Event(), connection.sock  # which an answer that ends the connection takes away

        def end() -> None:
            late.set()
            with suppress(OSError):
                used.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(self._options.timeout_s, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            if late.is_set():
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()
        if late.is_set():  # what was read until then may be cut off
            raise TimeoutError

    def _unreached(self, to: Address, error: Exception) -> Again:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, TimeoutError):
            why = f"there was no answer within {self._options.timeout_s:g} s"
        elif isinstance(error, ssl.SSLCertVerificationError):
            why = f"its certificate is not good: {error.verify_message}"
        next = "`ca: FILE` names certificates of your own" if isinstance(error, ssl.SSLCertVerificationError) else ""
        return Again(
            HeadraceError("sink.connect", f"{to.shown} cannot be reached", where=self._where, why=why, next=next)
        )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _after_s(text: str) -> float | None:
    """Seconds of a Retry-After, a number or a date; None: it says nothing."""
    if re.fullmatch(r"\d{1,9}", text.strip()):
        return min(float(text), AFTER_S_MAX)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return min(max(at.replace(tzinfo=at.tzinfo or UTC).timestamp() - time.time(), 0.0), AFTER_S_MAX)


def _readable(answer: bytes) -> str:
    """The beginning of an answer as one printable line, which ends in "…" where more follows."""
    text = " ".join(answer[: 4 * SHOWN_MAX].decode("utf-8", "replace").split())
    shown = "".join(sign for sign in text if sign.isprintable())
    return shown if len(shown) <= SHOWN_MAX else shown[: SHOWN_MAX - 1] + "…"
