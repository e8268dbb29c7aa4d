"""A full disk under the views: told apart from views whose SQL fails, since no edit of theirs would help."""

from __future__ import annotations

from pathlib import Path

from headrace.model.errors import HeadraceError

# As the system, SQLite and Spark say it; from a task only the text arrives.
_SIGNS = ("No space left on device", "Disk quota exceeded", "database or disk is full")


def no_space(error: BaseException, folder: Path) -> HeadraceError | None:
    """``state.full`` when that is what ``error`` comes from, else None."""
    text = f"{error}\n{error.__cause__}"
    sign = next((sign for sign in _SIGNS if sign in text), None)
    if sign is None or isinstance(error, HeadraceError):
        return None
    return HeadraceError(
        "state.full",
        "no space is left to keep the views",
        where=str(folder),
        why=sign,
        next="free some space, then `headrace up`: it goes on where it stopped, and nothing acknowledged is lost",
    )
