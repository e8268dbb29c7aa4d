"""Options of the HTTP source, as written in ``sources/NAME.yaml``."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, model_validator


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class TableOptions(BaseModel):
    """A table that may be pushed to."""

    model_config = ConfigDict(extra="forbid")

    columns: dict[str, str] | None = None  # column -> Spark SQL type, "not null" may follow; None: infer
    key: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    on_conflict: Literal["replace", "quarantine", "refuse"] = "replace"  # an insert of a key that is there, and such


def _table(value: Any) -> Any:
    return {} if value is None else value


class HttpOptions(BaseModel):
    """``type: http``."""

    model_config = ConfigDict(extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=7071, ge=0, le=65535)  # 0: any free port
    listen: bool = True  # false: no server, only ``submit`` and ``push`` from the same process
    auth: Literal["token", "none"] = "token"
    token: str | None = None  # a secret reference; without it a token is made at the first start
    read_token: str | None = None  # a secret reference, as ``token``: for who reads consumer groups here
    tables: dict[str, Annotated[TableOptions, BeforeValidator(_table)]] = Field(
        min_length=1, examples=[{"orders": {"columns": {"id": "bigint", "note": "string"}, "key": ["id"]}}]
    )
    on_error: Literal["refuse", "quarantine"] = "refuse"  # a request with a row that does not fit its table
    max_queue: ByteSize | None = Field(default=None, ge=1024)  # what may wait to be logged; None: twice max_body
    wait_seconds: float = Field(default=20.0, ge=0, le=600)  # how long a request is held with `when_full: wait`
    max_body: ByteSize = Field(default=ByteSize(64 << 20), ge=1024)

    @property
    def loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @model_validator(mode="after")
    def _open_only_on_loopback(self) -> HttpOptions:
        if self.auth == "none" and not self.loopback:
            raise ValueError(f"'auth: none' is for the loopback only, and the host is {self.host}")
        if self.auth == "none" and (self.token is not None or self.read_token is not None):
            raise ValueError("'auth: none' and a token contradict each other")
        return self
