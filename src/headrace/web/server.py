"""An HTTP server in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn

from headrace.model.errors import HeadraceError
from headrace.web.connection import HEAD_S, Connection, Places
from headrace.web.listening import QUEUE
from headrace.web.tls import Files

_STARTUP_S = 10.0
_GRACE_S = 2  # for requests that are being answered when it ends
CONNECTIONS = 512  # at once, unless who makes it says how many
_AT_ONE_GO = 8  # are taken: the loop takes three times as many more before the first of them has made room


class ServerThread:
    """Answers on a listening socket from its making on until ``close``. ``app``: an ASGI application.

    ``encrypted``: the files of its certificate, for HTTPS. ``alive`` is called by the loop that answers, every second.
    ``connections``: at most so many; for another one that has no request, the one that was silent longest, is ended.
    """

    def __init__(
        self, app: Any, listener: socket.socket, name: str = "headrace-http", encrypted: Files | None = None,
        alive: Callable[[], None] | None = None, connections: int = CONNECTIONS,
    ) -> None:  # fmt: skip
        async def notify() -> None:
            if alive is not None:
                alive()

        self.port: int = listener.getsockname()[1]
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", loop=f"{__name__}:Loop",
            http=partial(Connection, places=Places(connections)),  # type: ignore[arg-type]
            proxy_headers=False,  # who asks would choose the address that is written down of them
            backlog=_AT_ONE_GO, timeout_keep_alive=75, timeout_graceful_shutdown=_GRACE_S, server_header=False,
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


class Loop(asyncio.SelectorEventLoop):
    """Gives a TLS handshake a place, and no more time than a request's head; and keeps the listener's queue long."""

    async def create_server(self, *given: Any, **named: Any) -> asyncio.Server:
        handshake_s = HEAD_S if named.get("ssl") is not None else None
        made = await super().create_server(*given, **named, ssl_handshake_timeout=handshake_s)
        named["sock"].listen(QUEUE)  # which was made as short as what is taken at one go
        return made

    def _make_ssl_transport(  # the one place where asyncio tells of a handshake that begins
        self, rawsock: socket.socket, protocol: Connection, sslcontext: Any, waiter: asyncio.Future[None], **named: Any
    ) -> asyncio.Transport:  # fmt: skip
        made: asyncio.Transport = super()._make_ssl_transport(rawsock, protocol, sslcontext, waiter, **named)  # type: ignore[misc]
        self.call_soon(protocol.shakes, made, waiter)  # behind what begins the handshake: only then can it be ended
        return made
