"""Joins by one key, one after the other: what they keep and what steps take, and the same where every input is kept.

python -m benchmarks.chained [--orders 1000000] [--steps 20] [--changes 1000]

Orders with their payments and shipments, each table with as many rows; each step changes so many rows of each. The
answer is held to DuckDB's. One JSON line a way, the last with the ratios; the exit status is 1 when a row is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.bench import Memory, Views, percentiles, processor_seconds, report, size_of
from benchmarks.bulk import inserted
from headrace.model.schema import Column, Relation

TABLES = {
    name: Relation(name, tuple(Column(column, "bigint", column != "id") for column in columns), ("id",))
    for name, columns in (
        ("orders", ("id", "customer", "total")),
        ("payments", ("id", "of", "amount")),
        ("shipments", ("id", "of", "weight")),
    )
}
VIEW = """select o.id, o.customer, o.total, p.amount, s.weight from {orders} o
left join {payments} p on p.of = o.id left join {shipments} s on s.of = o.id"""
WAYS = ("rejoined", "kept")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--changes", type=int, default=1_000, help="rows of each table in a step")
    chosen = parser.parse_args()
    _measured("kept", chosen)  # the first run of a process has its compilers' work and new memory beside its own
    made = {way: _measured(way, chosen) for way in WAYS}
    for line in made.values():
        report(**line)
    ratios = {key: round(made["rejoined"][key] / made["kept"][key], 3) for key in ("state_bytes", "first_s", "p50_ms")}
    report(benchmark="chained ratio", orders=chosen.orders, changes=chosen.changes, **ratios)
    return 1 if any(line["wrong"] for line in made.values()) else 0


def _measured(way: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """A line of what one way takes and keeps; ``state_bytes`` without the view's own rows."""
    random, rows = np.random.default_rng(0), chosen.orders
    everything = mock.patch("headrace.circuit.operators.rejoined.below", return_value=None)
    with tempfile.TemporaryDirectory() as name, Memory() as memory, everything if way == "kept" else nullcontext():
        folder = Path(name)
        views = Views(folder, TABLES, {"v": VIEW.format(**{table: table for table in TABLES})})
        held = {table: _rows(random, table, np.arange(rows), rows) for table in TABLES}
        views.append({table: inserted([pa.array(column) for column in columns]) for table, columns in held.items()})
        first, busy = views.step(wide=True), processor_seconds()
        took = []
        for _ in range(chosen.steps):
            changes = {}
            for table, columns in held.items():
                ids = random.choice(rows, min(chosen.changes, rows), replace=False)
                changed = _rows(random, table, ids, rows)
                for column, values in zip(columns, changed, strict=True):
                    column[ids] = values
                changes[table] = inserted([pa.array(column) for column in changed])
            views.append(changes)
            took.append(views.step())
        busy, state = processor_seconds() - busy, size_of(folder / "state") - sum(map(_size, views.published))
        for table, columns in held.items():
            parquet.write_table(pa.table(columns, names=list(TABLES[table].names)), folder / f"{table}.parquet")
        answer = VIEW.format(**{table: f"'{folder}/{table}.parquet'" for table in TABLES})
        wrong = views.differing(f"({answer})")
        views.close()
    return {
        "benchmark": "chained", "way": way, "orders": rows, "changes": chosen.changes, "first_s": round(first, 2),
        **percentiles(took), "processor_ms": round(busy * 1000 / chosen.steps, 1), "state_bytes": state,
        "peak_mib": round(memory.peak), "wrong": wrong,
    }  # fmt: skip


def _rows(random: np.random.Generator, table: str, ids: np.ndarray, orders: int) -> list[np.ndarray]:
    """``id``, of which order (an order's own customer), and a number."""
    return [ids.copy(), random.integers(0, orders, len(ids)), random.integers(0, 10_000, len(ids))]


def _size(path: str) -> int:
    return Path(path).stat().st_size


if __name__ == "__main__":
    sys.exit(main())
