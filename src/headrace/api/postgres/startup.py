"""How a connection begins: TLS or not, the version of the protocol, who asks; cancel requests end there."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from pygwire.messages import (
    AuthenticationCleartextPassword,
    AuthenticationOk,
    CancelRequest,
    GSSEncRequest,
    GSSResponse,
    NegotiateProtocolVersion,
    PasswordMessage,
    SSLRequest,
    SSLResponse,
    StartupMessage,
)

from headrace.api.postgres.reading import Asker
from headrace.api.postgres.wire import Malformed, Wire
from headrace.catalog.api import is_loopback
from headrace.governance.principal import ANYONE
from headrace.model.errors import HeadraceError

STARTUP_S = 10.0  # a client that says nothing for so long is dropped
_VERSION = 0x0003_0000
_REQUESTS = 4  # of TLS and of GSS, before the client says who it is

# (user, password, address) -> who asks. Raises ``access.token`` and the like.
Authenticate = Callable[[str, str, str], Asker]


@dataclass(frozen=True, slots=True)
class Began:
    """Who is there now, with the parameters of its first message."""

    asker: Asker
    parameters: dict[str, str]


def begin(
    wire: Wire, tls: ssl.SSLContext | None, address: str, authenticate: Authenticate | None
) -> Began | CancelRequest:
    """Raises ``Gone``, ``Malformed``, ``TimeoutError``, ``psql.password``, and what ``authenticate`` does."""
    message = wire.read_startup(STARTUP_S)
    for _ in range(_REQUESTS):
        if isinstance(message, SSLRequest):
            granted = tls is not None and not wire.encrypted
            wire.write(SSLResponse(accepted=granted))
            wire.flush()
            if granted and tls is not None:
                wire.encrypt(tls, STARTUP_S)
        elif isinstance(message, GSSEncRequest):
            wire.write(GSSResponse(accepted=False))
        else:
            break
        message = wire.read_startup(STARTUP_S)
    if isinstance(message, CancelRequest):
        return message
    if not isinstance(message, StartupMessage):
        raise Malformed("a connection that does not begin")
    unknown = [name for name in message.params if name.startswith("_pq_.")]
    if message.protocol_version != _VERSION or unknown:
        wire.write(NegotiateProtocolVersion(newest_minor=_VERSION, unrecognized=unknown))
    user = message.params.get("user", "")
    return Began(_asker(wire, user, address, authenticate), message.params)


def _asker(wire: Wire, user: str, address: str, authenticate: Authenticate | None) -> Asker:
    if authenticate is None:
        asker = Asker(user or "headrace", lambda: lambda relation: True, lambda: ANYONE, address)
    else:
        if not (is_loopback(address) or wire.encrypted):
            raise HeadraceError(
                "psql.password", "a token is not taken over a connection that others can read",
                why="this one is neither encrypted nor from this machine", next="connect with sslmode=require",
            )  # fmt: skip
        wire.write(AuthenticationCleartextPassword())
        answer = wire.read_password(STARTUP_S)
        if not isinstance(answer, PasswordMessage):
            raise Malformed("a password that is none")
        asker = authenticate(user, str(answer.password), address)
    wire.write(AuthenticationOk())
    return asker
