"""A full or failing disk under the views, told apart from views whose SQL fails: no edit of theirs would help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.model.errors import HeadraceError

# As the system, SQLite and Spark say it; from a task only the text arrives.
_NO_SPACE = ("No space left on device", "Disk quota exceeded", "database or disk is full")
_REFUSED = {
    "Input/output error": "check the disk",
    "disk I/O error": "check the disk, and the space on it",
    "Read-only file system": "make the disk writable",
    "attempt to write a readonly database": "make the disk writable",
    "Permission denied": "let this user write there",
    "Too many open files": "raise `ulimit -n`",
    "unable to open database file": "check the disk, the space on it, who may write there, and `ulimit -n`",
}
_THEN = "then `headrace up`: it goes on where it stopped, and nothing acknowledged is lost"


def refusal(error: BaseException, folder: Path, then: str = _THEN) -> HeadraceError | None:
    """``state.full`` or ``state.failed`` when the disk under ``folder`` is what ``error`` comes from, else None.

    ``then``: what there is to do when the disk is sound again.
    """
    if isinstance(error, HeadraceError):
        return None
    text = f"{error}\n{error.__cause__}"
    if sign := next((sign for sign in _NO_SPACE if sign in text), None):
        return HeadraceError(
            "state.full", "no space is left to keep the views", where=str(folder), why=sign,
            next=f"free some space, {then}",
        )  # fmt: skip
    if sign := next((sign for sign in _REFUSED if sign in text), None):
        return HeadraceError(
            "state.failed", "the disk refuses what the views are kept in", where=str(folder),
            why=" ".join(str(error).split()), next=f"{_REFUSED[sign]}, {then}",
        )  # fmt: skip
    return None


@contextmanager
def telling(folder: Path) -> Iterator[None]:
    """What the disk under ``folder`` refuses inside is raised as ``refusal`` tells it."""
    try:
        yield
    except Exception as error:
        if known := refusal(error, folder):
            raise known from error
        raise
