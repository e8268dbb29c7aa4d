"""What goes around every request and answer: the limit of a body, headers that browsers keep to, measures."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.api.metrics import Requests
from headrace.model.errors import HeadraceError
from headrace.web.status import refusal

BODY_BYTES, READ_BYTES = 8 << 20, 32 << 20
HEADERS = [
    # Scripts, styles and all else from this server alone; nothing inline; in no frame of another page.
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
# The page says so of itself in the header that a change needs too. A browser writes the status of each error into its
# console as a fault of the page; so to the page a refusal has the status 200, and its own beside it.
PAGE, PASSED = (b"x-headrace", b"page"), b"x-headrace-status"
NO_STORE = (b"cache-control", b"no-store")  # answers hold rows

FAULT = HeadraceError("internal", "the request failed by a fault in Headrace", next="its log says more")
_STOPPING = HeadraceError("project.not_running", "the project is stopping", next="ask again when it runs")
_log = logging.getLogger(__name__)


class Around:
    """Plain ASGI: a stream passes as it comes."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        since, status, took = time.perf_counter(), 0, 0.0

        async def sent(message: Message) -> None:
            nonlocal status, took
            if message["type"] == "http.response.start":
                status, took = message["status"], time.perf_counter() - since  # a stream lasts as long as its reader
                given = {name.lower() for name, _ in message["headers"]}
                more = HEADERS if b"cache-control" in given else [*HEADERS, NO_STORE]
                if status >= 400 and PAGE in scope["headers"]:
                    message, more = {**message, "status": 200}, [*more, (PASSED, str(status).encode())]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            await self._app(scope, _Bounded(receive), sent)
        except asyncio.CancelledError:  # the server ends, and has waited for it
            if status == 0:
                await refusal(_STOPPING)(scope, receive, sent)
        except Exception as error:
            # Its text may hold rows: it is for the log of who runs the project.
            _log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
            if status == 0:
                await refusal(FAULT)(scope, receive, sent)
        finally:
            route: Any = scope.get("route")
            path = getattr(route, "path_format", "none")
            self._requests.add(path, scope["method"], status, took)
        return None


class _Bounded:
    """A body that ends with an error beyond the limit. A little more is read: who still sends hears no answer."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._size = receive, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > BODY_BYTES:
                while message.get("more_body") and self._size < READ_BYTES:
                    message = await self._receive()
                    self._size += len(message.get("body", b""))
                what = f"the request is larger than {BODY_BYTES >> 20} MiB"
                raise HTTPException(413, what, {"Connection": "close"})
        return message
