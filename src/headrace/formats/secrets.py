"""Secrets by reference: ``env:NAME`` and ``file:PATH``, resolved at the moment of use and never stored."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.model.errors import HeadraceError

# Options of connectors whose text is a secret, or has one in it, unless it is a reference.
HOLDS_SECRET = re.compile(r"password|passwd|secret|token|credential|dsn|url|uri|headers", re.IGNORECASE)
MASK = "********"
_REFERENCE = re.compile(r"(env|file):")


def resolve(text: str, where: str = "") -> str:
    """The secret behind a reference; text that is no reference is returned as it is.

    Raises ``HeadraceError`` (config.secret) when the variable or the file does not exist.
    """
    kind, _, name = text.partition(":")
    if kind == "env":
        if name not in os.environ:
            raise HeadraceError(
                "config.secret", f"the environment variable {name} is not set", where=where, next=f"export {name}=..."
            )
        return os.environ[name]
    if kind == "file":
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise HeadraceError(
                "config.secret", f"the secret file {name} cannot be read", where=where,
                why=error.strerror or str(error), next="write the secret into it, or name another file",
            ) from error  # fmt: skip
    return text


def masked(options: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's options without the secrets that stand in them in plain text; references stay."""
    return {name: _masked(value) if HOLDS_SECRET.search(name) else value for name, value in options.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _masked(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(inner) for inner in value]
    return value if value is None or _REFERENCE.match(str(value)) else MASK
