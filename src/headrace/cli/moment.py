"""A commit or a time, as an argument names it."""

from __future__ import annotations

import typer

from headrace.model import moment

HINT = moment.HINT


def parse(text: str, option: str) -> tuple[int | None, int | None]:
    """(commit, None), or (None, time in microseconds since the epoch). Wrong usage when it is neither."""
    try:
        return moment.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
