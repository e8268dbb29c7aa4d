"""A token that a server makes for its owner, kept in a file of the project that only the owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

TOKEN_PREFIX = "headrace_"  # a token is known as one where it must not be, and is no option of a command line
OWNERS_FILE = Path("tokens") / "api"  # the token of who owns the project


def kept_token(path: Path) -> str:
    """The token in that file, readable by its owner alone; made at the first call."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600, exist_ok=False)
    partial.write_text(token + "\n", encoding="utf-8")
    partial.replace(path)
    return token
