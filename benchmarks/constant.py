"""A step of 100 changes with little and with much state: work follows the change.

python -m benchmarks.constant [--small 10000] [--large 5000000] [--steps 20]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bench import Views, processor_seconds, report
from benchmarks.bulk import CUSTOMERS, REVENUE, TABLES

CHANGES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=5_000_000)
    parser.add_argument("--steps", type=int, default=20)
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        views = Views(Path(folder), TABLES, {"revenue": REVENUE})
        regions = pa.array([f"region {i % 1000}" for i in range(CUSTOMERS)])
        views.append({"customers": (pa.array(np.zeros(CUSTOMERS, np.int8)), [pa.array(np.arange(CUSTOMERS)), regions])})
        views.step()
        found = {}
        at = 0
        for state in (chosen.small, chosen.large):
            while at < state:
                size = min(1_000_000, state - at)
                views.append(orders(random, np.arange(at, at + size)))
                views.step()
                at += size
            for _ in range(5):
                views.append(orders(random, random.integers(0, at, CHANGES)))
                views.step()
            took, busy = [], processor_seconds()
            for _ in range(chosen.steps):
                views.append(orders(random, random.integers(0, at, CHANGES)))
                took.append(views.step())
            busy = (processor_seconds() - busy) / chosen.steps
            found[state] = statistics.median(took)
            report(
                benchmark="constant", state=state, changes=CHANGES, median_ms=round(found[state] * 1000, 1),
                processor_ms=round(busy * 1000, 1),
            )  # fmt: skip
        report(benchmark="constant ratio", ratio=round(found[chosen.large] / found[chosen.small], 2))
        views.close()


def orders(random: np.random.Generator, ids: np.ndarray) -> dict[str, tuple[pa.Array, list[pa.Array]]]:
    """Orders with these ids: new ones, or new amounts and customers for those that exist."""
    columns = [ids, random.integers(0, CUSTOMERS, len(ids)), random.integers(-10, 1000, len(ids))]
    return {"orders": (pa.array(np.zeros(len(ids), np.int8)), [pa.array(c) for c in columns])}


if __name__ == "__main__":
    main()
