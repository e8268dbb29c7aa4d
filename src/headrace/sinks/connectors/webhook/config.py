"""Options of the webhook sink, and the address they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import BeforeValidator, Field

from headrace.formats.secrets import resolve
from headrace.model.errors import HeadraceError
from headrace.sinks.alerts.options import AlertOptions

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # of a header, as RFC 9110 has it
_OWN = ("host", "content-length", "content-type", "transfer-encoding", "connection", "user-agent")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class WebhookOptions(AlertOptions):
    """``sinks/NAME.yaml`` of type ``webhook``. ``url``, ``secret`` and headers may be references."""

    url: str = Field(min_length=1)
    secret: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(  # several while one is replaced
        min_length=1, examples=["env:HOOK_SECRET"]
    )
    headers: dict[str, str] = Field(default={}, examples=[{"Authorization": "env:HOOK_TOKEN"}])
    allow: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(  # may have a private address, or no TLS
        default=(), examples=[["hooks.internal"]]
    )


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go. ``shown`` is all of it that an error may repeat: a path is often a secret."""

    secure: bool
    host: str
    port: int
    target: str  # path and query

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.secure else 80)
        return f"http{'s' if self.secure else ''}://{host}{'' if usual else f':{self.port}'}"


def address(options: WebhookOptions, where: str = "") -> Address:
    """Raises ``config.invalid``, ``config.secret``."""
    try:
        parts = urlsplit(resolve(options.url, where).strip())
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError:  # its text may repeat the address
        raise _not_a_url("it has no host and port that can be read", where) from None
    if parts.scheme not in ("http", "https") or not host:
        raise _not_a_url("it does not begin with https:// and a host", where)
    if parts.username is not None or parts.password is not None:
        raise _not_a_url("it has a user or a password in it, which servers and proxies write into their logs", where)
    secure = parts.scheme == "https"
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~-._[]")
    return Address(secure, host, port or (443 if secure else 80), target)


def headers(options: WebhookOptions, where: str = "") -> dict[str, str]:
    """The user's own, with their secrets. Raises ``config.invalid``, ``config.secret``."""
    found = {}
    for name, text in options.headers.items():
        value = resolve(text, where)
        if not _NAME.fullmatch(name) or name.lower() in _OWN or name.lower().startswith("webhook-"):
            raise HeadraceError(
                "config.invalid",
                f"'headers.{name}' cannot be set",
                where=where,
                why=f"it is none, or one of {', '.join(_OWN)}, webhook-..., which Headrace sets",
            )
        if not value.isascii() or not value.isprintable():
            raise HeadraceError(
                "config.invalid", f"'headers.{name}' holds what no header can: only printable ASCII goes", where=where
            )
        found[name] = value
    return found


def _not_a_url(why: str, where: str) -> HeadraceError:
    return HeadraceError(
        "config.invalid",
        "'url' is not the address of a receiver",
        where=where,
        why=why,
        next="url: https://example.com/hook, or env:NAME; what it is to know of you goes under headers",
    )
