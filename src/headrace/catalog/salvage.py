"""A new catalogue in place of one that is damaged, or names files of another layout, with what nothing else could tell.

Taken over is what is as it was written; not what is computed from the log: steps, files and checkpoints come again.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from headrace.catalog import sums
from headrace.catalog.store import Catalog

# In this order: the rows of the ones name those of the others.
_KEPT = ("meta", "relation", "view", "set_aside", "replay", "settled", "refused")


def salvage(path: Path, why: str = "damaged") -> list[str]:
    """The tables whose rows are lost, of those that would have been kept.

    The files there were stay beside the new one, in the folder ``catalog.WHY.TIME``.
    """
    aside = path.with_name(f"catalog.{why}.{time.time_ns()}")
    aside.mkdir(mode=0o700)
    for file in path.parent.glob("catalog.*"):
        if file.is_file():
            file.rename(aside / file.name)
    catalog = Catalog(path)
    try:
        with closing(sqlite3.connect(f"{(aside / path.name).absolute().as_uri()}?mode=ro", uri=True)) as before:
            found = {table: sums.rows(before, table) for table in _KEPT}
        catalog.take_over({table: rows for table, rows in found.items() if rows is not None})
    finally:
        catalog.close()
    return [table for table, rows in found.items() if rows is None]
