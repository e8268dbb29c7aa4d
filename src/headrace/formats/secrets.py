"""Secrets by reference: ``env:NAME`` and ``file:PATH``, resolved at the moment of use and never stored."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.model.errors import HeadraceError


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
