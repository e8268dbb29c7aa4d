"""One connection of an HTTP server: its other end says in time what it wants, and takes what it is sent.

A connection is a descriptor, and who has none left answers nobody. So one that owes a request, or the rest of one, has
an end; and where there are too many, one of those that owe makes room for the next.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_S = 10.0  # from a connection's begin, or from the first byte of another request, to the end of its head
BODY_S = 60.0  # so long nothing may come of a body that is not whole, as long as it is read
SEND_S = 60.0  # a connection is dropped whose other end takes nothing of a stream for so long


@dataclass(frozen=True, slots=True)
class Places:
    """What the connections of a server share: how many there may be, and those that have no whole request.

    ``asking``: the one that has been so for longest comes first; ``shaking``: those of them that are not encrypted yet.
    """

    most: int
    asking: dict[Connection, asyncio.Transport] = field(default_factory=dict)
    shaking: set[Connection] = field(default_factory=set)

    def asks(self, connection: Connection, transport: asyncio.Transport, beside: int) -> None:
        """One that begins, ``beside`` others that have begun: where it is too many, the first that asks makes room."""
        self.asking[connection] = transport
        if beside + len(self.shaking) > self.most:
            first = next(iter(self.asking))
            self.asking.pop(first).abort()


class Connection(HttpToolsProtocol):
    """Has one timer, which is not touched by each request: when it is over it looks what is owed by then."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None, *, places: Places,
    ) -> None:  # fmt: skip
        super().__init__(config, server_state, app_state, _loop)
        self._places = places
        self._owed_s = 0.0  # the time for what the other end owes: HEAD_S, BODY_S, or 0 when it owes nothing
        self._due = 0.0  # by the loop's clock
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self._owes(HEAD_S)
        self._places.shaking.discard(self)
        self._places.asks(self, transport, len(self.connections))

    def shakes(self, transport: asyncio.Transport, shaken: asyncio.Future[None]) -> None:
        """Until the TLS handshake has come to its end it is no connection, and has the place of one that asks."""
        self._places.shaking.add(self)
        self._places.asks(self, transport, len(self.connections))

        def over(shaken: asyncio.Future[None]) -> None:
            self._places.shaking.discard(self)
            if self not in self.connections:
                self._places.asking.pop(self, None)

        shaken.add_done_callback(over)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._places.asking.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._owed_s != HEAD_S:  # whose time does not begin anew with each byte
            self._owes(BODY_S if self._owed_s else HEAD_S)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._owed_s = BODY_S
        self._due = self.loop.time() + BODY_S

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._owed_s = 0.0
        self._places.asking.pop(self, None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # else another request, which came meanwhile, is answered now
            self._places.asking[self] = self.transport

    def _owes(self, seconds: float) -> None:
        self._owed_s, self._due = seconds, self.loop.time() + seconds
        if self._timer is None:
            self._timer = self.loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._owed_s:
            return
        answering = self._owed_s == HEAD_S and self.cycle is not None and not self.cycle.response_complete
        if answering or self.flow.read_paused:  # what is late is not the other end
            self._owes(self._owed_s)
        elif self._due > self.loop.time():
            self._timer = self.loop.call_at(self._due, self._look)
        else:
            self.transport.abort()


class _Flow(FlowControl):
    async def drain(self) -> None:
        """Until more can be sent; after ``SEND_S`` the connection is ended, as if its other end had left."""
        try:
            async with asyncio.timeout(SEND_S):
                await super().drain()
        except TimeoutError:
            self._transport.abort()
