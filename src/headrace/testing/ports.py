"""Ports for servers that tests start, stop and start again."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 20_000, 32_767  # below those that the system gives to outgoing connections


def free_port() -> int:
    """A port of the loopback interface that nobody listens at; no connection takes it while its server is stopped."""
    chance = random.SystemRandom()  # tests seed the other one
    while True:
        port = chance.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
