"""``api:`` in headrace.yaml: where the API and the page are served, and to whom."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from headrace.catalog.document import Document, did_you_mean
from headrace.model.definition import ApiSettings, PsqlSettings

KEY = "api"
KEYS = ("enabled", "host", "port", "auth", "memory", "tls", "certificate", "key")
_MEMORY = re.compile(r"[1-9]\d*(\.\d+)?\s*([KMGT]i?B)", re.IGNORECASE)


def read_api(document: Document) -> ApiSettings:
    """Raises ``config.invalid`` and ``config.unknown_key``."""
    written = document.values[KEY]
    if not isinstance(written, dict):
        raise document.invalid("'api' must be a mapping", KEY, next="api:\n  port: 7070")
    for key in written:
        if key not in KEYS:
            raise document.unknown(key, KEYS, KEY, key)
    settings = ApiSettings(**{key: checked(document, KEY, key, value) for key, value in written.items()})
    check_open(document, KEY, settings.auth, settings.host)
    check_tls(document, KEY, settings)
    return settings


def checked(document: Document, section: str, key: str, value: Any) -> Any:
    """What is written of a server that `headrace up` runs. Raises ``config.invalid``."""
    if key in ("enabled", "tls") and isinstance(value, bool):
        return value
    if key == "port" and isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
        return value
    if key == "connections" and isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if key in ("host", "certificate", "key") and isinstance(value, str) and value.strip():
        return value.strip()
    if key == "auth" and value in ("token", "none"):
        return value
    if key == "memory" and isinstance(value, str) and _MEMORY.fullmatch(value.strip()):
        return value.strip()
    words, such = {
        "enabled": ("true or false", "true"), "tls": ("true or false", "true"),
        "port": ("a number from 0 to 65535; 0 takes a free one", "7070"),
        "host": ("an address of this machine", "127.0.0.1"), "auth": ("`token` or `none`", "token"),
        "memory": ("a number with a unit", "512MB"), "connections": ("a number above 0", "64"),
        "certificate": ("a PEM file", "tls/server.crt"), "key": ("a PEM file", "tls/server.key"),
    }[key]  # fmt: skip
    near = did_you_mean(str(value), ["token", "none"]) if key == "auth" else ""
    raise document.invalid(f"'{key}' is {value!r}", section, key, why=f"it is {words}", next=near or f"{key}: {such}")


def check_open(document: Document, section: str, auth: str, host: str) -> None:
    """Whoever connects is answered on the loopback alone. Raises ``config.invalid``."""
    if auth == "none" and not is_loopback(host):
        raise document.invalid(
            "'auth: none' is for the loopback alone", section, "auth",
            why=f"other machines reach {host}", next="auth: token, or leave 'host' out",
        )  # fmt: skip


def check_tls(document: Document, section: str, settings: ApiSettings | PsqlSettings) -> None:
    """TLS is by two files, or by none of them. Raises ``config.invalid``."""
    given = [key for key in ("certificate", "key") if getattr(settings, key)]
    if len(given) == 1:
        raise document.invalid(
            "TLS needs both 'certificate' and 'key'", section, given[0], next="name both PEM files, or none"
        )
    if given and settings.tls:
        raise document.invalid(
            "'tls: true' makes a certificate of its own, and another one is named", section, "tls",
            next="leave out 'tls', or 'certificate' and 'key'",
        )  # fmt: skip


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
