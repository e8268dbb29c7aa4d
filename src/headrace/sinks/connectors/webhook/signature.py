"""The signature of Standard Webhooks (version 1, symmetric): HMAC-SHA256 over ``id.timestamp.body``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from headrace.formats.secrets import resolve
from headrace.model.errors import HeadraceError

PREFIX = "whsec_"
BYTES_MIN = 24


def signed(keys: Iterable[bytes], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers, with a signature by each key."""
    content = f"{id}.{timestamp}.".encode() + body
    made = (base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in made),
    }


def keys(secrets: Iterable[str], where: str = "") -> list[bytes]:
    """The keys behind references to secrets. Raises ``config.secret``."""
    found = []
    for secret in secrets:
        text = resolve(secret, where)
        try:
            key = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
        except binascii.Error:
            key = b""
        if len(key) < BYTES_MIN:
            raise HeadraceError(
                "config.secret",
                f"'secret' is not {PREFIX} and at least {BYTES_MIN} bytes in base64",
                where=where,
                next=f'make one with `echo "{PREFIX}$(openssl rand -base64 32)"`, and give it to the receiver too',
            )
        found.append(key)
    return found
