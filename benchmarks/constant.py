"""A step of a single changed row with little and with much state: work follows the change, merges included.

python -m benchmarks.constant [--states 100000 1000000 10000000] [--changes 1] [--steps 300]

The view joins orders with customers and aggregates by region; a change is a new amount and customer of some order. At
each size the view is held to DuckDB over Parquet files of the rows as they are then, and a step is beside what
computing all of it anew takes. One JSON line a size; the last line compares the largest with the smallest. The exit
status is 1 when a row was wrong.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.answers import anew, beside
from benchmarks.bench import Memory, Views, processor_seconds, report, size_of
from benchmarks.bulk import CUSTOMERS, REGIONS, REVENUE, TABLES, inserted

LOOK_S = 10.0  # between two looks at the memory, so seldom that they are not seen in 99 of 100 steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000], help="orders")
    parser.add_argument("--changes", type=int, default=1, help="rows of a step")
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Memory(LOOK_S) as memory:
        views = Views(Path(folder), TABLES, {"revenue": REVENUE.format(orders="orders", customers="customers")})
        views.append({"customers": inserted([pa.array(np.arange(CUSTOMERS)), REGIONS])})
        views.step()
        orders, found = Orders(max(chosen.states)), []
        wrong = at = 0
        for state in sorted(chosen.states):
            while at < state:
                size = min(1_000_000, state - at)
                views.append(orders.put(np.arange(at, at + size)))
                views.step()
                at += size
            for _ in range(10):
                views.append(orders.put(orders.random.integers(0, at, chosen.changes)))
                views.step()
            took, busy = [], processor_seconds()
            for _ in range(chosen.steps):
                views.append(orders.put(orders.random.integers(0, at, chosen.changes)))
                took.append(1000 * views.step())
            busy = (processor_seconds() - busy) / chosen.steps
            found.append((statistics.median(took), statistics.quantiles(took, n=100, method="inclusive")[98]))
            answer = orders.answer(Path(folder), at)
            wrong += (different := views.differing(f"({answer})"))
            report(
                benchmark="constant", state=state, changes=chosen.changes, median_ms=round(found[-1][0], 1),
                p99_ms=round(found[-1][1], 1), processor_ms=round(busy * 1000, 1),
                peak_mib=round(memory.peak), state_bytes=size_of(Path(folder) / "state"),
                **beside(anew(answer), found[-1][0]), wrong=different,
            )  # fmt: skip
        (median, p99), (largest_median, largest_p99) = found[0], found[-1]
        ratios = {"ratio": round(largest_median / median, 2), "p99_ratio": round(largest_p99 / p99, 2)}
        report(benchmark="constant ratio", **ratios, wrong=wrong)
        views.close()
    return 1 if wrong else 0


class Orders:
    """The orders as they are: customers and amounts by id."""

    def __init__(self, most: int) -> None:
        self.random = np.random.default_rng(0)
        self.columns = np.zeros((2, most), np.int64)

    def put(self, ids: np.ndarray) -> dict[str, tuple[pa.Array, list[pa.Array]]]:
        """Orders with these ids: new ones, or new amounts and customers for those that exist."""
        self.columns[:, ids] = (self.random.integers(0, CUSTOMERS, len(ids)), self.random.integers(-10, 1000, len(ids)))
        return {"orders": inserted([pa.array(ids), *(pa.array(column) for column in self.columns[:, ids])])}

    def answer(self, folder: Path, count: int) -> str:
        """The query over files of the first so many orders and of the customers."""
        made = {
            "orders": [np.arange(count), *self.columns[:, :count]], "customers": [np.arange(CUSTOMERS), REGIONS],
        }  # fmt: skip
        for table, columns in made.items():
            parquet.write_table(pa.table(columns, names=list(TABLES[table].names)), folder / f"{table}.parquet")
        return REVENUE.format(**{table: f"'{folder}/{table}.parquet'" for table in made})


if __name__ == "__main__":
    sys.exit(main())
