"""The layout of the kept files that the catalogue names: runs of state, published deltas, bases.

They are made from the log, so there is no migration: of another layout they are not read but made anew.
"""

from __future__ import annotations

from pathlib import Path

from headrace.model.errors import HeadraceError
from headrace.model.version import VERSION

STATE_LAYOUT = 4
NAME = "state layout"  # in the catalogue's table ``meta``: the number, and the version of Headrace that wrote it


def written() -> str:
    return f"{STATE_LAYOUT} {VERSION}"


def number(value: str) -> int:
    return int(value.split(maxsplit=1)[0])


def other(value: str, folder: Path) -> HeadraceError:
    """What is to be said where files of another layout would be read or written."""
    layout, *version = value.split()
    by = f"version {version[0]} of Headrace wrote them" if version else "an earlier version of Headrace wrote them"
    anew = (
        "`headrace up` makes them anew from the log"
        if int(layout) < STATE_LAYOUT
        else "go on with that version; or `headrace rebuild --all` and then `headrace up` make them anew from the log"
    )
    return HeadraceError(
        "state.layout",
        f"the kept files have layout {layout}, this version knows {STATE_LAYOUT}",
        where=str(folder),
        why=by,
        next=f"{anew}; nothing was changed",
    )
