"""How many rows an answer has room for: cells are as large as whoever wrote them wanted, and an answer has an end."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

BYTES_MAX = 16 << 20  # of an answer's columns, where nothing else is said
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def fitting(rows: pa.Table | pa.RecordBatch, most: int) -> int:
    """So many of the first rows have at most ``most`` bytes together."""
    if rows.nbytes <= most:
        return int(rows.num_rows)
    return bisect_right(range(1, rows.num_rows + 1), most, key=lambda count: rows.slice(0, count).nbytes)


@dataclass
class Room:
    """What an answer may still take."""

    bytes: int = BYTES_MAX

    def take(self, rows: Rows, most: int) -> Rows:
        """The first rows, at most so many, that there is room for; it is theirs then."""
        taken = rows.slice(0, most)
        taken = taken.slice(0, fitting(taken, self.bytes))
        self.bytes -= taken.nbytes
        return taken
