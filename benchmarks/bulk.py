"""The revenue view (join + aggregate) fed from the log in large steps, its state growing all the while.

python -m benchmarks.bulk [--changes 5000000] [--step 1000000] [--narrow]

The view is held to DuckDB over Parquet files of the same rows, which is timed: a step is beside computing all of it
anew. One JSON line a step and one of all; the exit status is 1 when a row is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.answers import anew, beside
from benchmarks.bench import Memory, Views, percentiles, processor_seconds, report, size_of
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
from {orders} o join {customers} c on o.customer = c.id where o.amount > 0 group by c.region"""
CUSTOMERS = 100_000
REGIONS = pa.array([f"region {i % 1000}" for i in range(CUSTOMERS)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=5_000_000)
    parser.add_argument("--step", type=int, default=1_000_000)
    parser.add_argument("--narrow", action="store_true", help="one task instead of one a core")
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name, Memory() as memory:
        folder = Path(name)
        views = Views(folder, TABLES, {"revenue": REVENUE.format(orders="orders", customers="customers")})
        append(views, folder, "customers", [pa.array(np.arange(CUSTOMERS)), REGIONS])
        views.step()
        took: list[float] = []
        at = 0
        while at < chosen.changes:
            size = min(chosen.step, chosen.changes - at)
            columns = [np.arange(at, at + size), random.integers(0, CUSTOMERS, size), random.integers(-10, 1000, size)]
            append(views, folder, "orders", [pa.array(column) for column in columns])
            busy = processor_seconds()
            took.append(views.step(wide=not chosen.narrow))
            busy, at = processor_seconds() - busy, at + size
            report(
                benchmark="bulk step", changes=size, state=at, seconds=round(took[-1], 3),
                per_second=round(size / took[-1]), processor_seconds=round(busy, 2),
            )  # fmt: skip
        answer = REVENUE.format(**{table: f"'{folder}/{table}/*.parquet'" for table in TABLES})
        wrong, steps = views.differing(f"({answer})"), percentiles(took, "step_")
        report(
            benchmark="bulk", changes=at, seconds=round(sum(took), 2), per_second=round(at / sum(took)),
            **steps, peak_mib=round(memory.peak), state_bytes=size_of(folder / "state"), wide=not chosen.narrow,
            **beside(anew(answer), steps["step_p50_ms"]), wrong=wrong,
        )  # fmt: skip
        views.close()
    return 1 if wrong else 0


def inserted(columns: list[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
    """Operations and columns of new rows, or of rows in place of those with their key."""
    return pa.array(np.zeros(len(columns[0]), np.int8)), columns


def append(views: Views, folder: Path, table: str, columns: list[pa.Array]) -> None:
    """One transaction of new rows, and a Parquet file of them."""
    views.append({table: inserted(columns)})
    (folder / table).mkdir(exist_ok=True)
    rows = pa.table(columns, names=list(TABLES[table].names))
    parquet.write_table(rows, folder / table / f"part-{views.log.end:05d}.parquet")


if __name__ == "__main__":
    sys.exit(main())
