"""A new catalogue in place of one that is damaged, or names files of another layout, with what nothing else could tell.

Taken over is what is as it was written; not what is computed from the log: steps, files and checkpoints come again.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from headrace.catalog import sums
from headrace.catalog.store import Catalog
from headrace.catalog.synced import synced

_MADE = "new.catalog"
_READY = "ready.catalog."  # and what the files there were are kept as
# In this order: the rows of the ones name those of the others.
_KEPT = ("meta", "relation", "view", "set_aside", "replay", "settled", "refused", "version")


def salvage(path: Path, why: str = "damaged") -> list[str]:
    """The tables whose rows are lost, of those that would have been kept.

    The files there were stay beside the new one, in the folder ``catalog.WHY.TIME``. Killed at any point, it has not
    begun or is brought to its end by ``go_on``.
    """
    shutil.rmtree(made := path.with_name(_MADE), ignore_errors=True)
    made.mkdir(mode=0o700)
    catalog = Catalog(made / path.name)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as before:
            found = {table: sums.rows(before, table) for table in _KEPT}
        catalog.take_over({table: rows for table, rows in found.items() if rows is not None})
    finally:
        catalog.close()
    synced(made)
    made.rename(path.with_name(f"{_READY}{why}.{time.time_ns()}"))
    synced(path.parent)
    go_on(path)
    return [table for table, rows in found.items() if rows is None]


def go_on(path: Path) -> None:
    """A catalogue that was made anew takes its place, where that is still to be done. The new file comes last."""
    for ready in path.parent.glob(f"{_READY}*"):
        aside = path.with_name(f"catalog.{ready.name.removeprefix(_READY)}")
        aside.mkdir(mode=0o700, exist_ok=True)
        coming = {file.name for file in ready.iterdir()}
        there = [file for file in path.parent.glob("catalog.*") if file.is_file()] if coming else []
        for file in there:
            if file.name in coming or file.name.startswith(f"{path.name}-"):
                file.rename(aside / file.name)
        for name in sorted(coming, key=lambda name: name == path.name):
            (ready / name).rename(path.with_name(name))
        synced(path.parent)
        ready.rmdir()
