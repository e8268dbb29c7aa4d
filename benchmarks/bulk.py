"""The revenue view (join + aggregate) fed from the log in large steps, its state growing all the while.

python -m benchmarks.bulk [--changes 5000000] [--step 1000000] [--narrow]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bench import Memory, Views, processor_seconds, report
from headrace.model.schema import Column, Relation

TABLES = {
    "orders": Relation(
        "orders",
        (Column("id", "bigint", False), Column("customer", "bigint"), Column("amount", "bigint")),
        ("id",),
    ),
    "customers": Relation("customers", (Column("id", "bigint", False), Column("region", "string")), ("id",)),
}
REVENUE = """select c.region, count(*) orders, sum(o.amount) revenue
from orders o join customers c on o.customer = c.id where o.amount > 0 group by c.region"""
CUSTOMERS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=5_000_000)
    parser.add_argument("--step", type=int, default=1_000_000)
    parser.add_argument("--narrow", action="store_true", help="one task instead of one a core")
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        views = Views(Path(folder), TABLES, {"revenue": REVENUE})
        inserts = pa.array(np.zeros(CUSTOMERS, np.int8))
        regions = pa.array([f"region {i % 1000}" for i in range(CUSTOMERS)])
        views.append({"customers": (inserts, [pa.array(np.arange(CUSTOMERS)), regions])})
        views.step()
        seconds, at, total = 0.0, 0, 0
        while at < chosen.changes:
            size = min(chosen.step, chosen.changes - at)
            amounts = random.integers(-10, 1000, size)
            columns = [np.arange(at, at + size), random.integers(0, CUSTOMERS, size), amounts]
            views.append({"orders": (pa.array(np.zeros(size, np.int8)), [pa.array(c) for c in columns])})
            busy = processor_seconds()
            took = views.step(wide=not chosen.narrow)
            busy = processor_seconds() - busy
            seconds, at, total = seconds + took, at + size, total + int(amounts[amounts > 0].sum())
            report(
                benchmark="bulk step",
                changes=size,
                state=at,
                seconds=round(took, 3),
                per_second=round(size / took),
                processor_seconds=round(busy, 2),
            )
        report(
            benchmark="bulk", changes=at, seconds=round(seconds, 2), per_second=round(at / seconds),
            peak_mib=round(memory.peak), wide=not chosen.narrow,
        )  # fmt: skip
        views.close()


if __name__ == "__main__":
    main()
