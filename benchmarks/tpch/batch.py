"""The 22 queries computed anew over Parquet files, by plain Spark or by DuckDB, each as it comes.

python -m benchmarks.tpch.batch --data FOLDER --engine spark [--rounds 3] [--memory 2g]

One JSON line: the seconds of each round, of the clock and of a processor, without what starting the engine takes, and
those of each query in the first round; a query's rows are brought into this process.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.bench import processor_seconds, report
from benchmarks.tpch.tables import KEYS, QUERIES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a Parquet file for each table")
    parser.add_argument("--engine", choices=["spark", "duckdb"], required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="of the JVM")
    chosen = parser.parse_args()
    run = spark(chosen.data, chosen.memory) if chosen.engine == "spark" else plain(chosen.data)
    rounds, cold = [], dict[str, float]()
    for _ in range(chosen.rounds):
        began, busy = time.perf_counter(), processor_seconds()
        for name, sql in QUERIES.items():
            asked = time.perf_counter()
            run(sql)
            cold.setdefault(name, round(time.perf_counter() - asked, 3))
        rounds.append((round(time.perf_counter() - began, 3), round(processor_seconds() - busy, 2)))
    report(benchmark="tpch batch", engine=chosen.engine, rounds=rounds, cold=cold)


def spark(folder: Path, memory: str) -> Callable[[str], Any]:
    """Spark as it comes but for its memory, UTC, and as many partitions after a shuffle as there are cores: the 200
    that it has by itself are for a cluster, and would make it look slow here."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", memory)
    builder = builder.config("spark.sql.shuffle.partitions", os.cpu_count() or 1)
    for quiet in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(quiet, "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for name in KEYS:
        session.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    return lambda sql: session.sql(sql).toArrow()


def plain(folder: Path) -> Callable[[str], Any]:
    connection = duckdb.connect()
    for name in KEYS:
        connection.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
    return lambda sql: connection.sql(sql).to_arrow_table()


if __name__ == "__main__":
    main()
