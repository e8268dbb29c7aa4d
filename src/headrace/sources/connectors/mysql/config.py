"""What a user may write in ``sources/NAME.yaml`` for a MySQL or MariaDB source, and the connection made of it."""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headrace.formats import secrets
from headrace.model.errors import HeadraceError

CONNECT_SECONDS = 10
SERVER_ID_FIRST = 1 << 30  # ours are chosen above it: servers are numbered from 1, or by their addresses

# The text forms that the decoder reads, whatever the server's own settings are.
SESSION = (
    "SET SESSION time_zone = '+00:00', SESSION sql_mode = '', SESSION net_write_timeout = 3600, "
    "SESSION wait_timeout = 28800, SESSION group_concat_max_len = 1048576"
)


class MysqlOptions(BaseModel):
    """Options of a MySQL or MariaDB source.

    ``password`` may be a secret reference (``env:NAME``, ``file:PATH``). ``tables`` maps relation names to
    ``database.table`` or ``table`` and, when given, is the whole list of tables offered; otherwise every table of
    ``database`` is. Columns in ``as_text`` (``table.column``) are carried as the server's text. Tables in ``cascades``
    are followed without what foreign keys do to their rows. ``server_id`` is what the server knows this reader by; no
    other replica may have it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(min_length=1)
    port: int = Field(default=3306, ge=1, le=65535)
    database: str = Field(min_length=1)
    user: str = Field(min_length=1)
    password: str | None = None
    tls: Literal["off", "require", "verify"] | None = None
    tls_ca: str | None = None
    tables: dict[str, str] | None = Field(default=None, examples=[{"orders": "shop.orders"}])
    as_text: tuple[str, ...] = Field(default=(), examples=[["orders.note"]])
    cascades: tuple[str, ...] = Field(default=(), examples=[["lines"]])
    server_id: int | None = Field(default=None, ge=1, lt=1 << 32)
    heartbeat_seconds: float = Field(default=10.0, gt=0)

    @field_validator("as_text")
    @classmethod
    def _columns(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        for place in places:
            if not all(place.partition(".")[::2]):
                raise ValueError(f"'{place}' must name a column as table.column")
        return places

    @model_validator(mode="after")
    def _checked_how(self) -> Self:
        if self.tls_ca is not None and self.tls in ("off", "require"):
            raise ValueError("'tls_ca' is looked at with 'tls: verify' only")
        return self

    def text_columns(self, table: str) -> frozenset[str]:
        """The columns of that relation that are carried as text."""
        return frozenset(c for name, _, c in (place.partition(".") for place in self.as_text) if name == table)

    def places(self) -> dict[str, tuple[str, str]] | None:
        """``tables`` as (database, table) by relation name."""
        if self.tables is None:
            return None
        split = {name: place.rpartition(".")[::2] for name, place in self.tables.items()}
        return {name: (database or self.database, table) for name, (database, table) in split.items()}

    def reader_id(self, source: str, project: str) -> int:
        """The server id of the reader: the same at every start, another one for each source."""
        digest = hashlib.md5(f"{project}/{source}".encode(), usedforsecurity=False).digest()
        return self.server_id or SERVER_ID_FIRST + int.from_bytes(digest[:4], "big") % (1 << 30)

    def arguments(self, where: str = "", base: Path = Path()) -> dict[str, Any]:
        """The driver's arguments, secrets resolved now: never log or keep them.

        ``base``: the folder that a relative ``tls_ca`` is looked for in. Without ``tls`` a server that is not on the
        loopback interface must prove its name. Raises ``HeadraceError`` config.secret, config.invalid.
        """
        found: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "database": self.database,
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_SECONDS,
            "program_name": "headrace",
            "init_command": SESSION,
        }
        if self.password is not None:
            found["password"] = secrets.resolve(self.password, where)
        if self.host.startswith("/"):
            found["unix_socket"] = self.host
            found["host"] = "localhost"
        tls = self.tls or ("off" if _is_loopback(self.host) and self.tls_ca is None else "verify")
        if tls == "off":
            found["ssl_disabled"] = True
        else:
            found["ssl"] = self._context(tls == "verify", where, base)
        return found

    def _context(self, verify: bool, where: str, base: Path) -> ssl.SSLContext:
        if not verify:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            authority = None if self.tls_ca is None else str(base / Path(self.tls_ca).expanduser())
            return ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            raise HeadraceError(
                "config.invalid", f"tls_ca: {self.tls_ca} cannot be read", where=where, why=str(error)
            ) from error


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.startswith("/"):  # the latter: a Unix socket
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
