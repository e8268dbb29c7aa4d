"""The deltas of a feed become part of its base, merged beside the steps, at the cost of what has changed.

A base is files that add up to the contents as of a step. Of the deltas since, one file is made, together with the
newest files of the base that are not much larger, so that a row is written again as often as its feed grows twofold.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.catalog.store import Catalog
from headrace.engine.backfill import sync_names
from headrace.engine.kept import MERGED
from headrace.serve.snapshot import PART
from headrace.serve.sound import File, sound
from headrace.state.arrangement import Run, mergeable
from headrace.state.rows import consolidate
from headrace.state.run import checksums, copies, open_run, rows_of, write_run


@dataclass(frozen=True, slots=True)
class Coming:
    """What a feed is as of a step, to take the place of its base ``before``. ``path``: of the file that is new."""

    step: int
    upto: int
    before: tuple[int, int, list[str], int] | None
    path: Path
    made: Future[list[File]]


class Compactions:
    """Called on the engine's thread; files are merged on another, feed after feed."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        """``folder``: of the state."""
        self._folder, self._catalog = folder / MERGED, catalog
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="headrace-compact")
        self._coming: dict[str, Coming] = {}

    @property
    def files(self) -> set[str]:
        """Those that are being made."""
        return {str(coming.path) for coming in self._coming.values()}

    def begin(self, feed: str, step: int, upto: int) -> None:
        """The deltas up to a published step, which ends at commit ``upto``, unless others are at it already."""
        if feed in self._coming:
            return
        base, before = self._catalog.base_files(feed), self._catalog.base(feed)
        deltas = [(o.path, o.sums) for o in self._catalog.outputs(before[0] if before else -1, step, feed)]
        if not deltas:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{PART}{feed}~{step}~{time.time_ns()}.arrow"
        made = self._worker.submit(merged, feed, base, deltas, path)
        self._coming[feed] = Coming(step, upto, before, path, made)

    def put(self, *, all_of_them: bool = False) -> None:
        """Those that are made become bases; ``all_of_them``: wait for them. Raises what kept one from being made."""
        if all_of_them:
            wait([coming.made for coming in self._coming.values()])
        for feed, coming in list(self._coming.items()):
            if not coming.made.done():
                continue
            del self._coming[feed]
            kept = {record.feed for record in self._catalog.views().values()}
            if feed not in kept or self._catalog.base(feed) != coming.before:
                continue  # it is another base by now, or nobody's: what was merged is of no use
            files = coming.made.result()
            rows = sum(copies(path) for path, _ in files)
            self._catalog.put_base(
                feed, coming.step, coming.upto, [path for path, _ in files], rows, [sums for _, sums in files]
            )

    def close(self) -> None:
        self._worker.shutdown()


def merged(feed: str, base: Sequence[File], deltas: Sequence[File], path: Path) -> list[File]:
    """The files of the base that ``deltas`` make of ``base``, with a new one at ``path``, which is on the disk.

    Raises ``state.corrupt``.
    """
    sound([*base, *deltas], feed.rpartition("@")[0])
    added = sum(rows_of(file) for file, _ in deltas)
    runs = [Run(file, rows_of(file), 0) for file, _ in base]
    start = min(mergeable([*runs, Run(str(path), added, 0)]), len(base))
    try:
        rows = _added([*base[start:], *deltas])
    except (OverflowError, pa.ArrowException):  # more text in a column than one file can have
        start = len(base)
        rows = _added(deltas)
    if not rows.num_rows:
        return list(base[:start])
    write_run(path, rows)
    sums = checksums(path, sync=True)
    sync_names([path])
    return [*base[:start], (str(path), sums)]


def _added(files: Sequence[File]) -> pa.Table:
    """What they add up to."""
    tables = [open_run(file) for file, _ in files]
    return consolidate(pa.concat_tables(t.drop_columns(["_i"]) if "_i" in t.column_names else t for t in tables))
