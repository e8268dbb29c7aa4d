"""Options of the mail sink."""

from __future__ import annotations

import ipaddress
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from headrace.sinks.alerts.options import AlertOptions, Rate
from headrace.sinks.connectors.mail.template import Template

Security = Literal["starttls", "tls", "none"]


def _address(value: Any) -> Any:
    try:
        message = EmailMessage()
        message["To"] = value
        (found,) = message["To"].addresses
        if found.username and found.domain and str(value).isascii() and not message["To"].defects:
            return found
    except (ValueError, IndexError, TypeError, AttributeError):
        pass
    raise ValueError(f"{value!r:.80} is not a mail address, as alerts@example.com or Shop <alerts@example.com>")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _template(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a template must be text")
    return Template.parsed(value)


class MailOptions(AlertOptions):
    """``sinks/NAME.yaml`` of type ``mail``. ``user`` and ``password`` may be references."""

    model_config = {"arbitrary_types_allowed": True}

    host: str = Field(min_length=1)
    port: int | None = Field(default=None, ge=1, le=65535)  # None: 465 with `tls: tls`, else 587
    tls: Security | None = None  # None: starttls, but on this machine none
    user: str | None = None
    password: str | None = None
    sender: Annotated[Address, BeforeValidator(_address)] = Field(alias="from")
    to: Annotated[tuple[Annotated[Address, BeforeValidator(_address)], ...], BeforeValidator(_listed)] = Field(
        min_length=1, examples=[["ops@example.com"]]
    )
    subject: Annotated[Template | None, BeforeValidator(_template)] = None
    body: Annotated[Template | None, BeforeValidator(_template)] = None
    at_most: Annotated[Rate | None, *AlertOptions.model_fields["at_most"].metadata] = Rate(60, 3600)

    @property
    def security(self) -> Security:
        return self.tls or ("tls" if self.port == 465 else "none" if _here(self.host) else "starttls")

    @property
    def at(self) -> int:
        return self.port or (465 if self.tls == "tls" else 587)

    @model_validator(mode="after")
    def _no_password_in_the_clear(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("'user' and 'password' need each other")
        if self.password is not None and self.security == "none" and not _here(self.host):
            raise ValueError("'tls: none' would send the password in the clear")
        return self


def _here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
