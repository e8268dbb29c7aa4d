"""What a user may write in ``sources/NAME.yaml`` for a PostgreSQL source, and the connection made of it."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from pathlib import Path
from typing import Any, Literal, Self

from psycopg import OperationalError, ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headrace.formats import secrets
from headrace.model.errors import HeadraceError

NAME_BYTES_MAX = 63  # PostgreSQL cuts longer identifiers silently
CONNECT_SECONDS = 10
SIZE = r"^(\d+(?:\.\d+)?)\s*([kKMGT]?B)?$"  # as PostgreSQL takes sizes: 500MB, 10 GB; units of 1024

# The text forms that the decoder reads, whatever the role's own settings are; COPY must not be cut short or filtered.
_SESSION = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c extra_float_digits=1"
    " -c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c row_security=off"
)


class PostgresOptions(BaseModel):
    """Options of a PostgreSQL source. Either ``dsn`` or ``host`` and ``database`` must be given.

    ``dsn`` and ``password`` may be secret references (``env:NAME``, ``file:PATH``). ``tables`` maps relation names to
    ``schema.table`` and, when given, is the whole list of tables offered; otherwise every table of ``schemas`` is.
    Columns in ``as_text`` (``table.column``) are carried as PostgreSQL's text. The source warns when the server keeps
    more log for it than ``max_wal_held``. With ``streaming`` large transactions come before they commit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dsn: str | None = None
    host: str | None = None
    port: int = Field(default=5432, ge=1, le=65535)
    database: str | None = None
    user: str | None = None
    password: str | None = None
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = None
    sslrootcert: str | None = None
    schemas: tuple[str, ...] = Field(default=("public",), min_length=1, examples=[["public", "sales"]])
    tables: dict[str, str] | None = Field(default=None, examples=[{"orders": "public.orders"}])
    slot: str | None = Field(default=None, pattern=r"^[a-z0-9_]{1,63}$")
    publication: str | None = Field(default=None, min_length=1, max_length=NAME_BYTES_MAX)
    heartbeat_seconds: float = Field(default=10.0, gt=0)
    as_text: tuple[str, ...] = Field(default=(), examples=[["orders.note"]])
    streaming: bool = False
    max_wal_held: str = Field(default="10 GB", pattern=SIZE)

    @field_validator("tables")
    @classmethod
    def _qualified(cls, tables: dict[str, str] | None) -> dict[str, str] | None:
        for name, table in (tables or {}).items():
            if not all(table.partition(".")[::2]):
                raise ValueError(f"'{name}' must name a table as schema.table, not {table!r}")
        return tables

    @field_validator("as_text")
    @classmethod
    def _columns(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        for place in places:
            if not all(place.partition(".")[::2]):
                raise ValueError(f"'{place}' must name a column as table.column")
        return places

    @model_validator(mode="after")
    def _one_way_to_connect(self) -> Self:
        if (self.dsn is None) == (self.host is None):
            raise ValueError("give either 'dsn', or 'host' with 'database'")
        if self.host is not None and self.database is None:
            raise ValueError("'database' is missing beside 'host'")
        if self.dsn is not None and (self.database or self.user or self.password):
            raise ValueError("'database', 'user' and 'password' belong into the dsn, when there is one")
        return self

    def text_columns(self, table: str) -> frozenset[str]:
        """The columns of that relation that are carried as text."""
        return frozenset(c for name, _, c in (place.partition(".") for place in self.as_text) if name == table)

    @property
    def wal_held_max(self) -> int:
        """``max_wal_held`` in bytes."""
        number, unit = re.fullmatch(SIZE, self.max_wal_held).groups()  # type: ignore[union-attr]
        return int(float(number) * 1024 ** "BKMGT".index((unit or "B")[0].upper()))

    def slot_name(self, source: str, project: str) -> str:
        return self.slot or object_name(source, project)

    def publication_name(self, source: str, project: str) -> str:
        return self.publication or object_name(source, project)

    def conninfo(self, where: str = "", base: Path = Path()) -> str:
        """The libpq connection string, secrets resolved now: never log or keep it.

            ``base``: the folder that a relative ``sslrootcert`` is looked for in.
        Without ``sslmode`` a server that is not on the loopback interface must prove its name (verify-full).
            Raises ``HeadraceError`` config.secret, config.invalid.
        """
        parameters = self._address(where)
        if self.sslmode:
            parameters["sslmode"] = self.sslmode
        elif "sslmode" not in parameters and not _is_loopback(parameters):
            parameters["sslmode"] = "verify-full"
        if self.sslrootcert:
            named = self.sslrootcert == "system"  # libpq's word for the authorities that the machine trusts
            parameters["sslrootcert"] = "system" if named else str(base / Path(self.sslrootcert).expanduser())
        elif "sslrootcert" not in parameters and parameters.get("sslmode") == "verify-full":
            own = Path("~/.postgresql/root.crt").expanduser()
            parameters["sslrootcert"] = str(own) if own.exists() else "system"
        parameters["options"] = f"{parameters.get('options') or ''} {_SESSION}".strip()
        return make_conninfo(**{**_DEFAULTS, **parameters})

    def _address(self, where: str) -> dict[str, Any]:
        if self.dsn is None:
            parameters = {"host": self.host, "port": self.port, "dbname": self.database, "user": self.user}
            if self.password is not None:
                parameters["password"] = secrets.resolve(self.password, where)
            return {name: value for name, value in parameters.items() if value is not None}
        try:
            return {k: v for k, v in conninfo_to_dict(secrets.resolve(self.dsn, where)).items() if v is not None}
        except (ProgrammingError, OperationalError):  # the driver's message may quote the password
            raise HeadraceError(
                "config.invalid",
                "the dsn is not a PostgreSQL connection string",
                where=where,
                next="write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or use host, database, user, password",
            ) from None


_DEFAULTS: dict[str, Any] = {
    "application_name": "headrace",
    "client_encoding": "UTF8",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


def object_name(source: str, project: str) -> str:
    """The default name of slot and publication: lower-case letters, digits and underscores, at most 63.

    Slots are shared by a whole server, so ``project`` has to tell its projects apart. What is too long ends in a hash.
    """
    name = re.sub(r"[^a-z0-9_]+", "_", "_".join(part for part in ("headrace", project, source) if part).lower())
    if len(name) <= NAME_BYTES_MAX:
        return name
    digest = hashlib.md5(f"{project}/{source}".encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{name[: NAME_BYTES_MAX - 9]}_{digest}"


def _is_loopback(parameters: dict[str, Any]) -> bool:
    addresses = str(parameters.get("hostaddr") or parameters.get("host") or "")
    return all(_is_loopback_address(address) for address in addresses.split(","))


def _is_loopback_address(address: str) -> bool:
    if address in ("", "localhost") or address.startswith(("/", "@")):  # the last two: a Unix socket
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
