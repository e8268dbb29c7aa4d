"""A change in one large partition: its first ranks, running windows by order and aggregates beside each row, and the
touched-key rule. Where a frame grows by id, it is one of the last hundred rows that changes: late, but not the latest.

python -m benchmarks.ranking [--rows 1000000] [--steps 10] [--touched-steps 2]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bench import Memory, Views, percentiles, processor_seconds, report, size_of
from headrace.model.schema import Column, Relation

TABLES = {
    "scores": Relation(
        "scores", (Column("id", "bigint", False), Column("team", "int", False), Column("points", "bigint")), ("id",)
    )
}
_NUMBERED = "SELECT id, points, row_number() OVER (PARTITION BY team ORDER BY points DESC, id) AS place FROM scores"
_BY_ID = "OVER (PARTITION BY team ORDER BY id)"
TOUCHED, LATE = "touched keys", ("running sum of doubles", "running maximum", "dense rank")
QUERIES = {
    "top 10 of a group": f"SELECT * FROM ({_NUMBERED}) WHERE place <= 10",
    "limit 10": "SELECT id, points FROM scores ORDER BY points DESC, id LIMIT 10",
    "lag": "SELECT id, lag(points) OVER (PARTITION BY team ORDER BY points, id) AS p FROM scores",
    "greatest of all": "SELECT id, points, max(points) OVER (PARTITION BY team) AS most FROM scores",
    "running sum of doubles": f"SELECT id, sum(points / 7D) {_BY_ID} AS total FROM scores",
    "running maximum": f"SELECT id, max(points) {_BY_ID} AS most FROM scores",
    "dense rank": "SELECT id, dense_rank() OVER (PARTITION BY team ORDER BY id) AS place FROM scores",
    # The first ten thousandths of a percent of the ranks, by the rule for what has no cheaper one.
    TOUCHED: f"SELECT * FROM ({_NUMBERED.replace('row_number', 'percent_rank')}) WHERE place <= 0.00001",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--touched-steps", type=int, default=2)
    chosen = parser.parse_args()
    for name, sql in QUERIES.items():
        random = np.random.default_rng(0)
        with tempfile.TemporaryDirectory() as folder, Memory() as memory:
            views = Views(Path(folder), TABLES, {"v": sql})
            views.append(scores(random, np.arange(chosen.rows)))
            filling = views.step()
            steps = chosen.touched_steps if name == TOUCHED else chosen.steps
            lowest = max(chosen.rows - 100, 0) if name in LATE else 0
            for _ in range(2):
                one(views, random, lowest, chosen.rows)
            busy = processor_seconds()
            took = [one(views, random, lowest, chosen.rows) for _ in range(steps)]
            busy = (processor_seconds() - busy) / steps
            report(
                benchmark="ranking", query=name, group=chosen.rows, changes=1, filling_s=round(filling, 1),
                median_ms=round(statistics.median(took) * 1000, 1), p99_ms=percentiles(took)["p99_ms"],
                processor_ms=round(busy * 1000, 1), peak_mib=round(memory.peak),
                state_bytes=size_of(Path(folder) / "state"),
            )  # fmt: skip
            views.close()


def one(views: Views, random: np.random.Generator, lowest: int, rows: int) -> float:
    """Seconds of a step in which one row gets other points."""
    views.append(scores(random, random.integers(lowest, rows, 1)))
    return views.step()


def scores(random: np.random.Generator, ids: np.ndarray) -> dict[str, tuple[pa.Array, list[pa.Array]]]:
    columns = [ids, np.zeros(len(ids), np.int32), random.integers(0, 1_000_000_000, len(ids))]
    return {"scores": (pa.array(np.zeros(len(ids), np.int8)), [pa.array(c) for c in columns])}


if __name__ == "__main__":
    main()
