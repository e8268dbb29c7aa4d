"""A view, or what a stored query matches, followed over HTTP by server-sent events, again where a connection ended."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import orjson

from headrace.model.errors import HeadraceError
from headrace.model.view_step import ViewStep

SILENT_S = 45.0  # the server says something every 15 s
AGAIN_S = (0.2, 10.0)  # before a connection is made again: the first time, and at most


Kind = Literal["views", "queries"]


class EventSource:
    """``name``: of a view, or with the ``kind`` queries of a stored query, of which all comes anew once it is another.

    ``after``: the commit up to which the caller has all of a view; None: the contents come first. ``where``: (column,
    ``eq.north``), filters of a view's rows, asked for by every connection. ``ca``: a PEM file with the authorities that
    the server is checked by, in the place of the system's. ``snapshot``: whether contents come, or the changes alone.

    ``on_lost`` hears in words why a connection ended, before it is made again.
    """

    def __init__(
        self, url: str, name: str, token: str = "", after: int | None = None,
        on_lost: Callable[[str], None] = lambda why: None, ca: str = "",
        where: Sequence[tuple[str, str]] = (), kind: Kind = "views", snapshot: bool = True,
    ) -> None:  # fmt: skip
        parts, token = _address(url), token.strip()
        if not (token.isascii() and token.isprintable()):  # what http.client says of it has the token in it
            raise HeadraceError(
                "access.token",
                "the token has characters that no token has",
                next="give one on one line, as it was made",
            )
        self._url, self._parts, self._token, self._on_lost = url.rstrip("/"), parts, token, on_lost
        self._target = f"{parts.path.rstrip('/')}/api/{kind}/{quote(name, safe='')}/changes"
        asked = [*where] if snapshot else [*where, ("snapshot", "false")]
        self._target += f"?{urlencode(asked)}" if asked else ""
        self._after = "" if after is None else str(after)
        self._secure = _checked(ca) if parts.scheme == "https" else None
        self._begun = after is not None  # whether the caller has something
        self._answered = False

    def steps(self, stop: threading.Event) -> Iterator[ViewStep]:
        """Until ``stop``, which is looked at between two events.

        Raises what the server refuses: ``access.token``, ``view.unknown`` and so on; and ``api.unreachable`` when the
        first connection cannot be made.
        """
        wait_s = AGAIN_S[0]
        while not stop.is_set():
            try:
                for step in self._connected(stop):
                    wait_s = AGAIN_S[0]
                    yield step
                why = "the server has ended it"
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                if not self._answered:
                    unknown = isinstance(error, ssl.SSLCertVerificationError)
                    raise HeadraceError(
                        "api.unreachable", "the server cannot be reached", where=self._url, why=why,
                        next="give --ca (in Python ca=) the file of its authority, which with `tls: true` is "
                        ".headrace/tls/ca.crt of the project"
                        if unknown
                        else "see that `headrace up` runs there, and with `api:` in headrace.yaml",
                    ) from error  # fmt: skip
            if stop.is_set():
                return
            self._on_lost(why)
            stop.wait(wait_s)
            wait_s = min(2 * wait_s, AGAIN_S[1])

    def _connected(self, stop: threading.Event) -> Iterator[ViewStep]:
        host, port = self._parts.hostname or "", self._parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=SILENT_S, context=self._secure)
            if self._secure
            else http.client.HTTPConnection(host, port, timeout=SILENT_S)
        )
        try:
            headers = {"Accept": "text/event-stream"}
            headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
            headers |= {"Last-Event-ID": self._after} if self._after else {}
            connection.request("GET", self._target, headers=headers)
            response = connection.getresponse()
            if response.status != http.client.OK or response.headers.get_content_type() != "text/event-stream":
                refused = self._refused(response.status, response.read())
                if response.status >= http.client.INTERNAL_SERVER_ERROR and self._answered:
                    raise ConnectionError(refused.what)  # it may be about to end, or be busy
                raise refused
            self._answered = True
            if self._begun and not self._after:  # cut off amid the contents: they come anew, whole
                yield ViewStep("behind", 0, [], reason="the connection ended before all of the contents had come")
            for step in self._events(response, stop):
                self._begun = step.kind != "behind"
                yield step
        finally:
            connection.close()

    def _events(self, response: http.client.HTTPResponse, stop: threading.Event) -> Iterator[ViewStep]:
        """By the rules of the standard: an event ends with an empty line, and counts with what it says of its id."""
        kind, number, data = "", self._after, b""
        while not stop.is_set() and (line := response.readline()):
            name, _, value = line.rstrip(b"\r\n").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                kind = value.decode()
            elif name == b"id":
                number = value.decode()
            elif name == b"data":
                data = value
            elif not name and not value and data:
                self._after = number
                if kind == "error":  # a fault within the server, which may have passed when it is asked again
                    raise ConnectionError(orjson.loads(data)["what"])
                if kind != "progress":
                    yield _step(kind, orjson.loads(data))
                kind, data = "", b""

    def _refused(self, status: int, body: bytes) -> HeadraceError:
        """What an answer of another status than 200 says."""
        try:
            said: Mapping[str, str] = orjson.loads(body)
            told = {part: said.get(part, "") for part in ("where", "why", "next")}
            return HeadraceError(said["code"], said["what"], **told)
        except (ValueError, KeyError, TypeError):
            return HeadraceError(
                "api.unreachable", f"HTTP {status} instead of a view's changes", where=self._url + self._target,
                next="see that this is the address of a `headrace up`",
            )  # fmt: skip


def _address(url: str) -> SplitResult:
    """Raises ``config.invalid``."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
        why = ""
    except ValueError as error:  # of its port, or of the brackets around its host
        why = str(error)
    raise HeadraceError(
        "config.invalid", f"'{url}' is no address of a server", why=why, next="such as http://127.0.0.1:8642"
    )


def _checked(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise HeadraceError(
            "config.invalid", "the file of authorities cannot be read", where=ca, why=str(error),
            next="name a file with certificates in PEM",
        ) from error  # fmt: skip


def _step(kind: str, told: Mapping[str, Any]) -> ViewStep:
    known: Any = kind
    if known not in {"snapshot", "change", "behind"}:
        raise HeadraceError("api.unreachable", f"an event '{known}' is not known here", next="use the server's version")
    return ViewStep(known, told["commit"], told.get("rows", []), told.get("last", True), told.get("reason", ""))
