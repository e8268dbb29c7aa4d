"""What the commands of tokens and of the audit log share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli import moment

if TYPE_CHECKING:
    from headrace.governance.access import Access
    from headrace.governance.tokens import Token


@contextmanager
def opened(path: Path) -> Iterator[Access]:
    """Who may do what in the project, beside a running `headrace up` or without one."""
    from headrace.catalog.project import STATE
    from headrace.governance.access import Access

    access = Access(path / STATE)
    try:
        yield access
    finally:
        access.close()


def shown(token: Token) -> dict[str, Any]:
    """A token as JSON has it, at the present time: never the token itself, of which only a hash is kept."""
    return token.as_dict(time.time_ns() // 1000)


def since(text: str) -> int:
    """A time, or how long ago, in microseconds since the epoch. Wrong usage when it is neither."""
    from headrace.model.quantity import SECONDS, quantity

    ago_s = quantity(text, SECONDS)
    if ago_s is not None:
        return time.time_ns() // 1000 - int(ago_s * 1e6)
    _, at_us = (None, None) if text.isdigit() else moment.parse(text, "--since")
    if at_us is None:
        raise typer.BadParameter(f"'{text}' is no time such as 2026-03-01T08:00, and not how long ago, such as 2h")
    return at_us


def lifetime(text: str | None) -> float | None:
    """Seconds from now on; None for no end. Wrong usage when it is no number with a unit."""
    from headrace.model.quantity import SECONDS, quantity

    if text is None:
        return None
    seconds = quantity(text, SECONDS)
    if seconds is None:
        raise typer.BadParameter(
            f"'{text}' is no number above 0 with a unit, such as 30d or 12h", param_hint="--expires"
        )
    return seconds
