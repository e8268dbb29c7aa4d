"""Very many small steps: nothing may pile up. Files, memory, references and compiled classes are watched.

python -m benchmarks.endurance [--steps 100000] [--every 1000]

Each step inserts, updates and deletes a few rows of a table of constant size, through the maintainer that the product
runs: steps are recorded and published, checkpoints taken, runs merged, files collected. One JSON line every so many
steps; the last line compares the end of the run with its second tenth, and the exit status is 1 when something grew.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from py4j.java_gateway import JavaObject

from benchmarks.bench import report
from headrace.catalog.store import Catalog
from headrace.engine.compile import Compiler
from headrace.engine.maintain import Maintainer
from headrace.engine.session import open_session
from headrace.engine.swap import swap
from headrace.log.append import LogWriter
from headrace.model.definition import Settings, ViewDefinition
from headrace.model.schema import Column, Relation
from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin

ORDERS = Relation(
    "orders", (Column("id", "bigint", False), Column("region", "int"), Column("amount", "bigint")), ("id",)
)
VIEWS = {
    "revenue": "select region, count(*) orders, sum(amount) revenue from orders group by region",
    "largest": "select region, max(amount) amount from orders group by region",
}
ROWS, CHANGES = 1000, 5
INSERT, DELETE = 0, 2
# What may be seen to grow between the second tenth of a run and its end: a share, and a margin for small numbers.
GROWTH = {
    "files": (1.5, 200), "heap_mib": (1.5, 100), "driver_mib": (1.3, 100), "workers_mib": (1.5, 100),
    "references": (1.2, 200), "objects": (1.2, 20_000), "descriptors": (1.2, 50), "compiled": (1.0, 5),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument(
        "--every", type=int, default=1000, help="steps between two looks, of which there are five at least"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = run(Path(folder), chosen.steps, min(chosen.every, max(chosen.steps // 5, 1)))
    early = seen[len(seen) // 5]
    grown = {
        name: (early[name], seen[-1][name])
        for name, (share, margin) in GROWTH.items()
        if seen[-1][name] > share * early[name] + margin
    }
    report(benchmark="endurance", steps=chosen.steps, seconds=round(seen[-1]["at"]), grown=grown)
    return 1 if grown else 0


def run(folder: Path, steps: int, every: int) -> list[dict[str, float]]:
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")  # shuffle files and blocks, to be counted
    settings = Settings(driver_memory="1g", checkpoint_seconds=10)
    spark = open_session(settings)
    catalog, log = Catalog(folder / "catalog.db"), LogWriter(folder / "log")
    maintainer = Maintainer(spark, folder, catalog, log, settings, lambda event: None)
    maintainer.recover({}, {})
    definitions = [ViewDefinition(name, sql) for name, sql in VIEWS.items()]
    views = Compiler(spark).compile({"orders": ORDERS}, definitions, {}).views
    swap(maintainer, {"orders": ORDERS}, views, set())
    random, began, seen = np.random.default_rng(0), time.monotonic(), []
    append(log, np.arange(ROWS), random)
    for step in range(1, steps + 1):
        append(log, random.integers(0, ROWS, CHANGES), random)
        maintainer.step()
        maintainer.tidy()
        if step % every == 0:
            maintainer.checkpoint()  # so that what is counted does not depend on when the last one was
            found = {"step": step, "at": time.monotonic() - began, **watched(spark, folder)}
            seen.append(found)
            report(benchmark="endurance so far", **{k: round(v, 1) for k, v in found.items()})
    maintainer.close()
    log.close()
    spark.stop()
    return seen


def append(log: LogWriter, ids: np.ndarray, random: np.random.Generator) -> None:
    """One transaction: most rows replaced, some deleted."""
    deleted = random.random(len(ids)) < 0.2
    columns: dict[str, Any] = {
        ORDINAL: pa.array(np.zeros(len(ids), np.int32)),
        OPERATION: pa.array(np.where(deleted, DELETE, INSERT).astype(np.int8)),
        "id": pa.array(ids),
        "region": pa.array(random.integers(0, 20, len(ids)).astype(np.int32)),
        "amount": pa.array(random.integers(-100, 1000, len(ids))),
    }
    origin = TransactionOrigin("endurance", str(log.end), time.time_ns() // 1000)
    log.append(TransactionBatch((origin,), {"orders": pa.table(columns)}))


def watched(spark: Any, folder: Path) -> dict[str, float]:
    """What could pile up, after both garbage collectors have run."""
    gc.collect()
    jvm = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    objects, me = gc.get_objects(), psutil.Process()
    workers = [p for p in me.children(recursive=True) if p.name().startswith("python")]
    return {
        "files": sum(len(files) for root in (folder / "state", folder / "local") for _, _, files in os.walk(root)),
        "heap_mib": (runtime.totalMemory() - runtime.freeMemory()) / (1 << 20),
        "driver_mib": (me.memory_info().rss - me.memory_info().shared) / (1 << 20),  # mapped files are page cache
        "workers_mib": sum(p.memory_full_info().uss for p in workers) / (1 << 20),
        "references": sum(isinstance(o, JavaObject) for o in objects),
        "objects": len(objects),
        "descriptors": me.num_fds(),
        "compiled": jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount(),
    }


if __name__ == "__main__":
    sys.exit(main())
