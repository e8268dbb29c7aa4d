"""Files of views are read only when they are as they were written: each is checked once by a process that reads it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from headrace.model.errors import HeadraceError
from headrace.state import reference
from headrace.state.reference import is_reference
from headrace.state.run import damage

KNOWN_MAX = 4096
File = tuple[str, str]  # path and ``checksums``; empty where they were not written down

_known: OrderedDict[str, None] = OrderedDict()


def sound(files: Iterable[File], view: str = "") -> list[str]:
    """The paths. Raises ``state.corrupt``; that a file is missing is told by who opens it.

    ``view``: whose files they are; state is nobody's alone.
    Work: one reading of each file that this process has not checked, about a second a gigabyte.
    """
    return [_once(path, sums, view) for path, sums in files]


def known() -> list[str]:
    """The files that this process has checked, for ``take``."""
    return list(_known)


def take(paths: Iterable[str]) -> None:
    """Have files as checked: by this process, or by a copy of it."""
    for path in paths:
        _known[path] = None
    while len(_known) > KNOWN_MAX:
        _known.popitem(last=False)


def sound_now(files: Iterable[File], view: str = "") -> None:
    """As ``sound``, also of files that were checked before: a disk may forget."""
    for path, sums in files:
        _check(path, sums, view)


def _once(path: str, sums: str, view: str) -> str:
    if path not in _known and _check(path, sums, view):
        take([path])
    return path


def _check(path: str, sums: str, view: str) -> bool:
    """Whether the file could be looked at."""
    if not sums:
        return False
    try:
        found = damage(Path(path), sums)
    except FileNotFoundError:
        return False
    if found:
        raise HeadraceError(
            "state.corrupt",
            f"a file of view {view} is damaged" if view else "a file of kept state is damaged",
            where=path,
            why=f"{found}; the log is not concerned",
            next=f"`headrace rebuild {view or '--all'}` makes it anew from the log; and check the disk",
        )
    if is_reference(path):
        reference.check(path)
    return True
