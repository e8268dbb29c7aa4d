"""A step of a single changed row with little and with much state: work follows the change, merges included.

python -m benchmarks.constant [--states 100000 1000000 10000000] [--changes 1] [--steps 300]

The view joins orders with customers and aggregates by region; a change is a new amount and customer of some order. One
JSON line a size; the last line compares the largest with the smallest.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bench import Memory, Views, processor_seconds, report, size_of
from benchmarks.bulk import CUSTOMERS, REVENUE, TABLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000], help="orders")
    parser.add_argument("--changes", type=int, default=1, help="rows of a step")
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        views = Views(Path(folder), TABLES, {"revenue": REVENUE.format(orders="orders", customers="customers")})
        regions = pa.array([f"region {i % 1000}" for i in range(CUSTOMERS)])
        views.append({"customers": (pa.array(np.zeros(CUSTOMERS, np.int8)), [pa.array(np.arange(CUSTOMERS)), regions])})
        views.step()
        found = []
        at = 0
        for state in sorted(chosen.states):
            while at < state:
                size = min(1_000_000, state - at)
                views.append(orders(random, np.arange(at, at + size)))
                views.step()
                at += size
            for _ in range(10):
                views.append(orders(random, random.integers(0, at, chosen.changes)))
                views.step()
            took, busy = [], processor_seconds()
            for _ in range(chosen.steps):
                views.append(orders(random, random.integers(0, at, chosen.changes)))
                took.append(1000 * views.step())
            busy = (processor_seconds() - busy) / chosen.steps
            found.append((statistics.median(took), statistics.quantiles(took, n=100, method="inclusive")[98]))
            report(
                benchmark="constant", state=state, changes=chosen.changes, median_ms=round(found[-1][0], 1),
                p99_ms=round(found[-1][1], 1), processor_ms=round(busy * 1000, 1),
                peak_mib=round(memory.peak), state_bytes=size_of(Path(folder) / "state"),
            )  # fmt: skip
        (median, p99), (largest_median, largest_p99) = found[0], found[-1]
        ratios = {"ratio": round(largest_median / median, 2), "p99_ratio": round(largest_p99 / p99, 2)}
        report(benchmark="constant ratio", **ratios)
        views.close()


def orders(random: np.random.Generator, ids: np.ndarray) -> dict[str, tuple[pa.Array, list[pa.Array]]]:
    """Orders with these ids: new ones, or new amounts and customers for those that exist."""
    columns = [ids, random.integers(0, CUSTOMERS, len(ids)), random.integers(-10, 1000, len(ids))]
    return {"orders": (pa.array(np.zeros(len(ids), np.int8)), [pa.array(c) for c in columns])}


if __name__ == "__main__":
    main()
