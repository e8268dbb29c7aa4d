"""A commit or a time, as an argument names it."""

from __future__ import annotations

from collections.abc import Callable

import typer

from headrace.model import moment

HINT = moment.HINT


def parse(text: str, option: str) -> tuple[int | None, int | None]:
    """(commit, None), or (None, time in microseconds since the epoch). Wrong usage when it is neither."""
    try:
        return moment.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def commit(text: str | None, option: str, commit_by: Callable[[int], int]) -> int | None:
    """The commit, or the one that ``commit_by`` finds for the time; None where none is named."""
    named, time_us = parse(text, option) if text is not None else (None, None)
    return commit_by(time_us) if time_us is not None else named
