"""What goes around every request and answer: the limit of a body, headers that browsers keep to, measures."""

from __future__ import annotations

import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.api.metrics import Requests
from headrace.model.errors import HeadraceError
from headrace.web.status import Refused, refusal

BODY_BYTES = 8 << 20
HEADERS = [
    # Scripts, styles and all else from this server alone; nothing inline; in no frame of another page.
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NO_STORE = (b"cache-control", b"no-store")  # answers hold rows


class Around:
    """Plain ASGI: a stream passes as it comes."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        since, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                more = HEADERS if b"cache-control" in given else [*HEADERS, NO_STORE]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            if refused := _too_large(scope):
                await refusal(refused)(scope, receive, sent)
            else:
                await self._app(scope, _Bounded(receive), sent)
        finally:
            route: Any = scope.get("route")
            path = getattr(route, "path_format", "none")
            self._requests.add(path, scope["method"], status, time.perf_counter() - since)
        return None


class _Bounded:
    """A body that ends with an error beyond the limit."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._size = receive, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > BODY_BYTES:
                raise _large()
        return message


def _too_large(scope: Scope) -> Refused | None:
    length = dict(scope["headers"]).get(b"content-length", b"")
    return _large() if length.isdigit() and int(length) > BODY_BYTES else None


def _large() -> Refused:
    return Refused(413, HeadraceError("api.request", f"the request is larger than {BODY_BYTES >> 20} MiB"))
