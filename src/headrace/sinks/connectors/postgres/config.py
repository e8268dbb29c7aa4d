"""Options of the PostgreSQL sink, and the connection they describe."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Literal, Self

import psycopg
from psycopg import conninfo
from pydantic import BaseModel, Field, model_validator

from headrace.formats.secrets import resolve
from headrace.model.errors import HeadraceError

CONNECT_SECONDS_MAX = 10
# A peer that vanished without a word is noticed in about half a minute, not in the hours of TCP's own defaults.
_LIVENESS = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}


class PostgresOptions(BaseModel):
    """``sinks/NAME.yaml`` of type ``postgres``. Every text may be a reference, ``env:NAME`` or ``file:PATH``."""

    dsn: str | None = None
    host: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    database: str | None = None
    user: str | None = None
    password: str | None = None
    schema_name: str = Field(default="public", alias="schema", min_length=1)
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = None
    sslrootcert: str | None = None
    # Of `transactions: each`: whether the server's log is flushed once for many transactions or for each of them.
    flush: Literal["batch", "each"] = "batch"

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if self.dsn is None and self.host is None:
            raise ValueError("'dsn' or 'host' is missing")
        return self


def parameters(options: PostgresOptions, where: str = "", base: Path = Path()) -> dict[str, str | int]:
    """libpq's connection parameters, secrets resolved now. Raises ``config.secret`` and ``config.invalid``.

    ``base``: the folder that a relative ``sslrootcert`` is looked for in.
    Without an ``sslmode`` anywhere the server must prove who it is (``verify-full``), unless it is this machine.
    """
    given: dict[str, str | int] = {}
    if options.dsn is not None:
        try:
            given |= {k: v for k, v in conninfo.conninfo_to_dict(resolve(options.dsn, where)).items() if v is not None}
        except psycopg.ProgrammingError:  # its text may repeat the password
            raise HeadraceError(
                "config.invalid",
                "'dsn' is not a PostgreSQL connection string",
                where=where,
                next="write dsn: postgresql://user@host:5432/database, and the password as env:NAME or file:PATH",
            ) from None
    separate = {
        "host": options.host,
        "dbname": options.database,
        "user": options.user,
        "password": options.password,
        "sslmode": options.sslmode,
        "sslrootcert": options.sslrootcert,
    }
    given |= {name: resolve(text, where) for name, text in separate.items() if text is not None}
    if options.sslrootcert is not None and given["sslrootcert"] != "system":
        given["sslrootcert"] = str(base / Path(str(given["sslrootcert"])).expanduser())
    if options.port is not None:
        given["port"] = options.port
    if "sslmode" not in given and "PGSSLMODE" not in os.environ:
        given["sslmode"] = "prefer" if _here(given) else "verify-full"
    if given.get("sslmode") == "verify-full" and "sslrootcert" not in given and "PGSSLROOTCERT" not in os.environ:
        own = Path("~/.postgresql/root.crt").expanduser()
        given["sslrootcert"] = str(own) if own.exists() else "system"
    return {"connect_timeout": CONNECT_SECONDS_MAX, **_LIVENESS, **given}


def _here(given: dict[str, str | int]) -> bool:
    """Whether every host is a Unix socket or a loopback address."""
    hosts = str(given.get("hostaddr") or given.get("host") or os.environ.get("PGHOST", ""))
    return all(_is_loopback(host) for host in hosts.split(","))


def _is_loopback(host: str) -> bool:
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
