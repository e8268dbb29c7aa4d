"""Where a step's rows enter: a Python stage that reads the log, or a scan in the JVM that hands them to Python.

python -m benchmarks.leaf [--rows 100 1000000] [--rounds 20]

Each size is read by five plans, made once and run in turn. ``python``: one stage that maps the file and takes its
rows, as a step does; ``jvm``: the vectorized scan of Spark of the same rows in Parquet, handed to a stage that takes
them; ``alone``: that scan, taken by Spark itself; ``stage``: a stage that is handed nothing; ``job``: no stage at all.
To take is to add up all numbers and the bytes of all texts. One JSON line each: milliseconds, the median by the clock
and the mean of a processor; the exit status is 1 when a sum is wrong.

"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bench import processor_seconds, report
from headrace.engine.session import open_session
from headrace.model.definition import Settings

SUM, TASKS = "total bigint", 2
NUMBERS = ("id", "customer", "amount")
BATCH = 65_536  # rows of one in the file
WARM = 10  # rounds that do not count
Batches = Iterable[pa.RecordBatch]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 1_000_000])
    parser.add_argument("--rounds", type=int, default=20)
    chosen = parser.parse_args()
    spark, wrong = open_session(Settings(driver_memory="1g")), 0
    for rows in chosen.rows:
        with tempfile.TemporaryDirectory() as folder:
            wrong += measured(spark, Path(folder), rows, chosen.rounds)
    spark.stop()
    return int(wrong > 0)


def measured(spark: SparkSession, folder: Path, rows: int, rounds: int) -> int:
    """How many sums were wrong."""
    table = orders(rows)
    tasks = 1 if rows <= BATCH else TASKS  # a small step is one task
    with pa.OSFile(str(folder / "log"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, BATCH)
    for task in range(tasks):
        share = -(-rows // tasks)
        pq.write_table(table.slice(task * share, share), folder / f"{task}.parquet", compression="none")
    plans = {name: planned(frame) for name, frame in frames(spark, folder, tasks).items()}
    right = {"python": total(table), "stage": 0, "job": 0}
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in plans}
    wrong = 0
    for turn in range(WARM + rounds):
        for name, run in plans.items():
            began, busy = time.perf_counter(), processor_seconds()
            found = run()
            if turn >= WARM:
                took[name].append((time.perf_counter() - began, processor_seconds() - busy))
            wrong += found != right.get(name, right["python"])
    for name, each in took.items():
        report(
            benchmark="leaf", rows=rows, plan=name, tasks=tasks, rounds=rounds, wrong=wrong,
            ms=round(statistics.median(clock for clock, _ in each) * 1000, 1),
            processor_ms=round(statistics.mean(busy for _, busy in each) * 1000, 1),
        )  # fmt: skip
    return wrong


def orders(rows: int) -> pa.Table:
    random = np.random.default_rng(0)
    numbers = {name: random.integers(0, rows, rows) for name in NUMBERS}
    return pa.table({**numbers, "note": pa.array([f"order {each}" for each in numbers["id"].tolist()])})


def frames(spark: SparkSession, folder: Path, tasks: int) -> dict[str, DataFrame]:
    empty = spark.range(0, tasks, 1, tasks)
    scan = spark.read.parquet(*[str(folder / f"{task}.parquet") for task in range(tasks)])
    return {
        "python": empty.mapInArrow(Read(folder / "log", tasks), SUM),
        "jvm": scan.mapInArrow(added, SUM),
        "alone": scan.agg(sum(F.sum(name) for name in NUMBERS) + F.sum(F.octet_length("note"))),
        "stage": empty.mapInArrow(nothing, SUM),
        "job": empty.select(F.lit(0).cast("bigint")),
    }


class Read:
    """A leaf in Python: each task takes every n-th batch of the mapped file."""

    def __init__(self, path: Path, tasks: int) -> None:
        self.path, self.tasks = str(path), tasks

    def __call__(self, pieces: Batches) -> Iterator[pa.RecordBatch]:
        task = sum(piece.column(0).to_pylist()[0] for piece in pieces)
        with pa.memory_map(self.path) as file:
            reader = pa.ipc.open_file(file)
            numbers = range(task, reader.num_record_batches, self.tasks)
            yield from added(reader.get_batch(number) for number in numbers)


def added(pieces: Batches) -> Iterator[pa.RecordBatch]:
    """All numbers and the bytes of all texts, as one sum."""
    yield one(sum(total(piece) for piece in pieces))


def nothing(pieces: Batches) -> Iterator[pa.RecordBatch]:
    for _ in pieces:
        pass
    yield one(0)


def total(rows: pa.RecordBatch | pa.Table) -> int:
    numbers = sum(pc.sum(rows.column(name)).as_py() or 0 for name in NUMBERS)
    return numbers + (pc.sum(pc.binary_length(rows.column("note"))).as_py() or 0)


def one(value: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], pa.int64())], names=["total"])


def planned(frame: DataFrame) -> Callable[[], int]:
    """What runs the plan, made once, and gives the sum of its rows."""
    plan: Any = frame._jdf.queryExecution().executedPlan()

    def run() -> int:
        rows = plan.clone().executeCollect()
        return sum(rows[place].getLong(0) for place in range(len(rows)))

    return run


if __name__ == "__main__":
    raise SystemExit(main())
