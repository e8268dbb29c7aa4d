"""A full or failing disk, told apart from views whose SQL fails and from faults: no edit of theirs would help."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from headrace.model.errors import HeadraceError

# As the system and SQLite say it.
_NO_SPACE = ("No space left on device", "Disk quota exceeded", "File too large", "database or disk is full")
_REFUSED = {
    "Input/output error": "check the disk",
    "disk I/O error": "check the disk, and the space on it",
    "Read-only file system": "make the disk writable",
    "attempt to write a readonly database": "make the disk writable",
    "Permission denied": "let this user read and write there",
    "Too many open files": "raise `ulimit -n`",
    "unable to open database file": "check the disk, the space on it, who may write there, and `ulimit -n`",
}
_OR_FULL = ("disk I/O error", "unable to open database file")  # as SQLite says of a disk that has no space, too
ROOM_BYTES = 1 << 20  # a disk that has less is full
THEN = "then `headrace up`: it goes on where it stopped, and nothing acknowledged is lost"


def refusal(error: BaseException, folder: Path, then: str = THEN) -> HeadraceError | None:
    """``state.full`` or ``state.failed`` when the disk under ``folder`` is what ``error`` comes from, else None.

    It names the file that the system does, else the folder that has no space: this one, or that of temporary files.
    ``then``: what there is to do when the disk is sound again.
    """
    if isinstance(error, HeadraceError):
        return None
    for said, file in _said(error, folder):
        if sign := next((s for s in (*_NO_SPACE, *(_OR_FULL if _full(folder) else ())) if s in said), None):
            return HeadraceError(
                "state.full", "no space is left on the disk", where=file or str(_fullest(folder)), why=sign,
                next=f"free some space, {then}",
            )  # fmt: skip
        if sign := next((sign for sign in _REFUSED if sign in said), None):
            return HeadraceError(
                "state.failed", "the disk refuses what is kept there", where=file or str(folder),
                why=" ".join(said.split()), next=f"{_REFUSED[sign]}, {then}",
            )  # fmt: skip
    return None


def _said(error: BaseException, folder: Path) -> Iterator[tuple[str, str]]:
    """What the system, SQLite or Java say in errors of their own, and the file that it names, else "".

    A failed query's error quotes what it failed on, and a cell may hold any text: of those nothing is taken. A Python
    worker hands on the text alone, and a function of the user may throw what it likes: there it must name the folder.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError | sqlite3.Error):
            file = getattr(cause, "filename", None)
            yield str(cause), os.fsdecode(file) if isinstance(file, str | bytes | Path) else ""
        thrown: Any = getattr(cause, "_origin", None) or getattr(cause, "java_exception", None)
        try:
            while thrown is not None:
                kind, text = str(thrown.getClass().getName()), str(thrown.getMessage())
                if kind.startswith(("java.io.", "java.nio.")):
                    yield text, ""
                elif kind == "org.apache.spark.api.python.PythonException":
                    for line in text.splitlines():
                        if "[errno " in line.lower() and str(folder) in line:
                            yield line, ""
                thrown = thrown.getCause()
        except (Py4JError, OSError):
            pass  # Java has ended meanwhile
        cause = cause.__cause__


def _fullest(folder: Path) -> Path:
    """Of a write that names no file: where there is no space, ``folder`` or what Spark and others write meanwhile."""
    return next((place for place in (folder, Path(tempfile.gettempdir())) if _full(place)), folder)


def _full(folder: Path) -> bool:
    return folder.is_dir() and shutil.disk_usage(folder).free < ROOM_BYTES


def own_refusal(error: BaseException, folder: Path) -> HeadraceError | None:
    """What the disk under ``folder`` refuses to a sink or a source; that of a store is told by its connector."""
    ours = isinstance(error, sqlite3.Error) or str(folder) in str(error)
    return refusal(error, folder, "and it goes on by itself: nothing is lost") if ours else None


@contextmanager
def telling(folder: Path, then: str = THEN) -> Iterator[None]:
    """What the disk under ``folder`` refuses inside is raised as ``refusal`` tells it."""
    try:
        yield
    except Exception as error:
        if known := refusal(error, folder, then):
            raise known from error
        raise
