"""Where what `headrace up` serves listens, and whether it could: as it starts and as it is examined alike."""

from __future__ import annotations

import contextlib
import importlib
import socket

from headrace.model.definition import ApiSettings, PsqlSettings
from headrace.model.errors import HeadraceError
from headrace.web.listening import listen

PORT = 7070
SEND_BYTES = 128 << 10  # a thousand who follow views and stand still are to cost little


def api_listener(settings: ApiSettings, section: str) -> socket.socket:
    """``section``: where they are written. Raises ``api.port`` for a port that is configured and cannot be had."""
    where, port = f"{section}.port", PORT if settings.port is None else settings.port
    other = f"stop it, or set another port: api: {{port: {port + 1 if 0 < port < 65535 else PORT}}}"
    if settings.port is None:
        with contextlib.suppress(HeadraceError):  # another project has it: nothing is configured, so any other will do
            return listen(settings.host, PORT, where, code="api.port", next=other, send_bytes=SEND_BYTES)
        port = 0
    return listen(settings.host, port, where, code="api.port", next=other, send_bytes=SEND_BYTES)


def psql_listener(settings: PsqlSettings, section: str) -> socket.socket:
    """Raises ``psql.port``, and ``config.library`` where the one is missing that knows the protocol."""
    try:
        importlib.import_module("pygwire")
    except ImportError as error:
        raise HeadraceError(
            "config.library", "PostgreSQL's protocol needs a library that is not installed", where=section,
            why=str(error), next="pip install 'headrace[psql]'",
        ) from error  # fmt: skip
    other = f"stop it, or set another port: psql: {{port: {settings.port % 65_535 + 1}}}"
    return listen(settings.host, settings.port, f"{section}.port", code="psql.port", next=other)
