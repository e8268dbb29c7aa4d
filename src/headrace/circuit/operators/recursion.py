"""d R(i+1) = d f(R(i)), level by level until a delta is empty: f is stepped once for each level that has rows.

Each level is a circuit of its own, so that retractions find what their level kept; whatever in f does not depend on
the level before is arranged once for all. State: f's, for each level; bounded by the rows of the levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

LEVELS = 100  # as Spark's spark.sql.cteRecursionLevelLimit


class Deepest:
    """A stage that no row may reach: batch stops there too."""

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in pieces:
            if batch.num_rows:
                raise RecursionError(
                    f"[RECURSION_LEVEL_LIMIT_EXCEEDED] the recursive query has rows beyond level {LEVELS}"
                )
            yield batch
