"""An HTTP server in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.model.errors import HeadraceError
from headrace.web.tls import Files

_STARTUP_S = 10.0
_GRACE_S = 2  # for requests that are being answered when it ends
SEND_S = 60.0  # a connection is dropped whose other end takes nothing of a stream for so long


class ServerThread:
    """Answers on a listening socket from its making on until ``close``. ``app``: an ASGI application.

    ``encrypted``: the files of its certificate, for HTTPS. ``alive`` is called by the loop that answers, every second.
    """

    def __init__(
        self, app: Any, listener: socket.socket, name: str = "headrace-http", encrypted: Files | None = None,
        alive: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        async def notify() -> None:
            if alive is not None:
                alive()

        self.port: int = listener.getsockname()[1]
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", loop="asyncio", http=_Connection,
            proxy_headers=False,  # who asks would choose the address that is written down of them
            timeout_keep_alive=75, timeout_graceful_shutdown=_GRACE_S, server_header=False,
            ssl_certfile=encrypted and encrypted.certificate, ssl_keyfile=encrypted and encrypted.key,
            callback_notify=notify if alive else None, timeout_notify=0,  # of the looks that it takes each second
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, name=name, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + _STARTUP_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self._server.started:
            raise HeadraceError("internal", "the HTTP server did not start")

    @property
    def ended(self) -> bool:
        """It answers no more, by ``close`` or by a fault."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop listening; requests that are being answered get two seconds."""
        self._server.should_exit = True
        self._thread.join(timeout=_GRACE_S + 3)


class _Connection(HttpToolsProtocol):
    """Whose streams do not wait for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)


class _Flow(FlowControl):
    async def drain(self) -> None:
        """Until more can be sent; after ``SEND_S`` the connection is ended, as if its other end had left."""
        try:
            async with asyncio.timeout(SEND_S):
                await super().drain()
        except TimeoutError:
            self._transport.abort()
