"""``api:`` in headrace.yaml: where the API and the page are served, and to whom."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from headrace.catalog.document import Document, did_you_mean
from headrace.model.definition import ApiSettings

KEY = "api"
KEYS = ("enabled", "host", "port", "auth", "memory")
_MEMORY = re.compile(r"[1-9]\d*(\.\d+)?\s*([KMGT]i?B)", re.IGNORECASE)


def read_api(document: Document) -> ApiSettings:
    """Raises ``config.invalid`` and ``config.unknown_key``."""
    written = document.values[KEY]
    if not isinstance(written, dict):
        raise document.invalid("'api' must be a mapping", KEY, next="api:\n  port: 7070")
    for key in written:
        if key not in KEYS:
            raise document.unknown(key, KEYS, KEY, key)
    settings = ApiSettings(**{key: _value(document, key, value) for key, value in written.items()})
    if settings.auth == "none" and not _loopback(settings.host):
        raise document.invalid(
            "'auth: none' is for the loopback alone", KEY, "auth",
            why=f"other machines reach {settings.host}", next="auth: token, or leave 'host' out",
        )  # fmt: skip
    return settings


def _value(document: Document, key: str, value: Any) -> Any:
    if key == "enabled" and isinstance(value, bool):
        return value
    if key == "port" and isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
        return value
    if key == "host" and isinstance(value, str) and value.strip():
        return value.strip()
    if key == "auth" and value in ("token", "none"):
        return value
    if key == "memory" and isinstance(value, str) and _MEMORY.fullmatch(value.strip()):
        return value.strip()
    words, such = {
        "enabled": ("true or false", "true"), "port": ("a number from 0 to 65535; 0 takes a free one", "7070"),
        "host": ("an address of this machine", "127.0.0.1"), "auth": ("`token` or `none`", "token"),
        "memory": ("a number with a unit", "512MB"),
    }[key]  # fmt: skip
    near = did_you_mean(str(value), ["token", "none"]) if key == "auth" else ""
    raise document.invalid(f"'{key}' is {value!r}", KEY, key, why=f"it is {words}", next=near or f"{key}: {such}")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
