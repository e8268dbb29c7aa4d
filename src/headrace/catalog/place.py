"""Where a project's state lies: a folder that was copied with all that is in it is told from one that was moved.

A copy has the original's id, and with it the slot at a PostgreSQL server and the names in sinks, and its history, by
which sinks know what they are given: both would be one.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from headrace.catalog.project import HISTORY, STATE
from headrace.model.errors import HeadraceError

PLACE = "place"  # the file with the path of the state's folder, its device and inode
OWN = "own"  # the same of a copy, as it was made a project of its own
_KNOWN = ("id", HISTORY)  # the words that sources and sinks know a project by, made when the first of them asks
_ITSELF = (*_KNOWN, PLACE, OWN, "confirmed")  # what makes a project itself, in files and folders


def take(project: Path, *, as_copy: bool = False) -> None:
    """At a start: the state lies here from now on. ``as_copy``: it becomes a project of its own, once.

    Raises ``project.copied`` while the folder that this one was copied from is there with the same state.
    """
    home = project.resolve() / STATE
    here = _seen(home)
    own = _read(home / OWN)
    made = as_copy and (own is None or own[1:] != here[1:])
    if made:
        for name in _ITSELF:
            file = home / name
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    check(project)
    for name in (PLACE, OWN) if made else (PLACE,):
        if _read(home / name) != here:
            partial = home / f".{name}"
            partial.write_text(json.dumps(here))
            partial.rename(home / name)


def check(project: Path) -> None:
    """Raises ``project.copied`` as ``take`` does; changes nothing."""
    home = project.resolve() / STATE
    original = _original(home, _seen(home)) if home.is_dir() else None
    if original is not None:
        raise HeadraceError(
            "project.copied", f"this project is a copy of {original.parent}, which is still there",
            where=str(home.parent),
            why="both are known by one id and history: they would take the same slot at a source, and the same tables "
            "in a sink, from each other",
            next="go on with one of the two and remove the other; or point the sinks here somewhere else, and "
            "`headrace up --as-copy` makes it a project of its own",
        )  # fmt: skip


def _original(home: Path, here: list[str | int]) -> Path | None:
    """The folder that this one was copied from, if it is there as it was then."""
    before = _read(home / PLACE)
    if before is None or before[1:] == here[1:]:  # new, at its place, or moved within a disk
        return None
    there = Path(str(before[0]))
    for word in _KNOWN:
        with contextlib.suppress(OSError):
            if _seen(there) == before and (there / word).read_bytes() == (home / word).read_bytes():
                return there
    return None


def _seen(home: Path) -> list[str | int]:
    found = home.stat()
    return [str(home), found.st_dev, found.st_ino]


def _read(file: Path) -> list[str | int] | None:
    try:
        found: list[str | int] = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return found
