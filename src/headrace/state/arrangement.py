"""An arrangement: the kept contents of a relation, found by key hash; runs that are merged geometrically."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.state.narrow import widened
from headrace.state.phases import PROBE, timed
from headrace.state.reads import READS
from headrace.state.run import HASH, column, stored_run

MERGE_RATIO = 2  # a run is merged with its successors once they hold half as many rows
MERGE_BYTES = 1 << 30  # a run's strings must fit 32-bit offsets
HEAVY_ROW = 2 << 10  # bytes; a batch of Arrow has 8,192 rows
HEAVY_FILE = 1 << 20  # bytes; a smaller one is mostly its own frame, or has too few rows to weigh anything


@dataclass(frozen=True, slots=True)
class Run:
    """A run's place and size, as manifests keep it."""

    path: str
    rows: int
    size: int  # bytes


def heavy(size: int, rows: int) -> bool:
    """Whether a file's rows are so long that a batch of thousands of them would take much of the memory."""
    return size > max(rows * HEAVY_ROW, HEAVY_FILE)


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows found: ``keys[i]`` is the index of the probed hash and ``runs[i]`` the run's ordinal (later = newer)."""

    keys: np.ndarray
    runs: np.ndarray
    rows: pa.Table


class Arrangement:
    """Runs read as of one step, oldest first. Rows of equal content may stand in several runs, to be added up.

    ``reader``: who reads, for the count of ``READS``. ``arranged``: gives an unsorted run its hashes and order.
    """

    def __init__(
        self, paths: Sequence[str], reader: str, arranged: Callable[[pa.Table], pa.Table] | None = None
    ) -> None:
        self.paths, self.reader, self._arranged = paths, reader, arranged

    @timed(PROBE)
    def all(self) -> list[pa.Table]:
        """Every row that is kept, run by run."""
        tables = [widened(self._opened(path)) for path in self.paths]
        READS[self.reader] += sum(table.num_rows for table in tables)
        return tables

    @timed(PROBE)
    def probe(self, hashes: np.ndarray, columns: Sequence[str], empty: pa.Schema) -> Hits:
        """All rows whose hash is among ``hashes`` (sorted, distinct). Work: hashes x log(rows) a run, plus the hits.

        ``empty`` is the schema of the result when there is no run.
        """
        keys: list[np.ndarray] = []
        runs: list[np.ndarray] = []
        tables: list[pa.Table] = []
        for ordinal, path in enumerate(self.paths):
            table = self._opened(path)
            kept = column(table, HASH)
            low = np.searchsorted(kept, hashes, "left")
            count = np.searchsorted(kept, hashes, "right") - low
            total = int(count.sum())
            if total == 0:
                continue
            READS[self.reader] += total
            index = np.repeat(np.arange(len(hashes)), count)
            first = np.cumsum(count) - count
            rows = np.arange(total) - np.repeat(first - low, count)
            keys.append(index)
            runs.append(np.full(total, ordinal, np.int32))
            tables.append(widened(table.select(list(columns)).take(pa.array(rows))))
        if not tables:
            none = np.empty(0, np.int64)
            return Hits(none, none.astype(np.int32), empty.empty_table())
        return Hits(np.concatenate(keys), np.concatenate(runs), pa.concat_tables(tables))

    @timed(PROBE)
    def present(self, hashes: np.ndarray) -> np.ndarray:
        """Those of the hashes (sorted) that stand in some run. No row is read: work is hashes x log(rows) a run."""
        found = np.zeros(len(hashes), bool)
        for path in self.paths:
            kept = column(self._opened(path), HASH)
            found |= np.searchsorted(kept, hashes, "left") < np.searchsorted(kept, hashes, "right")
        return hashes[found]

    def _opened(self, path: str) -> pa.Table:
        table = stored_run(path)
        return table if self._arranged is None or HASH in table.column_names else self._arranged(table)


def mergeable(runs: Sequence[Run], limit: int = MERGE_BYTES) -> int:
    """The index from which a list of runs (oldest first) should be merged into one; its length when none should.

    ``limit``: no merged run has more bytes.
    """
    if len(runs) < 2:
        return len(runs)
    start, rows, size = len(runs) - 1, runs[-1].rows, runs[-1].size
    while start > 0 and runs[start - 1].rows < MERGE_RATIO * rows and runs[start - 1].size + size < limit:
        start -= 1
        rows, size = rows + runs[start].rows, size + runs[start].size
    return start if start < len(runs) - 1 else len(runs)
