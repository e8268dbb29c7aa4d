"""A commit or a time, as text names it."""

from __future__ import annotations

import datetime

HINT = "a commit number, or a time such as 2026-03-01T08:00 (UTC unless it names a zone)"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parse(text: str) -> tuple[int | None, int | None]:
    """(commit, None), or (None, time in microseconds since the epoch). Raises ``ValueError`` when it is neither."""
    if text.isascii() and text.isdigit():
        return int(text), None
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is neither {HINT.replace(', or', ' nor')}") from None
    time = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    return None, (time - _EPOCH) // datetime.timedelta(microseconds=1)
