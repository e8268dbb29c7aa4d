"""A listening socket, and the names that a machine's own programs call it by."""

from __future__ import annotations

import errno
import socket

from headrace.model.errors import HeadraceError

QUEUE = 1_024  # connections that wait to be taken
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def listen(host: str, port: int, where: str, *, code: str, next: str, send_bytes: int | None = None) -> socket.socket:
    """A listening socket; port 0 takes one that is free. Raises ``HeadraceError`` with ``code`` and ``next``.

    ``send_bytes``: of what is sent to a client that does not read the kernel holds twice so much; None: megabytes.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle off; else every answer waits 40 ms for a delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if send_bytes is not None:  # connections have it from the listener
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    try:
        listener.bind((host, port))
        listener.listen(QUEUE)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        raise HeadraceError(
            code,
            f"port {port} on {host} is taken" if taken else f"cannot listen on port {port} of {host}",
            where=where,
            why="another process listens there" if taken else error.strerror or str(error),
            next=next,
        ) from None
    return listener


def hosts(host: str) -> frozenset[str]:
    """The names that requests to a server at ``host`` may carry where no token is asked for.

    A web page's own name may be pointed at the loopback; its requests still carry that name.
    """
    return LOCAL | {host}
